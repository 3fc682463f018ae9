"""What every stage needs: a device, the run's noise and members, one of its votes as a classifier."""

import torch
from rich.console import Console
from torch import nn

from shieldwall import devices, models
from shieldwall.data.splits import Dataset, Split
from shieldwall.ensembles import MaxMarginEnsemble, WeightedEnsemble
from shieldwall.ensembles.votes import standard_names
from shieldwall.errors import UserError, unknown
from shieldwall.recipes import Recipe
from shieldwall.results.run import Run
from shieldwall.smoothing import ExactGaussian, noise

QUIET = Console(quiet=True)


def choose_device(name: str | None) -> torch.device:
    """The device asked for, or the fastest one there is."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return devices.usable(name)


def noise_of(recipe: Recipe, *, exact: bool = False) -> noise.Noise:
    """The noise that the recipe's members are trained with, or its exact form."""
    if not exact:
        return noise.named(recipe.noise, recipe.sigma)
    if recipe.noise != "gaussian":
        raise UserError(f"--exact-noise is Gaussian; the run was trained with {recipe.noise} noise")
    return ExactGaussian(recipe.sigma)


def load_members(run: Run, dataset: Dataset, device: torch.device) -> list[nn.Module]:
    """The run's trained members, ready to classify."""
    return trained_members(run, len(dataset.classes), dataset.shape, device)


def trained_members(
    run: Run, classes: int, shape: tuple[int, int, int], device: torch.device
) -> list[nn.Module]:
    """The same without the data, for images of this shape and so many classes."""
    recipe = run.recipe
    members = models.build_members(recipe.model, recipe.members, classes, shape, recipe.seed)
    run.load_members(members)
    return [models.place(member, device).eval() for member in members]


def training_part(recipe: Recipe, dataset: Dataset) -> Split:
    """The training images that the members may see."""
    if not recipe.hold_out:
        return dataset.train
    return dataset.train.subset([row for row in range(len(dataset.train)) if row % recipe.hold_out])


def held_out_part(recipe: Recipe, dataset: Dataset) -> Split:
    """The training images that no member has seen."""
    if not recipe.hold_out:
        raise UserError(
            "the run kept no images from training to tune weights on; train one with --set hold_out=10"
        )
    return dataset.train.subset(range(0, len(dataset.train), recipe.hold_out))


def classifier_of(vote: str, members: list[nn.Module]) -> nn.Module:
    """The module whose argmax is the vote called `vote`."""
    if vote == "we":
        return WeightedEnsemble(members)
    if vote == "mme":
        return MaxMarginEnsemble(members)
    names = standard_names(len(members))
    if vote not in names:
        raise unknown("vote", vote, names)
    return members[names.index(vote)]
