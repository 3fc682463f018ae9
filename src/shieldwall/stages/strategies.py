"""members -> comparison: the ensemble smoothed against an ensemble of the smoothed, on the same draws.

member-i, we, mme           counted, make WE, MME and EAS of all members;
mme-a-b, agree-a-b, a < b   besides, MME and EAS of two members and the corollary's estimates.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from shieldwall import data
from shieldwall.console import progress_bar
from shieldwall.devices import resolve_device
from shieldwall.ensembles.votes import Vote, named, pair_names, standard
from shieldwall.errors import UserError
from shieldwall.files import write_atomic
from shieldwall.report.strategies import Certified, Comparison, Pair, as_tsv
from shieldwall.results import environment
from shieldwall.results.run import Run
from shieldwall.smoothing.build import engine_for
from shieldwall.smoothing.certificates import Certificates
from shieldwall.smoothing.engine import Counted
from shieldwall.smoothing.plan import Plan
from shieldwall.smoothing.strategies import compare_pair
from shieldwall.stages.certify import one_image, wanted_inputs
from shieldwall.stages.common import QUIET, load_members, noise_of
from shieldwall.vocabulary import EAS

FILE = "strategies.tsv"


def compare_strategies(
    path: Path | str,
    *,
    n0: int | None = None,
    n: int | None = None,
    alpha: float | None = None,
    every: int | None = None,
    limit: int | None = None,
    seed: int | None = None,
    data_dir: Path | None = None,
    device: str | None = None,
    batch_size: int | None = None,
    console: Console = QUIET,
) -> Comparison:
    """Compare both strategies at the recipe's test inputs, into `strategies.tsv` in the run folder.

    What is None comes from the recipe. The draws are those of `certify_run` with the same seed, and so are
    the certificates of WE, MME and EAS with the same n0, n and alpha.
    """
    run = Run(path)
    recipe = run.recipe
    if recipe.members < 2:
        raise UserError(f"comparing strategies takes two members or more; {run.path} has {recipe.members}")
    changes: dict[str, Any] = {"n0": n0, "n": n, "alpha": alpha, "every": every, "limit": limit}
    which = replace(
        recipe.certification, **{key: value for key, value in changes.items() if value is not None}
    )
    where = resolve_device(device)
    dataset = data.load(recipe.data, data_dir)
    members = load_members(run, dataset, where)
    votes = standard(len(members)) + [named(name, len(members)) for name in pair_names(len(members))]
    plan = Plan(
        noise_of(recipe), math.prod(dataset.shape),
        n0=which.n0, n=which.n, alpha=which.alpha, seed=recipe.seed if seed is None else seed,
    )  # fmt: skip
    engine = engine_for(
        members, votes, plan.noise, plan.n0, plan.stopping,
        shape=dataset.shape, device=where, seed=plan.seed, batch_size=batch_size,
    )  # fmt: skip
    wanted = wanted_inputs(which, len(dataset.test))
    images = ((index, one_image(dataset.test, plan.noise, index)) for index in wanted)
    with run.lock():
        read = _read(engine.counts(images), votes, plan, len(members), len(wanted), console)
        found = _comparison(read, dataset.test.labels[list(wanted)].numpy(), plan, len(members))
        run.note_environment("strategies", environment.describe(where))
        write_atomic(run.path / FILE, as_tsv(found).encode())
    return found


@dataclass(frozen=True)
class _AtInput:
    """What the draws of one input say."""

    index: int
    counts: dict[str, Tensor]
    """(K,) by vote: the draws of the bounds."""
    certificates: dict[str, Certificates]
    """By vote that is a classifier, and of ensemble-after-smoothing: `eas`, `eas-1-2`, ..."""


def _read(
    counted: Iterable[Counted], votes: Sequence[Vote], plan: Plan, members: int, total: int, console: Console
) -> list[_AtInput]:
    """Certificates from counts as they come, with progress on the console."""
    began = time.perf_counter()
    read: list[_AtInput] = []
    with progress_bar(console, f"comparing at {total} inputs, {len(votes)} votes", total) as show:
        for one in counted:
            read.append(_at_input(one, votes, plan, members))
            show(len(read), f"{len(read) / (time.perf_counter() - began):.3g} inputs/s")
    return read


def _at_input(one: Counted, votes: Sequence[Vote], plan: Plan, members: int) -> _AtInput:
    classifiers = [k for k, vote in enumerate(votes) if not vote.may_elect_nobody]
    before = plan.certificates(one.index, one.selection[classifiers], one.counts[classifiers])
    certificates = {votes[k].name: before[row : row + 1] for row, k in enumerate(classifiers)}
    groups = {EAS: range(members)} | {f"{EAS}-{name}": pair for name, pair in _pairs(members).items()}
    for name, group in groups.items():
        rows = list(group)
        certificates[name] = plan.after_smoothing(one.selection[rows], one.counts[rows])
    return _AtInput(one.index, {vote.name: one.counts[k] for k, vote in enumerate(votes)}, certificates)


def _comparison(read: Sequence[_AtInput], truth: NDArray[np.int64], plan: Plan, members: int) -> Comparison:
    def certified(name: str) -> Certified:
        found = Certificates.joined([one.certificates[name] for one in read])
        return Certified(found.labels.numpy(), found.radii.numpy())

    def counts(vote: str) -> NDArray[np.int64]:
        return torch.stack([one.counts[vote] for one in read]).numpy()

    def pair(name: str, a: int, b: int) -> Pair:
        estimates = compare_pair(
            counts(f"member-{a + 1}"), counts(f"member-{b + 1}"), counts(f"mme-{name}"),
            counts(f"agree-{name}"), truth, plan.n, plan.noise,
        )  # fmt: skip
        return Pair(estimates, certified(f"mme-{name}"), certified(f"{EAS}-{name}"))

    return Comparison(
        np.array([one.index for one in read]), truth,
        certified("we"), certified("mme"), certified(EAS),
        {name: pair(name, *of) for name, of in _pairs(members).items()},
        plan.settings(),
    )  # fmt: skip


def _pairs(members: int) -> dict[str, tuple[int, int]]:
    """Every two members, counted from 0, by the names of their votes: `1-2` and so on."""
    return {f"{a + 1}-{b + 1}": (a, b) for a, b in combinations(range(members), 2)}
