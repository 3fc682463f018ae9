"""The robustness indicator (ERI) of each vote at one input, and the radii that follow from it.

The radii are those of `theory.conditions` for the soft-smoothed members. These are beta-smooth with
beta = 2 / sigma^2 (the paper's), or 0.484 / sigma^2, the least valid one
(`smoothness.sharp_smoothness_bound`). No beta is known for members without smoothing: they have no radii.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from shieldwall.ensembles.votes import default_vote_names
from shieldwall.theory.conditions import Conditions, max_margin_conditions, weighted_conditions
from shieldwall.theory.first_order import (
    FirstOrder,
    Floats,
    Labels,
    jackknife,
    max_margin_estimate,
    max_margin_radius_estimate,
    weighted_estimate,
)
from shieldwall.theory.smoothness import sharp_smoothness_bound, smoothness_bound


@dataclass(frozen=True)
class VoteIndicator:
    """A vote against the rival class with its largest ERI; NaN, or -1, where the theory has no number."""

    rival: int = -1
    margin: float = math.nan
    slope: float = math.nan
    """The norm of the margin's gradient."""
    eri: float = math.nan
    eri_error: float = 0.0
    """The standard error of `eri`."""
    certified_radius: float = math.nan
    """The largest radius with the sufficient condition, for beta = 2 / sigma^2."""
    certified_radius_sharp: float = math.nan
    """The same for the least valid beta."""
    certified_radius_error: float = 0.0
    """The standard error of `certified_radius_sharp`."""
    possible_radius: float = math.nan
    """The largest radius with the necessary condition, for the least valid beta; infinite if all have it."""


def plain_indicators(plain: FirstOrder, r: float) -> dict[str, VoteIndicator]:
    """Every member, WE and MME at the one input of `first_order`; MME has an ERI of two members only."""
    members, of_run = len(plain.margins), (plain.margins, plain.gradients)
    conditions = [weighted_conditions(*of_run, weights, beta=0.0) for weights in _weights(members)]
    indicators = [_strongest_rival(of_vote, plain.rivals, r) for of_vote in conditions]
    mme = VoteIndicator()
    if members == 2:
        mme = _strongest_rival(max_margin_conditions(*of_run, beta=0.0), plain.rivals, r)
    return dict(zip(default_vote_names(members), [*indicators, mme], strict=True))


def soft_indicators(soft: FirstOrder, r: float, sigma: float) -> dict[str, VoteIndicator]:
    """The same at the one input of `smoothed_first_order`, with radii and standard errors."""
    betas = smoothness_bound(sigma), sharp_smoothness_bound(sigma)
    members = soft.margins.shape[1]
    estimators = [partial(weighted_estimate, weights=weights) for weights in _weights(members)]
    indicators = [_estimated(estimator, soft, r, betas) for estimator in estimators]
    if members == 2:
        mme = _estimated(max_margin_estimate, soft, r, betas)
    else:
        printed = max_margin_radius_estimate(soft.margins, soft.gradients, beta=betas[0])
        sharp = jackknife(partial(max_margin_radius_estimate, beta=betas[1]), soft.margins, soft.gradients)
        mme = VoteIndicator(
            certified_radius=float(printed[0]),
            certified_radius_sharp=float(sharp.value[0]),
            certified_radius_error=float(sharp.error[0]),
        )
    return dict(zip(default_vote_names(members), [*indicators, mme], strict=True))


def _estimated(
    conditions: Callable[..., Conditions], soft: FirstOrder, r: float, betas: tuple[float, float]
) -> VoteIndicator:
    printed, sharp = (conditions(soft.margins, soft.gradients, beta=beta) for beta in betas)
    strongest = int(sharp.eri(r)[0].argmax())

    def eri_and_radius(margins: Floats, gradients: Floats) -> Floats:
        left_out = conditions(margins, gradients, beta=betas[1])
        return np.array([left_out.eri(r)[0, strongest], left_out.certified_radius()[0]])

    eri_error, radius_error = jackknife(eri_and_radius, soft.margins, soft.gradients).error
    return replace(
        _strongest_rival(sharp, soft.rivals, r),
        eri_error=float(eri_error),
        certified_radius=float(printed.certified_radius()[0]),
        certified_radius_sharp=float(sharp.certified_radius()[0]),
        certified_radius_error=float(radius_error),
        possible_radius=float(sharp.possible_radius()[0]),
    )


def _strongest_rival(conditions: Conditions, rivals: Labels, r: float) -> VoteIndicator:
    eri = conditions.eri(r)[0]
    strongest = int(eri.argmax())
    # For MME the rivals are pairs of classes, the first member's varying slowest: that one is reported.
    rival = rivals[0, strongest * rivals.shape[1] // len(eri)]
    numbers = (conditions.margin[0, strongest], conditions.slope[0, strongest], eri[strongest])
    return VoteIndicator(int(rival), *map(float, numbers))


def _weights(members: int) -> list[Floats]:
    """Each member alone, then all of them equally."""
    return [*np.eye(members), np.ones(members)]
