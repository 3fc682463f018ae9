"""What every stage needs: the run's noise and members, one of its votes as a classifier."""

import torch
from rich.console import Console
from torch import nn

from shieldwall.data.splits import Dataset, Split
from shieldwall.ensembles.ensemble import MaxMarginEnsemble, WeightedEnsemble
from shieldwall.ensembles.votes import default_vote_names
from shieldwall.errors import UserError, unknown_name
from shieldwall.models.members import to_device
from shieldwall.models.registry import build_members
from shieldwall.noise.distributions import Noise
from shieldwall.noise.exact import ExactGaussian
from shieldwall.noise.registry import noise_by_name
from shieldwall.recipes import Recipe
from shieldwall.results.run import Run
from shieldwall.vocabulary import MME, WE

QUIET = Console(quiet=True)


def noise_of(recipe: Recipe, *, exact: bool = False) -> Noise:
    """The noise that the recipe's members are trained with, or its exact form."""
    if not exact:
        return noise_by_name(recipe.noise, recipe.sigma)
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
    members = build_members(recipe.model, recipe.members, classes, shape, recipe.seed)
    run.load_members(members)
    return [to_device(member, device).eval() for member in members]


def training_part(recipe: Recipe, dataset: Dataset) -> Split:
    """The training images that the members may see."""
    if not recipe.holdout_every:
        return dataset.train
    return dataset.train.subset([row for row in range(len(dataset.train)) if row % recipe.holdout_every])


def held_out_part(recipe: Recipe, dataset: Dataset) -> Split:
    """The training images that no member has seen."""
    if not recipe.holdout_every:
        raise UserError(
            "the run kept no images from training to tune weights on; train one with --set holdout_every=10"
        )
    return dataset.train.subset(range(0, len(dataset.train), recipe.holdout_every))


def classifier_of(vote: str, members: list[nn.Module]) -> nn.Module:
    """The module whose argmax is the vote called `vote`."""
    if vote == WE:
        return WeightedEnsemble(members)
    if vote == MME:
        return MaxMarginEnsemble(members)
    names = default_vote_names(len(members))
    if vote not in names:
        raise unknown_name("vote", vote, names)
    return members[names.index(vote)]
