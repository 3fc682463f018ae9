"""How a vote stands at one input: its ERI against the rival that decides, and the radii that follow.

    sufficient: the vote holds up to 2m / (a + sqrt(a^2 + 4 beta m)),   m = margin, a = slope
    necessary:  and not beyond 2m / (a + sqrt(a^2 - 4 beta m)), if that is real

of the soft-smoothed members, with beta = 2 / sigma^2 as in the paper, or 0.484 / sigma^2, the least that
serves (`smoothness.sharp_smoothness_bound`). Members as they are have no beta, so nothing follows from
theirs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from shieldwall.ensembles.votes import default_vote_names
from shieldwall.theory.conditions import Conditions, max_margin_conditions, weighted_conditions
from shieldwall.theory.members import (
    FirstOrder,
    Floats,
    Labels,
    jackknife,
    max_margin_estimate,
    max_margin_radius_estimate,
    weighted_estimate,
)
from shieldwall.theory.smoothness import sharp_smoothness_bound, smoothness_bound

ERRORS = 2.0
"""How many standard errors a verdict keeps away from what would change it."""


@dataclass(frozen=True)
class Standing:
    """A vote against the rival with its largest ERI; NaN and -1 where the theory has no such number."""

    rival: int = -1
    margin: float = math.nan
    slope: float = math.nan
    """The norm of the margin's gradient."""
    eri: float = math.nan
    eri_error: float = 0.0
    """The standard error of `eri`."""
    sure: float = math.nan
    """The largest radius that is sufficient for beta = 2 / sigma^2."""
    sure_sharp: float = math.nan
    """The same for the least beta that serves."""
    sure_error: float = 0.0
    """The standard error of `sure_sharp`."""
    possible: float = math.nan
    """The largest radius that is necessary, for the least beta; infinite if all are."""

    def verdict(self, r: float) -> str:
        """`robust`, `not robust` or `open` within r; two standard errors must agree."""
        if self.sure_sharp - ERRORS * self.sure_error >= r:
            return "robust"
        if self.margin < 0 or self.possible + ERRORS * self.sure_error < r:
            return "not robust"
        return "open"


def plain_standings(found: FirstOrder, r: float) -> dict[str, Standing]:
    """Every member, WE and MME at the one input of `first_order`; MME has an ERI of two members only."""
    members = len(found.margins)
    names = default_vote_names(members)
    standings = {
        name: _decisive(weighted_conditions(found.margins, found.gradients, w, beta=0.0), found.rivals, r)
        for name, w in zip(names, _weights(members), strict=False)
    }
    if members != 2:
        return {**standings, names[-1]: Standing()}
    conditions = max_margin_conditions(found.margins, found.gradients, beta=0.0)
    return {**standings, names[-1]: _decisive(conditions, found.rivals, r)}


def soft_standings(found: FirstOrder, r: float, sigma: float) -> dict[str, Standing]:
    """The same at the one input of `smoothed_first_order`, with radii and standard errors."""
    betas = smoothness_bound(sigma), sharp_smoothness_bound(sigma)
    members = found.margins.shape[1]
    names = default_vote_names(members)
    standings = {
        name: _estimated(partial(weighted_estimate, weights=weights), found, r, betas)
        for name, weights in zip(names, _weights(members), strict=False)
    }
    mme = names[-1]
    if members == 2:
        return {**standings, mme: _estimated(max_margin_estimate, found, r, betas)}
    paper = max_margin_radius_estimate(found.margins, found.gradients, beta=betas[0])
    sharp = jackknife(partial(max_margin_radius_estimate, beta=betas[1]), found.margins, found.gradients)
    radii = float(paper[0]), float(sharp.value[0]), float(sharp.error[0])
    return {**standings, mme: Standing(sure=radii[0], sure_sharp=radii[1], sure_error=radii[2])}


def _estimated(
    conditions: Callable[..., Conditions], found: FirstOrder, r: float, betas: tuple[float, float]
) -> Standing:
    paper, sharp = (conditions(found.margins, found.gradients, beta=beta) for beta in betas)
    worst = int(sharp.eri(r)[0].argmax())

    def eri_and_radius(margins: Floats, gradients: Floats) -> Floats:
        left = conditions(margins, gradients, beta=betas[1])
        return np.array([left.eri(r)[0, worst], left.certified_radius()[0]])

    eri_error, sure_error = jackknife(eri_and_radius, found.margins, found.gradients).error
    decisive = _decisive(sharp, found.rivals, r)
    return Standing(
        decisive.rival, decisive.margin, decisive.slope, decisive.eri, float(eri_error),
        sure=float(paper.certified_radius()[0]),
        sure_sharp=float(sharp.certified_radius()[0]),
        sure_error=float(sure_error),
        possible=float(sharp.possible_radius()[0]),
    )  # fmt: skip


def _decisive(conditions: Conditions, rivals: Labels, r: float) -> Standing:
    eri = conditions.eri(r)[0]
    worst = int(eri.argmax())
    # Of MME the rivals are pairs, the first member's varying slowest: its own is shown.
    rival = rivals[0, worst * rivals.shape[1] // len(eri)]
    return Standing(
        int(rival), float(conditions.margin[0, worst]), float(conditions.slope[0, worst]), float(eri[worst])
    )


def _weights(members: int) -> list[Floats]:
    """Each member alone, then all of them alike."""
    return [*np.eye(members), np.ones(members)]
