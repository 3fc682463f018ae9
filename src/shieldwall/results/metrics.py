"""What a table shows of certificates: its radii, and what means over inputs hide.

    A_c(r)  certified accuracy on the inputs of class c
    p_A     how often the true class won under noise, counts[true class] / n, at each input

A few easy classes, or one that a member gives for everything, can carry large radii alone. And since radii
grow without bound as p_A nears 1, ACR rewards making easy inputs easier; the distribution of p_A shows it
(Sun et al. 2024).
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from shieldwall.binomial import clopper_pearson_lower
from shieldwall.results.certificates import Certificates, Floats, Ints

_LEAST_RADII, _MOST_RADII = 5, 11
_LEAST_RADIUS = 1e-7  #: below it, nothing is certified to speak of
_SLACK = 1e-9


def default_radii(certificates: Sequence[Certificates]) -> Floats:
    """Round radii for a table: multiples of a step from 0 to the largest certified radius. The step is the
    largest of 1, 2.5 and 5 times a power of ten that gives at least 5 radii: so 5 to 10 of them. L2 radii
    keep to the field's grid: from 0.5 on the step is 0.25, doubled until there are at most 11 radii, and
    below it they go to 0.2 at least."""
    largest = max((float(run.radii[run.correct].max(initial=0.0)) for run in certificates), default=0.0)
    is_l2 = all(run.norm == "l2" for run in certificates)
    if is_l2 or largest < _LEAST_RADIUS:
        largest = max(largest, 0.2)
    if is_l2 and largest >= 0.5:
        step = 0.25
        while largest >= _MOST_RADII * step:
            step *= 2
    else:
        most = largest / (_LEAST_RADII - 1)
        power = 10.0 ** math.floor(math.log10(most) + _SLACK)
        step = max(multiple * power for multiple in (1, 2.5, 5) if multiple * power <= most * (1 + _SLACK))
    # 0.15 / 0.05 is 2.9999999999999996: without slack and rounding, a radius of 0.15 would not count there.
    count = math.floor(largest / step * (1 + _SLACK))
    return np.array([float(f"{k * step:.10g}") for k in range(count + 1)])


def largest_radius(certificates: Certificates) -> float:
    """sigma Phi^-1(alpha^(1/n)), where all n samples of an input agree; infinite where n sets no limit."""
    n, alpha, sigma = certificates.fixed_n, certificates.alpha, certificates.sigma
    is_gaussian = str(certificates.noise).startswith("gaussian") and certificates.norm == "l2"
    if not (n and alpha and sigma and is_gaussian) or certificates.stopped_early:
        return math.inf
    return max(sigma * NormalDist().inv_cdf(alpha ** (1 / n)), float(certificates.radii.max(initial=0.0)))


def by_class(certificates: Certificates, radii: Sequence[float]) -> tuple[Ints, Ints, Ints]:
    """The K classes that have inputs, their numbers of inputs, and how many of these A_c(r) counts (K, R)."""
    held = certificates.correct[:, None] & (certificates.radii[:, None] >= np.asarray(radii))
    classes, place = np.unique(np.asarray(certificates.truth), return_inverse=True)
    return classes, np.bincount(place), np.array([held[place == k].sum(axis=0) for k in range(len(classes))])


def carried(certificates: Certificates, radii: Sequence[float]) -> tuple[float, int, int, int] | None:
    """The first radius where most of the m inputs certified are k of one class c, as (radius, c, k, m). Most:
    the lower bound at 95% on k / m (Clopper and Pearson) is above 1/2. c has under 1/3 of all inputs."""
    classes, sizes, counts = by_class(certificates, radii)
    for radius, held in zip(radii, counts.T, strict=True):
        c, k, m = int(held.argmax()), int(held.max()), int(held.sum())
        if m and 3 * sizes[c] < sizes.sum() and clopper_pearson_lower(k, m, 0.05) > 0.5:
            return radius, int(classes[c]), k, m
    return None


def probabilities(certificates: Certificates) -> Floats | None:
    """p_A of each input, from the n0 samples where sampling ended there; None without counts or of EAS."""
    counts, first, truth = certificates.counts, certificates.selection_counts, certificates.truth
    if counts is None or counts.ndim != 2 or truth is None:
        return None
    if first is not None:
        counts = np.where(certificates.is_bounded[:, None], counts, first)
    of_truth = (counts * (np.arange(counts.shape[1]) == truth[:, None])).sum(axis=1)
    return np.asarray(of_truth / counts.sum(axis=1))
