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
from torch import Tensor, nn

from shieldwall.console import progress_bar
from shieldwall.data import datasets
from shieldwall.data.splits import Dataset
from shieldwall.devices import resolve_device
from shieldwall.ensembles.ensemble import MaxMarginEnsemble, WeightedEnsemble
from shieldwall.ensembles.votes import default_vote_names, vote_set
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Gaussian
from shieldwall.recipes import Certification
from shieldwall.results import environment
from shieldwall.results.run import Run
from shieldwall.smoothing.plan import Plan
from shieldwall.smoothing.sampler import Sampler
from shieldwall.stages.certify import one_image
from shieldwall.stages.common import QUIET, load_members, noise_of
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
    images = torch.stack([opened.image(index) for index in wanted])
    labels = opened.dataset.test.labels[wanted].to(opened.device)
    with opened.run.lock():
        inputs = list(_diagnose_inputs(opened, wanted, console))
        targets = [*opened.members, WeightedEnsemble(opened.members), MaxMarginEnsemble(opened.members)]
        transfer = attack_transfer(
            opened.members, images.to(opened.device), labels, epsilon=epsilon, targets=targets
        )
        opened.run.note_environment("diagnose", environment.describe(opened.device))
    settings = {"draws": draws, **opened.plan.settings()}
    return Diagnosis(inputs, opened.r, opened.noise.sigma, epsilon, transfer, settings)


@dataclass(frozen=True)
class _Opened:
    """A trained run and how it is to be diagnosed."""

    run: Run
    dataset: Dataset
    members: list[nn.Module]
    noise: Gaussian
    device: torch.device
    r: float
    draws: int
    plan: Plan

    def image(self, index: int) -> Tensor:
        return one_image(self.dataset.test, self.noise, index)


def _open(
    path: Path | str,
    r: float | None,
    draws: int,
    n: int | None,
    seed: int | None,
    data_dir: Path | None,
    device: str | None,
) -> _Opened:
    run = Run(path)
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
    chosen_device = resolve_device(device)
    dataset = datasets.load(recipe.data, data_dir)
    plan = Plan(noise, math.prod(dataset.shape), certification, recipe.seed if seed is None else seed)
    members = load_members(run, dataset, chosen_device)
    return _Opened(run, dataset, members, noise, chosen_device, radius, draws, plan)


def _wanted_inputs(opened: _Opened, every: int | None, limit: int | None) -> list[int]:
    available = len(opened.dataset.test)
    spread = 1 if limit is not None else math.ceil(available / DEFAULT_INPUTS)
    certification: Certification = replace(
        opened.run.recipe.certification, every=spread if every is None else every, limit=limit
    )
    return list(range(0, available, certification.every)[: certification.limit])


def _diagnose_inputs(opened: _Opened, wanted: Sequence[int], console: Console) -> Iterator[AtInput]:
    votes = vote_set(default_vote_names(len(opened.members)), len(opened.members))
    sampler = Sampler.of_plan(
        opened.members, votes, opened.plan, shape=opened.dataset.shape, device=opened.device
    )
    began = time.perf_counter()
    all_counts = sampler.counts((index, opened.image(index)) for index in wanted)
    with progress_bar(console, f"diagnosing at {len(wanted)} inputs", len(wanted)) as show:
        for done, counts in enumerate(all_counts, start=1):
            certificates = opened.plan.certificates(counts, votes)
            yield diagnose_input(
                opened.members, opened.image(counts.index).to(opened.device),
                int(opened.dataset.test.labels[counts.index]), opened.noise,
                r=opened.r, draws=opened.draws, seed=opened.plan.seed, index=counts.index,
                predicted={vote: int(made.labels[0]) for vote, made in certificates.items()},
                radii={vote: float(made.radii[0]) for vote, made in certificates.items()},
            )  # fmt: skip
            show(done, f"{done / (time.perf_counter() - began):.3g} inputs/s")
