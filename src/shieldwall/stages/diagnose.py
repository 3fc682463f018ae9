"""members -> diagnosis: margins, gradients, indicators, transfer and proxies at test inputs of a run.

One pass over the inputs. Certificates are those of `certify_run` with the same seed, n0, n and alpha;
the theory's own estimates have draws of their own.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn

from shieldwall import data
from shieldwall.console import progress_bar
from shieldwall.data import Dataset
from shieldwall.devices import resolve_device
from shieldwall.ensembles.ensemble import MaxMarginEnsemble, WeightedEnsemble, confidences
from shieldwall.ensembles.votes import default_vote_names, default_votes, vote_set
from shieldwall.errors import UserError
from shieldwall.files import disk_errors, write_atomic
from shieldwall.noise.distributions import Gaussian
from shieldwall.recipes import Certification
from shieldwall.report.diagnosis import WE, AtInput, Diagnosis, as_tsv
from shieldwall.report.explanation import Explanation
from shieldwall.results import environment
from shieldwall.results.run import Run
from shieldwall.smoothing.plan import Plan
from shieldwall.smoothing.sampler import Sampler
from shieldwall.stages.certify import one_image
from shieldwall.stages.common import QUIET, load_members, noise_of
from shieldwall.theory.members import cosine, first_order, length, plain_cosine, smoothed_first_order
from shieldwall.theory.proxies import noisy_confidences, proxies
from shieldwall.theory.standing import plain_standings, soft_standings
from shieldwall.theory.transfer import transferability

FOLDER = "theory"
FILE = "diagnosis.tsv"
USUAL_INPUTS = 100
"""Spread evenly over the test inputs, unless told otherwise."""
MOST_DRAWS = 10_000
"""Of a certificate, unless told otherwise: comparing two votes on the same draws takes no more."""
CONFIDENCES_PER_GRADIENT = 5
"""Draws of confidences for each draw of gradients, which cost so much more."""


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
    """What the theory says of a trained run, into the folder `theory` in it.

    Args:
        r: the radius of ERI; by default the noise's sigma.
        attack: the length of the attacks whose transfer is tried; by default twice sigma.
        draws: of gradients, for soft-smoothed members.
        n: draws of a certificate; by default the recipe's, 10,000 at most.
        every, limit: which test inputs; by default about a hundred, spread evenly.
    """
    opened = _opened(path, r, draws, n, seed, data_dir, device)
    inputs = _wanted(opened, every, limit)
    length_of_attack = 2 * opened.noise.sigma if attack is None else attack
    if not (math.isfinite(length_of_attack) and length_of_attack > 0):
        raise UserError(f"the length of attacks must be a positive number; given: {length_of_attack}")
    images = torch.stack([opened.image(index) for index in inputs])
    labels = opened.dataset.test.labels[inputs].to(opened.where)
    with opened.run.lock():
        found = list(_at_inputs(opened, inputs, console))
        targets = [*opened.members, WeightedEnsemble(opened.members), MaxMarginEnsemble(opened.members)]
        transfer = transferability(
            opened.members, images.to(opened.where), labels, epsilon=length_of_attack, targets=targets
        )
        diagnosis = Diagnosis(
            found, opened.r, opened.noise.sigma, length_of_attack, transfer, opened.settings
        )
        opened.run.note_environment("diagnose", environment.describe(opened.where))
        folder = opened.run.path / FOLDER
        with disk_errors(folder):
            folder.mkdir(exist_ok=True)
        write_atomic(folder / FILE, as_tsv(diagnosis).encode())
    return diagnosis


def explain_run(
    path: Path | str,
    index: int,
    *,
    r: float | None = None,
    draws: int = 2_000,
    n: int | None = None,
    seed: int | None = None,
    data_dir: Path | None = None,
    device: str | None = None,
) -> Explanation:
    """What the theory says of one test input; nothing is written.

    The arguments are those of `diagnose_run`.
    """
    opened = _opened(path, r, draws, n, seed, data_dir, device)
    if not 0 <= index < len(opened.dataset.test):
        raise UserError(f"there is no test input {index}: they go from 0 to {len(opened.dataset.test) - 1}")
    (found,) = _at_inputs(opened, [index], QUIET)
    return Explanation(
        found, opened.dataset.classes, opened.r, opened.noise.sigma, opened.plan.certification.n
    )


@dataclass(frozen=True)
class _Opened:
    """A trained run with what is to be done with it."""

    run: Run
    dataset: Dataset
    members: list[nn.Module]
    noise: Gaussian
    where: torch.device
    r: float
    draws: int
    plan: Plan

    @property
    def settings(self) -> dict[str, object]:
        return {"draws": self.draws, **self.plan.settings()}

    def image(self, index: int) -> Tensor:
        return one_image(self.dataset.test, self.noise, index)


def _opened(
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
    which = replace(recipe.certification, bound="one-sided", radii=(), norm=None, precision="float32")
    which = replace(which, n=min(which.n, MOST_DRAWS) if n is None else n)
    where = resolve_device(device)
    dataset = data.load(recipe.data, data_dir)
    plan = Plan(noise, math.prod(dataset.shape), which, recipe.seed if seed is None else seed)
    return _Opened(run, dataset, load_members(run, dataset, where), noise, where, radius, draws, plan)


def _wanted(opened: _Opened, every: int | None, limit: int | None) -> list[int]:
    available = len(opened.dataset.test)
    spread = 1 if limit is not None else math.ceil(available / USUAL_INPUTS)
    which: Certification = replace(
        opened.run.recipe.certification, every=spread if every is None else every, limit=limit
    )
    return list(range(0, available, which.every)[: which.limit])


def _at_inputs(opened: _Opened, inputs: Sequence[int], console: Console) -> Iterator[AtInput]:
    names = default_vote_names(len(opened.members))
    votes = vote_set(names, len(opened.members))
    sampler = Sampler.of_plan(
        opened.members, votes, opened.plan, shape=opened.dataset.shape, device=opened.where
    )
    began = time.perf_counter()
    title = f"diagnosing at {len(inputs)} inputs"
    counted = sampler.counts((index, opened.image(index)) for index in inputs)
    with progress_bar(console, title, len(inputs)) as show:
        for done, one in enumerate(counted, start=1):
            certificates = opened.plan.certificates(one, votes)
            predicted = {name: int(certificates[name].labels[0]) for name in names}
            radii = {name: float(certificates[name].radii[0]) for name in names}
            yield _at_input(opened, one.index, predicted, radii)
            show(done, f"{done / (time.perf_counter() - began):.3g} inputs/s")


def _at_input(
    opened: _Opened, index: int, predicted: Mapping[str, int], radii: Mapping[str, float]
) -> AtInput:
    members, noise = opened.members, opened.noise
    x = opened.image(index)[None].to(opened.where)
    y = opened.dataset.test.labels[[index]].to(opened.where)
    plain = first_order(members, x, y)
    seed = opened.plan.seed
    soft = smoothed_first_order(members, x, y, noise, draws=opened.draws, seed=seed, indices=[index])
    drawn = noisy_confidences(
        members, x[0], noise, draws=CONFIDENCES_PER_GRADIENT * opened.draws, seed=seed, index=index
    )
    of_plain, of_soft = plain_standings(plain, opened.r), soft_standings(soft, opened.r, noise.sigma)
    at_plain, at_soft = (
        int(np.flatnonzero(of.rivals[0] == standing[WE].rival)[0])
        for of, standing in ((plain, of_plain), (soft, of_soft))
    )
    gradients = plain.gradients[:, 0, at_plain]
    soft_gradients = soft.gradients[:, :, 0, at_soft]
    pairs = list(combinations(range(len(members)), 2))
    return AtInput(
        idx=index,
        truth=int(y),
        plain=of_plain,
        soft=of_soft,
        cosines={_pair(i, j): float(plain_cosine(gradients[i], gradients[j])) for i, j in pairs},
        soft_cosines={
            _pair(i, j): float(cosine(soft_gradients[:, i], soft_gradients[:, j])) for i, j in pairs
        },
        member_slopes=[float(length(soft_gradients[:, j])) for j in range(len(members))],
        proxies=proxies(drawn, int(y)),
        answers=_answers(members, x),
        predicted=predicted,
        radii=radii,
    )


def _answers(members: Sequence[nn.Module], x: Tensor) -> dict[str, int]:
    with torch.no_grad():
        everyone = confidences(members, x)
        return {vote.name: int(vote(everyone)) for vote in default_votes(len(members))}


def _pair(i: int, j: int) -> str:
    return f"{i + 1}-{j + 1}"
