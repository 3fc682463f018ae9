"""The radii of a table: those shown where none are given, and the largest that n allows."""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from shieldwall.results.certificates import Certificates, Floats

_LEAST_RADII, _MOST_RADII = 5, 11
_LEAST_RADIUS = 1e-7
"""Below it, nothing is certified to speak of."""
_SLACK = 1e-9


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
    count = math.floor(largest / step * (1 + _SLACK))
    return np.array([float(f"{k * step:.10g}") for k in range(count + 1)])


def _round_step(most: float) -> float:
    """The largest of 1, 2.5 and 5 times a power of ten that is at most `most`."""
    power = math.floor(math.log10(most) + _SLACK)
    return max(step for step in (10.0**power * m for m in (1, 2.5, 5)) if step <= most * (1 + _SLACK))


def largest_radius(certificates: Certificates) -> float:
    """sigma Phi^-1(alpha^(1/n)), where all n samples of an input agree; infinite where n sets no limit."""
    n, alpha, sigma = certificates.fixed_n, certificates.alpha, certificates.sigma
    is_gaussian = str(certificates.noise).startswith("gaussian") and certificates.norm == "l2"
    if not (n and alpha and sigma and is_gaussian) or certificates.stopped_early:
        return math.inf
    return max(sigma * NormalDist().inv_cdf(alpha ** (1 / n)), float(certificates.radii.max(initial=0.0)))
