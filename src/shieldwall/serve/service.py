"""What is served: trained runs on one data set, by family and sigma."""

import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from torch import nn

from shieldwall.data import datasets
from shieldwall.data.splits import Dataset, Split, TensorSplit
from shieldwall.devices import resolve_device
from shieldwall.ensembles.votes import Vote, vote_set
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import load_members, noise_of
from shieldwall.smoothing.inference import Labeler, default_batch_size
from shieldwall.vocabulary import VOTE_TITLES, WE, member_vote

BATCH_SECONDS = 0.015  # about how long a batch may take: visitors wait for each other's
SMALLEST_BATCH, BATCH_BYTES = 16, 8 * 2**20  # what a batch may hold: each visitor has one
_SIGMA = re.compile(r"-[0-9.]+$")


@dataclass(frozen=True)
class ServedRun:
    family: str  # what it shares with runs that differ by sigma alone
    sigma: float
    noise: Noise
    members: Sequence[nn.Module]
    votes: Mapping[str, Sequence[Vote]]  # by name, what is counted: itself, or every member's vote for EAS
    n0: int
    alpha: float
    batch_size: int


@dataclass(frozen=True)
class Service:
    data: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    test: Split  # empty where the data set is not on this machine
    device: torch.device
    runs: tuple[ServedRun, ...]


def load_service(paths: Sequence[Path], data_dir: Path | None = None, device: str | None = None) -> Service:
    """The runs in these folders, which must be trained, and on the same data set."""
    if not paths:
        raise UserError("nothing to serve: give a run folder made by `shieldwall train`")
    runs = [RunFolder(path) for path in paths]
    for run in runs:
        run.check_trained()
        if (data := run.recipe.data) != (first := runs[0].recipe.data):
            both = f"{runs[0].path} is on {first}, {run.path} on {data}"
            raise UserError(f"one page serves one data set: {both}; serve them on two ports")
    name, torch_device = runs[0].recipe.data, resolve_device(device)
    if datasets.place(name, data_dir) is not None:
        dataset = datasets.load(name, data_dir)
    else:
        shape, classes = datasets.dataset_spec(name)
        empty = TensorSplit(torch.empty(0, *shape, dtype=torch.uint8), torch.empty(0, dtype=torch.int64))
        dataset = Dataset(name, empty, empty, classes, shape)
    named = zip(runs, _families(runs), strict=True)
    served = tuple(_served_run(run, family, dataset, torch_device) for run, family in named)
    return Service(dataset.name, dataset.classes, dataset.shape, dataset.test, torch_device, served)


def _families(runs: Sequence[RunFolder]) -> list[str]:
    """Recipes' names without their sigma; runs with equal names are named by their folders."""
    names = [_SIGMA.sub("", run.recipe.name) for run in runs]
    repeats = Counter((name, run.recipe.sigma) for name, run in zip(names, runs, strict=True))
    for k, run in enumerate(runs):
        if repeats[names[k], run.recipe.sigma] > 1:
            names[k] += f" ({run.path.resolve().name})"
    if len({(name, run.recipe.sigma) for name, run in zip(names, runs, strict=True)}) < len(runs):
        raise UserError(f"a run was given twice: {', '.join(str(run.path) for run in runs)}")
    return names


def _served_run(run: RunFolder, family: str, dataset: Dataset, device: torch.device) -> ServedRun:
    members, certification = load_members(run, dataset, device), run.recipe.certification
    number, tuned = len(members), run.tuned_weights()
    names = [*(VOTE_TITLES if number > 1 else ()), *(member_vote(k + 1) for k in range(number))]
    names += [f"{WE}-{method}" for method in tuned]
    votes = {name: vote_set([name], number, tuned).counted for name in names}
    batch_size = _batch_size(members, list(chain.from_iterable(votes.values())), dataset.shape, device)
    noise, n0, alpha = noise_of(run.recipe), certification.n0, certification.alpha
    return ServedRun(family, run.recipe.sigma, noise, members, votes, n0, alpha, batch_size)


def _batch_size(members: Sequence[nn.Module], votes: Sequence[Vote], shape: tuple[int, int, int],
                device: torch.device) -> int:  # fmt: skip
    """The largest doubling of the smallest batch that is still quick."""
    classify, most = Labeler(members, votes, device), max(1, BATCH_BYTES // (4 * math.prod(shape)))
    largest = min(most, default_batch_size(device, shape, draws=100_000))
    size = min(SMALLEST_BATCH, largest)
    classify(torch.zeros((size, *shape), device=device))
    while 2 * size <= largest:
        began = time.perf_counter()
        classify(torch.zeros((2 * size, *shape), device=device))[0].cpu()
        if time.perf_counter() - began > BATCH_SECONDS:
            break
        size *= 2
    return size
