"""Any model as a classifier: from images in [0, 1] to scores, a tensor (B, K).

model       a torch module, a function of tensors or of NumPy arrays, a scikit-learn classifier
its output  scores (B, K), an object with .logits, or a dictionary or tuple with one table (B, K) in it
"""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import UserError, check, describe, require
from shieldwall.models.members import check_model, infer_device, inference

UNIT = (0.0, 1.0)
_MODES = {0: "nearest-exact", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers of filters, as torch calls them
# The steps of an image processor that `Classifier` does; another one that is on is refused.
_KNOWN = {"do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb"}


def checked_range(given: Any) -> tuple[float, float]:
    try:
        low, high = map(float, given)
    except (TypeError, ValueError):
        low = high = math.nan
    check(low < high, "value_range must be two numbers, such as (0, 1), or None", repr(given))
    return low, high


class Classifier(nn.Module):
    """Any model as a module from images in [0, 1], (B, C, H, W), to scores (B, K).

    `value_range` is that of the pixels that the model takes. The `processor` of a Hugging Face image
    classifier has the size, mean and standard deviation that are applied here.
    """

    def __init__(self, model: Any, *, value_range: tuple[float, float] = UNIT, processor: Any = None) -> None:
        super().__init__()
        if not hasattr(model, "predict_proba"):
            check_model(model)
        self.model = model
        self.value_range = checked_range(value_range)
        # In the state too: a file of weights is never empty, even for a model without any.
        self.register_buffer("pixel_range", torch.tensor(value_range, dtype=torch.float32))
        self.steps = None if processor is None else _steps(processor)
        if hasattr(model, "num_estimators"):
            self.num_estimators = model.num_estimators
        # How the model is called; found at the first call of what is no module.
        self.form = "tensors" if isinstance(model, nn.Module) else ""

    @classmethod
    def from_pretrained(cls, path: str | Path) -> "Classifier":
        """A Hugging Face image classifier from the folder of its checkpoint, with its processor."""
        require("hub", "a Hugging Face checkpoint")
        import transformers

        if not Path(path, "config.json").is_file():
            raise UserError(f"{path} is not the folder of a checkpoint: there is no config.json in it")
        parts = (transformers.AutoModelForImageClassification, transformers.AutoImageProcessor)
        model, processor = (part.from_pretrained(path, local_files_only=True) for part in parts)
        return cls(model, processor=processor).eval()

    def forward(self, x: Tensor) -> Tensor:
        low, high = self.value_range
        if self.steps is not None:
            x = _processed(x, self.steps)
        elif (low, high) != UNIT:
            x = low + (high - low) * x
        scores: Tensor = scores_of(_call(self.model, x, self.form)) if self.form else self._first_scores(x)
        return scores

    def _first_scores(self, x: Tensor) -> Any:
        """The scores in the first form in which the model can be called."""
        errors: list[Exception] = []
        for form in ["rows"] if hasattr(self.model, "predict_proba") else ["tensors", "arrays", "rows"]:
            try:
                if is_scores(scores := scores_of(_call(self.model, x, form)), len(x)):
                    self.form = form
                return scores
            except Exception as error:  # the code is the user's, and may fail in any way
                errors.append(error)
        raise errors[0]


def _call(model: Any, x: Tensor, form: str) -> Any:
    """The output for tensors, arrays, or a row of numbers for each image, as scikit-learn's take them."""
    if form == "tensors":
        return model(x)
    array = x.detach().cpu().float()
    if form == "arrays":
        return model(array.numpy())
    return getattr(model, "predict_proba", model)(array.flatten(1).numpy())


def scores_of(output: Any) -> Any:
    """The scores in what a model returns; what has none is returned as it is."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, np.ndarray):
        return torch.from_numpy(output)
    if hasattr(output, "logits"):
        return scores_of(output.logits)
    if isinstance(output, Mapping) and "logits" in output:
        return scores_of(output["logits"])
    if not isinstance(output, Mapping | tuple | list):
        return output
    parts = list(output.values() if isinstance(output, Mapping) else output)
    tables = [part for part in parts if isinstance(part, Tensor | np.ndarray) and part.ndim == 2]
    if len(tables) < 2:
        return scores_of(tables[0]) if tables else output
    shapes = ", ".join(str(tuple(getattr(part, "shape", ()))) for part in parts)
    values = f"{len(parts)} values of shapes {shapes}, and it is not clear which are the scores (B, K)"
    advice = "pass a function that returns them, such as lambda x: model(x)[1]"
    raise UserError(f"the model returns {values}; {advice}")


torch.fx.wrap("scores_of")  # what follows a module's code takes it for one step


def is_scores(scores: object, rows: int) -> bool:
    """Whether these are scores of this number of images: a tensor (B, K) with K >= 2."""
    return isinstance(scores, Tensor) and scores.ndim == 2 and len(scores) == rows and scores.shape[1] > 1


def as_classifier(model: Any, image: Tensor, device: torch.device | str | None = None) -> Any:
    """The model itself if it takes tensors (B, ...), or as a `Classifier`, tried at an image (1, ...)."""
    if hasattr(model, "predict_proba") and not isinstance(model, nn.Module):
        return Classifier(model)
    check_model(model)
    if isinstance(model, nn.Module):
        if any(base.__module__.startswith("transformers.") for base in type(model).__mro__):
            needed = "a Hugging Face model needs its processor's size, mean and standard deviation"
            raise UserError(f"{needed}: pass sw.Classifier(model, processor=processor)")
        return model
    where = infer_device([model], image, device)
    with inference([model]), torch.random.fork_rng([where] if where.type == "cuda" else []):
        batch = image.to(where)
        for candidate in (model, Classifier(model)):
            try:
                if is_scores(scores_of(candidate(batch)), 1):
                    return candidate
            except Exception:  # it is reported when the model is called as it is
                continue
    return model


def count_members(members: Iterable[object]) -> int:
    """Modules of torch-uncertainty count as their `num_estimators`, all others as one."""
    given = [getattr(m, "num_estimators", 1) if isinstance(m, nn.Module) else 1 for m in members]
    return sum(number if isinstance(number, int) else 1 for number in given)


def member_scores(member: Callable[[Tensor], Any], x: Tensor) -> list[Any]:
    """The scores (B, K) of a member; of one that is several, (N B, K), those of each."""
    scores, several = scores_of(member(x)), count_members([member])
    if several == 1:
        return [scores]
    if not is_scores(scores, rows := several * len(x)):
        given = tuple(scores.shape) if isinstance(scores, Tensor) else describe(scores)
        rule = f"an ensemble of num_estimators = {several} must return scores ({rows}, K), member by member"
        raise UserError(f"{rule}; returned: {given}")
    return list(scores.chunk(several))


def _steps(processor: Any) -> dict[str, Any]:
    said = processor.to_dict()
    other = sorted(name for name in said if said[name] and name.startswith("do_") and name not in _KNOWN)
    if other := other or ["crop_pct"] * bool(said.get("crop_pct")):
        more = f"the processor does more than is known here ({', '.join(other)})"
        raise UserError(f"{more}; pass a function from images in [0, 1] to scores instead")
    factor = said.get("rescale_factor", 1) if said.get("do_rescale") else 1
    steps: dict[str, Any] = {"scale": 255.0 * factor}
    if said.get("do_resize"):
        steps["size"], steps["mode"] = said["size"], _MODES[int(said.get("resample", 2))]
    if said.get("do_center_crop"):
        steps["crop"] = said["crop_size"]["height"], said["crop_size"]["width"]
    if said.get("do_normalize"):
        steps["mean"], steps["std"] = list(said["image_mean"]), list(said["image_std"])
    return steps


def _processed(x: Tensor, steps: Mapping[str, Any]) -> Tensor:
    """Images in [0, 1] as the processor would hand them to the model."""
    if x.shape[1] == 1 and len(steps.get("mean", [])) == 3:
        x = x.expand(-1, 3, -1, -1)
    if "size" in steps:
        (height, width), size = x.shape[-2:], steps["size"]
        edge, shorter = size.get("shortest_edge", 0), min(height, width)
        new = (edge * height // shorter, edge * width // shorter) if edge else (size["height"], size["width"])
        if new != (height, width):
            x = F.interpolate(x, new, mode=steps["mode"], antialias=steps["mode"] != "nearest-exact")
    if "crop" in steps:
        top, left = ((have - want) // 2 for have, want in zip(x.shape[-2:], steps["crop"], strict=True))
        x = x[..., top : top + steps["crop"][0], left : left + steps["crop"][1]]
    if not math.isclose(steps["scale"], 1.0):
        x = x * steps["scale"]
    if "mean" not in steps:
        return x
    mean, std = (torch.tensor(steps[name], dtype=x.dtype, device=x.device) for name in ("mean", "std"))
    return (x - mean[:, None, None]) / std[:, None, None]
