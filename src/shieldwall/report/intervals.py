"""Confidence intervals at 95%: over inputs, over seeds, and over both at once.

Of an accuracy, k of n inputs (Clopper and Pearson, 1934), in the quantiles of Beta distributions:

    low  = the 0.025 quantile of Beta(k, n - k + 1), 0 for k = 0
    high = the 0.975 quantile of Beta(k + 1, n - k), 1 for k = n

It covers the accuracy on all inputs of the kind with probability 95% or more, whatever it is, if the n were
drawn at random. Of a mean, from m values with the mean v and the standard deviation s:

    v - t s / sqrt(m)  to  v + t s / sqrt(m),    s^2 = sum over i of (v_i - v)^2 / (m - 1),
    t = the 0.975 quantile of Student's t with m - 1 degrees of freedom

which is exact for normal values and close for many. The values are the runs that differ by seed, or the
certified radii of all inputs, where the mean is the ACR.

Runs that differ by seed are certified on the same inputs, so more seeds make the seeds' share of the error
smaller but not the inputs'. With [a, b] the interval over inputs and [c, d] that over seeds, both around the
mean v over seeds, the squares of their widths add up (Zou and Donner, 2008):

    v - sqrt((v - a)^2 + (v - c)^2)  to  v + sqrt((b - v)^2 + (d - v)^2)

It covers the mean over all seeds and all inputs of the kind. [a, b] is that of v as if it came from one run:
Clopper and Pearson's with v n rounded down for a and up for b, or Student's t of each input's mean radius. So
it is never narrower than either part, and errs to the wide side: what inputs and seeds do only together is
counted in both parts, and Student's t is long for few seeds. In simulations it covers 95% and more, but less
where the accuracies of seeds lie tens of points apart and are skewed: there Student's t itself is too short.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.results.certificates import Floats

LEVEL = 0.95


class Interval(NamedTuple):
    low: Floats
    high: Floats


def of_proportion(successes: ArrayLike, trials: int, level: float = LEVEL) -> Interval:
    """The exact interval of each proportion successes / trials."""
    # Here, not at the top: its package imports torch, and a plain report needs no interval.
    from shieldwall.binomial import clopper_pearson_lower, clopper_pearson_upper

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


def of_runs(counts: ArrayLike, inputs: int, level: float = LEVEL) -> Interval:
    """Over inputs and seeds: of the mean of counts / inputs over runs (first axis) on the same inputs."""
    found = np.asarray(counts, dtype=np.int64)
    runs, total = len(found), found.sum(axis=0)
    low = of_proportion(total // runs, inputs, level).low
    high = of_proportion(-(-total // runs), inputs, level).high
    return _with_seeds(Interval(low, high), found / inputs, level)


def of_mean_of_runs(values: Floats, level: float = LEVEL) -> Interval:
    """Over inputs and seeds: of the mean of all values, a row for each run and a column for each input."""
    return _with_seeds(of_mean(values.mean(axis=0), level), values.mean(axis=1), level)


def _with_seeds(over_inputs: Interval, by_seed: Floats, level: float) -> Interval:
    """The interval over inputs, widened by that over seeds where there are several."""
    if len(by_seed) < 2:
        return over_inputs
    middle, over_seeds = by_seed.mean(axis=0), of_mean(by_seed, level)
    return Interval(
        middle - np.hypot(middle - over_inputs.low, middle - over_seeds.low),
        middle + np.hypot(over_inputs.high - middle, over_seeds.high - middle),
    )


def deviation(values: Floats) -> Floats:
    """The standard deviation over the first axis, with m - 1."""
    return np.asarray(values.std(axis=0, ddof=1), dtype=np.float64)
