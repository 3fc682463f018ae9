"""A model that was trained elsewhere -> a run folder with its weights, to be certified like any other."""

from pathlib import Path

import torch
from torch import nn

from shieldwall.data import datasets
from shieldwall.errors import UserError
from shieldwall.files import load_tensors
from shieldwall.models.classifier import count_members, is_scores, member_scores
from shieldwall.models.members import inference
from shieldwall.models.registry import own_members
from shieldwall.recipes import Recipe
from shieldwall.runs.folder import RunFolder

NOT_TRAINED = "none"  # the method of a run whose members were trained elsewhere


def adopt_run(
    model: str, images: Path | str, path: Path | str,
    *, sigma: float, noise: str = "gaussian", labels: Path | str | None = None, size: int | None = None,
) -> tuple[RunFolder, int]:  # fmt: skip
    """The run folder `path` of a model and of the images in a folder, and the number of members.

    `model` is module:function, where the function returns a model or several, or hf:FOLDER. `labels` and
    `size` are as for `Split.from_folder`. An existing run folder must be of the same model and images.
    """
    options = {"labels": labels, "size": size}
    asked = {name: str(value) for name, value in options.items() if value is not None}
    data = datasets.own_name(images, asked)
    shape, classes = datasets.dataset_spec(data)
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
            what = f"{run.path} has other weights than {model} now"
            raise UserError(f"{what}; choose another folder with --out")
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
