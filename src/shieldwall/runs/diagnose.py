"""members -> diagnosis: what the theory says about a trained run, beside its certificates.

One pass over the test inputs. The certificates are those of `certify_run` with the same seed, n0, n and
alpha; the theory's own estimates use other noise.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from shieldwall.console import progress_bar
from shieldwall.ensembles.ensemble import MaxMarginEnsemble, WeightedEnsemble
from shieldwall.ensembles.votes import default_vote_names
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Gaussian
from shieldwall.recipes import Certification
from shieldwall.runs import environment
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import QUIET, TrainedRun, noise_of
from shieldwall.smoothing.plan import Plan
from shieldwall.theory.diagnosis import AtInput, Diagnosis, diagnose_input
from shieldwall.theory.transferability import attack_transfer

DEFAULT_INPUTS = 100
"""Spread evenly over the test inputs."""
DEFAULT_MAX_N = 10_000
"""Samples of a certificate, if the recipe has more: comparing two votes on the same noise takes no more."""


def diagnose_run(
    path: Path | str,
    *,
    r: float | None = None,
    attack: float | None = None,
    draws: int = 200,
    n: int | None = None,
    every: int | None = None,
    limit: int | None = None,
    seed: int | None = None,
    data_dir: Path | None = None,
    device: str | None = None,
    console: Console = QUIET,
) -> Diagnosis:
    """What the theory says about a trained run. Only its environment file is written.

    Args:
        r: the radius of ERI; by default the noise's sigma.
        attack: the L2 length of the attacks tried on other members; by default twice sigma.
        draws: noise samples for the gradients of soft-smoothed members.
        n: noise samples of a certificate; by default the recipe's, at most 10,000.
        every, limit: which test inputs; by default about a hundred, spread evenly.
    """
    opened = _open(path, r, draws, n, seed, data_dir, device)
    wanted = _wanted_inputs(opened, every, limit)
    epsilon = 2 * opened.noise.sigma if attack is None else attack
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise UserError(f"the length of attacks must be a positive number; given: {epsilon}")
    trained = opened.trained
    images = torch.stack([opened.image(index) for index in wanted])
    labels = trained.dataset.test.labels[wanted].to(trained.device)
    with trained.folder.lock():
        inputs = list(_diagnose_inputs(opened, wanted, console))
        targets = [*trained.members, WeightedEnsemble(trained.members), MaxMarginEnsemble(trained.members)]
        transfer = attack_transfer(trained.members, images, labels, epsilon=epsilon, targets=targets)
        trained.folder.note_environment("diagnose", environment.describe(trained.device))
    settings = {"draws": draws, **opened.plan.settings()}
    return Diagnosis(inputs, opened.r, opened.noise.sigma, epsilon, transfer, settings)


@dataclass(frozen=True)
class _Opened:
    """A trained run and how it is to be diagnosed."""

    trained: TrainedRun
    noise: Gaussian
    r: float
    draws: int
    plan: Plan

    def image(self, index: int) -> Tensor:
        return self.trained.image(self.noise, index).to(self.trained.device)


def _open(
    path: Path | str,
    r: float | None,
    draws: int,
    n: int | None,
    seed: int | None,
    data_dir: Path | None,
    device: str | None,
) -> _Opened:
    run = RunFolder(path)
    recipe = run.recipe
    if recipe.members < 2:
        raise UserError(f"the theory is of two members or more; {run.path} has {recipe.members}")
    noise = noise_of(recipe)
    if not isinstance(noise, Gaussian):
        raise UserError(f"the theory is of Gaussian noise; {run.path} was trained with {recipe.noise} noise")
    radius = noise.sigma if r is None else r
    if not (math.isfinite(radius) and radius > 0):
        raise UserError(f"the radius must be a positive number; given: {radius}")
    certification = replace(
        recipe.certification, n=min(recipe.certification.n, DEFAULT_MAX_N) if n is None else n,
        bound="one-sided", radii=(), norm=None, precision="float32", exact_noise=False,
    )  # fmt: skip
    trained = TrainedRun.open(run, data_dir=data_dir, device=device)
    return _Opened(trained, noise, radius, draws, trained.plan(certification, seed))


def _wanted_inputs(opened: _Opened, every: int | None, limit: int | None) -> list[int]:
    available = len(opened.trained.dataset.test)
    spread = 1 if limit is not None else math.ceil(available / DEFAULT_INPUTS)
    certification: Certification = replace(
        opened.trained.recipe.certification, every=spread if every is None else every, limit=limit
    )
    return list(range(0, available, certification.every)[: certification.limit])


def _diagnose_inputs(opened: _Opened, wanted: Sequence[int], console: Console) -> Iterator[AtInput]:
    trained = opened.trained
    votes = trained.votes(default_vote_names(len(trained.members)))
    sampler = trained.sampler(opened.plan, votes)
    began = time.perf_counter()
    all_counts = sampler.counts((index, opened.image(index)) for index in wanted)
    with progress_bar(console, f"diagnosing at {len(wanted)} inputs", len(wanted)) as show:
        for done, counts in enumerate(all_counts, start=1):
            certificates = opened.plan.certificates(counts, votes)
            yield diagnose_input(
                trained.members, opened.image(counts.index),
                int(trained.dataset.test.labels[counts.index]), opened.noise,
                r=opened.r, draws=opened.draws, seed=opened.plan.seed, index=counts.index,
                predicted={vote: int(made.labels[0]) for vote, made in certificates.items()},
                radii={vote: float(made.radii[0]) for vote, made in certificates.items()},
            )  # fmt: skip
            show(done, f"{done / (time.perf_counter() - began):.3g} inputs/s")
