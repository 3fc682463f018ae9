"""What members start from: those of trained runs, or weights of other programs; and a run folder with the
weights of a model that was trained elsewhere, to be certified like any other.

runs/a                                   all members of a run, or of a pretrained name
runs/a/members/member-2.safetensors      one member of a run
resnet.pth, resnet.safetensors           a state dict, also one of `DataParallel`, or under `state_dict`
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml
from torch import Tensor, nn

from shieldwall.data import datasets
from shieldwall.errors import UserError
from shieldwall.files import load_tensors, load_weights
from shieldwall.models.classifier import count_members, is_scores, member_scores
from shieldwall.models.members import inference
from shieldwall.models.registry import models_of, own_members
from shieldwall.recipes import Recipe
from shieldwall.results.checks import Sums, sha256
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.pretrained import resolve_sources

NOT_TRAINED = "none"  # the method of a run whose members were trained elsewhere


@dataclass(frozen=True)
class Start:
    path: Path  # the weights of one member
    run: RunFolder | None  # the run that they are of; None where that is not known
    model: str | None

    def load_into(self, member: nn.Module) -> None:
        state = _state(self.path)
        if state.keys() != member.state_dict().keys():
            state = {name.replace("module.", ""): value for name, value in state.items()}
        network = getattr(member, "network", None)
        if isinstance(network, nn.Module) and state.keys() == network.state_dict().keys():
            member = network  # published weights, without the normalisation
        load_weights(member, state, self.path)

    def description(self) -> str:  # the recipes that made them, or what file they are
        if self.run is None:
            digest = sha256(self.path.read_bytes())
            return yaml.safe_dump({"weights": self.path.name, "sha256": digest}, sort_keys=False)
        before = self.run.path / "start.yaml"
        return "---\n".join([self.run.recipe.to_yaml(), *([before.read_text()] if before.is_file() else [])])


def starting_members(recipe: Recipe) -> list[Start]:
    """What the members start from, one for each, or none; refused where it cannot be theirs."""
    if recipe.init_from is None:
        return []
    starts = [start for source in resolve_sources(recipe.init_from) for start in _starts(source)]
    cannot = "cannot start from"
    if len(starts) != recipe.members:
        what = f"it has {len(starts)} members, the recipe {recipe.members}"
        raise UserError(f"{cannot} {recipe.init_from}: {what}")
    own = models_of(recipe.model, recipe.members)
    models = [start.model or model for start, model in zip(starts, own, strict=True)]
    advice = models[0] if len(set(models)) == 1 else ",".join(models)
    for start, ours, theirs in zip(starts, own, models, strict=True):
        if theirs != ours:
            what = f"its model is {theirs!r}, the recipe's {ours!r}; --set model={advice}"
            raise UserError(f"{cannot} {start.path}: {what}")
        if start.run and (data := start.run.recipe.data) != recipe.data:
            raise UserError(f"{cannot} {start.run.path}: its data is {data!r}, the recipe's {recipe.data!r}")
    return starts


def warnings_of(recipe: Recipe, starts: Iterable[Start]) -> list[str]:
    """How the members to start from were trained in another way than the recipe expects."""
    warnings = []
    for start in starts:
        if start.run is None:
            warnings.append(f"{start.path} does not say with which noise and method it was trained")
            continue
        theirs = start.run.recipe
        (noise, base), (own_noise, own_base) = _trained_with(theirs), _trained_with(recipe)
        for what, other, own in (("noise", noise, own_noise), ("method", base, own_base)):
            if own != other:
                warnings.append(f"{start.run.path} was trained with the {what} {other}, not {own}")
    return list(dict.fromkeys(warnings))


def _starts(source: Path) -> list[Start]:
    if source.is_file() and not (source.parent.parent / "recipe.yaml").is_file():
        return [Start(source, None, None)]
    run = RunFolder(source.parent.parent if source.is_file() else source)
    run.check_trained()
    pairs = zip(run.member_paths(), models_of(run.recipe.model, run.recipe.members), strict=True)
    chosen = [Start(path, run, model) for path, model in pairs if not source.is_file() or path == source]
    Sums.read(run.path).check_files([f"members/{start.path.name}" for start in chosen])
    return chosen


def _trained_with(recipe: Recipe) -> tuple[str, str]:
    """The noise, and the method that trains each member by itself."""
    objective = recipe.objective
    base = objective.get("base", {"name": "gaussian"}) if objective["name"] == "drt" else objective
    return f"{recipe.noise}({recipe.sigma:g})", str(base.get("name"))


def _state(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return load_tensors(path)[0]
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises nearly anything on a file that it did not write
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} is not a file of weights that torch.load reads safely: {reason}") from error
    content = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{path} holds no state dict: give one of `torch.save(model.state_dict(), path)`")
    return content


def adopt_run(model: str, images: Path | str, path: Path | str, *, sigma: float, noise: str = "gaussian",
              labels: Path | str | None = None,
              size: int | None = None) -> tuple[RunFolder, int]:  # fmt: skip
    """The run folder `path` of a model and of the images in a folder, and the number of members. `model` is
    module:function, where the function returns a model or several, or hf:FOLDER; `labels` and `size` are as
    for `Split.from_folder`. An existing run folder must be of the same model and images."""
    options = {"labels": labels, "size": size}
    asked = {name: str(value) for name, value in options.items() if value is not None}
    shape, classes = datasets.dataset_spec(datasets.own_name(images, asked))
    members = own_members(model, len(classes))
    data = datasets.own_name(images, {**asked, "classes": str(_num_classes(model, members, shape))})
    datasets.dataset_spec(data)  # refuses labels beyond the model's classes
    recipe = Recipe(
        name=Path(path).name, summary=f"{model}, trained elsewhere", data=data, model=model, sigma=sigma,
        noise=noise, objective={"name": NOT_TRAINED}, members=len(members),
    )  # fmt: skip
    run = RunFolder.create(path, recipe)
    with run.lock():
        if not run.is_trained():
            run.save_members(members)
            run.seal("recipe.yaml", "members")
    for file, member in zip(run.member_paths(), members, strict=True):
        stored, given = load_tensors(file)[0], member.state_dict()
        if stored.keys() != given.keys() or not all(stored[k].equal(given[k].cpu()) for k in given):
            raise UserError(
                f"{run.path} has other weights than {model} now; choose another folder with --out"
            )
    return run, count_members(members)


def _num_classes(model: str, members: list[nn.Module], shape: tuple[int, int, int]) -> int:
    """The number of classes that the members return for such images."""
    image, counts = torch.zeros(2, *shape), set()
    for member in members:
        try:
            with inference([member]):
                scores = member_scores(member, image)
        except Exception as error:  # the code is the user's, and may fail in any way
            reason = str(error).partition("\n")[0]
            raise UserError(f"model {model!r} does not accept images of shape {shape}: {reason}") from error
        if not all(is_scores(of_one, 2) for of_one in scores):
            raise UserError(f"model {model!r} must return scores (B, K) for images (B, ...)")
        counts |= {of_one.shape[1] for of_one in scores}
    if len(counts) > 1:
        raise UserError(f"model {model!r}: all members must share the classes; they have {sorted(counts)}")
    return int(counts.pop())
