"""Metrics of certificates.

Every fraction is over ALL inputs, abstentions among them. An input counts at
radius r when it is correct and its certified radius is >= r, which is the field's convention.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.errors import UserError
from shieldwall.results.certificates import Certificates, Floats
from shieldwall.vocabulary import ABSTAIN

_LEAST_RADII, _MOST_RADII = 5, 11
_LEAST_RADIUS = 1e-7
"""Below it, nothing is certified to speak of."""
_SLACK = 1e-9


@dataclass(frozen=True)
class Summary:
    """Certificates in one line: accuracies and rates are fractions in [0, 1], the ACR is a radius."""

    inputs: int
    clean_accuracy: float
    radii: tuple[float, ...]
    certified_accuracy: tuple[float, ...]
    average_certified_radius: float
    abstention_rate: float


def certified_accuracy(certificates: Certificates, radii: ArrayLike) -> Floats:
    """At each r: #{i: correct_i and radius_i >= r} / #inputs; at r = 0 the smoothed accuracy."""
    wanted = np.asarray(radii, dtype=np.float64)
    if not (np.isfinite(wanted) & (wanted >= 0)).all():
        raise UserError(f"a radius must be finite and not negative: {wanted.tolist()}")
    radii_of_correct = np.sort(certificates.radii[certificates.correct])
    below = np.searchsorted(radii_of_correct, wanted, side="left")
    return np.asarray((len(radii_of_correct) - below) / len(certificates), dtype=np.float64)


def curve(certificates: Certificates) -> tuple[Floats, Floats]:
    """The exact curve of certified accuracy A(r), as the points (r_k, A(r_k)) where it steps down.

    r_0 = 0 and r_1 < r_2 < ... are the certified radii of the correct inputs; A is constant
    on each (r_{k-1}, r_k], and 0 after the last.
    """
    radii = np.unique(np.append(certificates.radii[certificates.correct], 0.0))
    return radii, certified_accuracy(certificates, radii)


def clean_accuracy(certificates: Certificates) -> float:
    """#{i: correct_i} / #inputs: the accuracy of the smoothed classifier without an attack."""
    return float(certificates.correct.mean())


def average_certified_radius(certificates: Certificates) -> float:
    """ACR = (1 / #inputs) * sum over i of radius_i * correct_i."""
    return float((certificates.radii * certificates.correct).mean())


def abstention_rate(certificates: Certificates) -> float:
    """#{i: predict_i is "abstain"} / #inputs; not a number where some inputs are not bounded."""
    return float((certificates.labels == ABSTAIN).mean()) if certificates.is_bounded.all() else math.nan


def summary(certificates: Certificates, radii: Sequence[float]) -> Summary:
    """All of the above, the certified accuracy at the given radii."""
    return Summary(
        inputs=len(certificates),
        clean_accuracy=clean_accuracy(certificates),
        radii=tuple(float(r) for r in radii),
        certified_accuracy=tuple(certified_accuracy(certificates, radii).tolist()),
        average_certified_radius=average_certified_radius(certificates),
        abstention_rate=abstention_rate(certificates),
    )


def default_radii(certificates: Sequence[Certificates]) -> Floats:
    """Round radii for a table: multiples of a step from 0 to the largest certified radius.

    The step is the largest of 1, 2.5 and 5 times a power of ten that gives at least 5 radii: so 5 to 10 of
    them. L2 radii keep to the field's grid: from 0.5 on the step is 0.25, doubled until there are at most
    11 radii, and below it they go to 0.2 at least.
    """
    largest = max((float(run.radii[run.correct].max(initial=0.0)) for run in certificates), default=0.0)
    is_l2 = all(run.norm == "l2" for run in certificates)
    if is_l2 or largest < _LEAST_RADIUS:
        largest = max(largest, 0.2)
    if is_l2 and largest >= 0.5:
        step = 0.25
        while largest >= _MOST_RADII * step:
            step *= 2
    else:
        step = _round_step(largest / (_LEAST_RADII - 1))
    # 0.15 / 0.05 is 2.9999999999999996 and 3 * 0.05 is 0.15000000000000002: without the slack
    # and the rounding, an input certified at just 0.15 would not count at 0.15.
    count = math.floor(largest / step + _SLACK)
    return np.array([float(f"{k * step:.10g}") for k in range(count + 1)])


def _round_step(most: float) -> float:
    """The largest of 1, 2.5 and 5 times a power of ten that is at most `most`."""
    power = math.floor(math.log10(most) + _SLACK)
    return max(step for step in (10.0**power * m for m in (1, 2.5, 5)) if step <= most * (1 + _SLACK))
