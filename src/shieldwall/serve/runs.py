"""What is served: trained runs on one data set, told apart by family and sigma."""

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from torch import nn

from shieldwall import data
from shieldwall.data import Dataset, Split
from shieldwall.data.dataset import ResidentSplit
from shieldwall.devices import resolve_device
from shieldwall.ensembles.votes import Vote, default_votes, vote_by_name
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise
from shieldwall.results.run import Run
from shieldwall.smoothing.inference import Labeler, default_batch_size
from shieldwall.stages.common import load_members, noise_of
from shieldwall.vocabulary import EAS

BATCH_SECONDS = 0.015
"""About how long one batch may take: visitors wait for each other's."""
SMALLEST_BATCH = 16


@dataclass(frozen=True)
class Served:
    """A trained run, ready to classify."""

    family: str
    """What it shares with runs that differ by sigma alone."""
    sigma: float
    noise: Noise
    members: Sequence[nn.Module]
    votes: Mapping[str, Sequence[Vote]]
    """By name, what is counted: the vote itself, or every member's for ensemble-after-smoothing."""
    n0: int
    alpha: float
    batch_size: int


@dataclass(frozen=True)
class Offer:
    """All runs of a page, and the images they are for."""

    data: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    test: Split
    """Empty where the data set is not on this machine."""
    device: torch.device
    runs: tuple[Served, ...]


def offer(paths: Sequence[Path], data_dir: Path | None = None, device: str | None = None) -> Offer:
    """The runs in these folders, which must be trained, and on the same data set."""
    if not paths:
        raise UserError("nothing to serve: give a run folder made by `shieldwall train`")
    runs = [Run(path) for path in paths]
    for run in runs:
        run.check_trained()
        if run.recipe.data != runs[0].recipe.data:
            raise UserError(
                f"one page serves one data set: {runs[0].path} is on {runs[0].recipe.data}, "
                f"{run.path} on {run.recipe.data}; serve them on two ports"
            )
    where = resolve_device(device)
    dataset = _dataset(runs[0].recipe.data, data_dir)
    families = _families(runs)
    served = [_served(run, family, dataset, where) for run, family in zip(runs, families, strict=True)]
    return Offer(dataset.name, dataset.classes, dataset.shape, dataset.test, where, tuple(served))


def _dataset(name: str, data_dir: Path | None) -> Dataset:
    """The data set, without its images where they are not here."""
    shape, classes = data.outline(name)
    if any(one.name == name and one.place is not None for one in data.status(data_dir)):
        return data.load(name, data_dir)
    none = ResidentSplit(torch.empty(0, *shape, dtype=torch.uint8), torch.empty(0, dtype=torch.int64))
    return Dataset(name, none, none, classes, shape)


def _families(runs: Sequence[Run]) -> list[str]:
    """Recipes' names without their sigma; runs that would still be the same are told apart by folder."""
    plain = [re.sub(r"-[0-9.]+$", "", run.recipe.name) for run in runs]
    often = Counter((family, run.recipe.sigma) for family, run in zip(plain, runs, strict=True))
    families = [
        f"{family} ({run.path.resolve().name})" if often[family, run.recipe.sigma] > 1 else family
        for family, run in zip(plain, runs, strict=True)
    ]
    if len({(family, run.recipe.sigma) for family, run in zip(families, runs, strict=True)}) < len(runs):
        raise UserError(f"a run was given twice: {', '.join(str(run.path) for run in runs)}")
    return families


def _served(run: Run, family: str, dataset: Dataset, device: torch.device) -> Served:
    members = load_members(run, dataset, device)
    votes = _votes(len(members), run.tuned_weights())
    return Served(
        family=family,
        sigma=run.recipe.sigma,
        noise=noise_of(run.recipe),
        members=members,
        votes=votes,
        n0=run.recipe.certification.n0,
        alpha=run.recipe.certification.alpha,
        batch_size=_batch_size(members, list(chain.from_iterable(votes.values())), dataset.shape, device),
    )


def _votes(count: int, tuned: Mapping[str, Sequence[float]]) -> dict[str, list[Vote]]:
    *alone, weighted, max_margin = default_votes(count)
    together = {"we": [weighted], "mme": [max_margin], EAS: alone} if count > 1 else {}
    by_method = {f"we-{method}": vote_by_name("we", count, weights) for method, weights in tuned.items()}
    return {
        **together,
        **{vote.name: [vote] for vote in alone},
        **{name: [Vote(name, vote.scores)] for name, vote in by_method.items()},
    }


def _batch_size(
    members: Sequence[nn.Module], votes: Sequence[Vote], shape: tuple[int, int, int], device: torch.device
) -> int:
    """The largest doubling of the smallest batch that is still quick."""
    classify = Labeler(members, votes, device)
    most = default_batch_size(device, shape, draws=100_000)
    size = min(SMALLEST_BATCH, most)
    classify(torch.zeros((size, *shape), device=device))
    while 2 * size <= most:
        began = time.perf_counter()
        classify(torch.zeros((2 * size, *shape), device=device))[0].cpu()
        if time.perf_counter() - began > BATCH_SECONDS:
            break
        size *= 2
    return size
