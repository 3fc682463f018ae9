"""Confidence intervals at 95%: of a proportion, exactly, and of a mean, by Student's t.

Of an accuracy, k of n inputs (Clopper and Pearson, 1934), in the quantiles of Beta distributions:

    low  = the 0.025 quantile of Beta(k, n - k + 1), 0 for k = 0
    high = the 0.975 quantile of Beta(k + 1, n - k), 1 for k = n

It covers the accuracy on all inputs of the kind with probability 95% or more, whatever it is, if the n were
drawn at random. Of a mean, from m values with the mean v and the standard deviation s:

    v - t s / sqrt(m)  to  v + t s / sqrt(m),    s^2 = sum over i of (v_i - v)^2 / (m - 1),
    t = the 0.975 quantile of Student's t with m - 1 degrees of freedom

which is exact for normal values and close for many. The values are the runs that differ by seed, or the
certified radii of all inputs, where the mean is the ACR.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.results.metrics import Floats

LEVEL = 0.95


class Interval(NamedTuple):
    low: Floats
    high: Floats


def of_proportion(successes: ArrayLike, trials: int, level: float = LEVEL) -> Interval:
    """The exact interval of each proportion successes / trials."""
    # Here, not at the top: its package imports torch, and a plain report needs no interval.
    from shieldwall.smoothing.bounds import clopper_pearson_lower, clopper_pearson_upper

    tail = (1 - level) / 2
    return Interval(
        clopper_pearson_lower(successes, trials, tail), clopper_pearson_upper(successes, trials, tail)
    )


def of_mean(values: Floats, level: float = LEVEL) -> Interval:
    """The interval of the mean over the first axis; not a number where there is one value alone."""
    from scipy.special import stdtrit

    m = len(values)
    if m < 2:
        unknown = np.full(values.shape[1:], np.nan)
        return Interval(unknown, unknown)
    half = stdtrit(m - 1, (1 + level) / 2) * deviation(values) / np.sqrt(m)
    return Interval(values.mean(axis=0) - half, values.mean(axis=0) + half)


def deviation(values: Floats) -> Floats:
    """The standard deviation over the first axis, with m - 1."""
    return np.asarray(values.std(axis=0, ddof=1), dtype=np.float64)
