"""The numbers of a row with intervals at 95%: with A_s,j(r) the certified accuracy at sigma s with seed j,

    A(r) = max over s of mean over j of A_s,j(r)

Of an accuracy, k of n inputs (Clopper and Pearson, 1934), in the quantiles of Beta distributions:

    low  = the 0.025 quantile of Beta(k, n - k + 1), 0 for k = 0
    high = the 0.975 quantile of Beta(k + 1, n - k), 1 for k = n

It covers the accuracy on all inputs of the kind with probability 95% or more if the n were drawn at random.
Of a mean of m values, the runs that differ by seed or the certified radii of all inputs (ACR):

    v - t s / sqrt(m)  to  v + t s / sqrt(m),    s^2 = sum over i of (v_i - v)^2 / (m - 1),
    t = the 0.975 quantile of Student's t with m - 1 degrees of freedom

which is exact for normal values and close for many. Runs that differ by seed are certified on the same
inputs, so more seeds make the seeds' share of the error smaller but not the inputs'. With [a, b] the interval
over inputs and [c, d] that over seeds, around v, the squares of their widths add up (Zou and Donner, 2008):

    v - sqrt((v - a)^2 + (v - c)^2)  to  v + sqrt((b - v)^2 + (d - v)^2)

[a, b] is that of v as if it came from one run: Clopper and Pearson's with v n rounded down for a and up for
b, or Student's t of each input's mean radius. What inputs and seeds do only together counts in both parts, so
this errs to the wide side: in simulations it covers 95% and more, but less where the accuracies of seeds lie
tens of points apart and are skewed, for there Student's t itself is too short.

Where held-out inputs choose sigma, A(r) is that of the chosen one, and so is its interval. Else, of K sigmas
each has an interval at the level 1 - 0.05 / K, so that all hold at once with probability 95%: then the max
over s of A_s(r) lies between the largest of their lower ends and the largest of their upper ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.binomial import clopper_pearson_lower, clopper_pearson_upper, two_sided_sign_test
from shieldwall.errors import UserError
from shieldwall.results.certificates import Certificates, Floats
from shieldwall.results.record import Log
from shieldwall.results.rows import Row, by_number, inputs_key

LEVEL = 0.95


class Interval(NamedTuple):
    low: Floats
    high: Floats


def accuracy(row: Row, radii: Sequence[float] | Floats) -> Floats:
    """A(r) at each radius."""
    return _of_best(row, radii, np.array([each.mean(axis=0) for each in _by_sigma(row.by_sigma, radii)]))


def accuracy_interval(row: Row, radii: Sequence[float] | Floats) -> Interval:
    """Where A(r) lies at 95%, at each radius by itself."""
    level = LEVEL if row.held_out else 1 - (1 - LEVEL) / len(row.by_sigma)
    counts = [np.rint(of_seeds * row.num_inputs) for of_seeds in _by_sigma(row.by_sigma, radii)]
    ends = np.array([of_runs(of_seeds, row.num_inputs, level) for of_seeds in counts]).swapaxes(0, 1)
    chosen = [_of_best(row, radii, end) for end in ends] if row.held_out else ends.max(axis=1)
    return Interval(*np.clip(chosen, 0, 1))


def accuracy_deviation(row: Row, radii: Sequence[float] | Floats) -> Floats | None:
    """The standard deviation over seeds at each radius, of the sigma best there; None for one seed."""
    if row.seeds < 2:
        return None
    return _of_best(row, radii, np.array([*map(deviation, _by_sigma(row.by_sigma, radii))]))


class AverageRadius(NamedTuple):
    """The ACR of a row, over inputs, and over seeds where there are several."""

    value: float
    deviation: float | None  #: over seeds; None for one seed
    interval: tuple[float, float]  #: at 95%; not a number where there is one input alone


def average_radius(row: Row) -> AverageRadius | None:
    """None for an envelope: no classifier has an envelope's curve, whose area it would be."""
    if row.is_envelope:
        return None
    radii = np.array([(run.radii * run.correct)[by_number(run)] for run in row.certificates])
    of_seeds, (low, high) = radii.mean(axis=1), of_mean_of_runs(radii)
    spread = float(deviation(of_seeds)) if row.seeds > 1 else None
    return AverageRadius(float(of_seeds.mean()), spread, (float(np.maximum(low, 0.0)), float(high)))


def abstentions(row: Row) -> float | None:
    """The share of inputs without an answer; None for an envelope, and where some are not bounded."""
    rate = float(np.mean([run.abstention_rate for run in row.certificates]))
    return None if row.is_envelope or np.isnan(rate) else rate


@dataclass(frozen=True)
class PairedTest:
    """The exact McNemar test of two classifiers at one radius, on the same inputs. If both are equally good,
    an input that only one of them gets right with a certified radius of at least r is as likely to be of
    either: b is then from Binomial(b + c, 1/2)."""

    radius: float
    only_first: int  #: b: the inputs that only the first one certifies correctly at this radius
    only_second: int  #: c
    p_value: float  #: two-sided: 2 P(Binomial(b + c, 1/2) >= max(b, c)), at most 1


def paired_test(first: Certificates, second: Certificates, radii: Sequence[float]) -> list[PairedTest]:
    """The test at each radius by itself; the certificates must be of the same inputs."""
    if first.truth is None or inputs_key(first) != inputs_key(second):
        raise UserError("a paired test needs certificates of the same inputs with the same true classes")
    tests = []
    for r in radii:
        a, b = ((run.correct & (run.radii >= r))[by_number(run)] for run in (first, second))
        ours, theirs = int((a & ~b).sum()), int((b & ~a).sum())
        p_value = float(two_sided_sign_test(max(ours, theirs), min(ours, theirs)))
        tests.append(PairedTest(float(r), ours, theirs, p_value))
    return tests


def steps(row: Row) -> Floats:
    """Where the row's curve can step down: 0 and the certified radii of all its logs."""
    return np.unique(np.concatenate([[0.0], *(run.radii[run.correct] for run in row.certificates)]))


def _by_sigma(by_sigma: Sequence[Sequence[Log]], radii: Sequence[float] | Floats) -> list[Floats]:
    """For each sigma the certified accuracy by seed and radius."""
    return [np.array([log.certificates.certified_accuracy(None, radii) for log in logs]) for logs in by_sigma]


def _of_best(row: Row, radii: Sequence[float] | Floats, values: Floats) -> Floats:
    """Of values by sigma and radius, those of the best sigma at each radius."""
    shares = _by_sigma(row.held_out or row.by_sigma, radii)
    best = np.argmax([of_seeds.mean(axis=0) for of_seeds in shares], axis=0)
    return np.asarray(np.take_along_axis(values, best[None], 0)[0], dtype=np.float64)


def of_proportion(successes: ArrayLike, trials: int, level: float = LEVEL) -> Interval:
    """The exact interval of each proportion successes / trials."""
    tail = (1 - level) / 2
    low = clopper_pearson_lower(successes, trials, tail)
    return Interval(low, clopper_pearson_upper(successes, trials, tail))


def of_mean(values: Floats, level: float = LEVEL) -> Interval:
    """The interval of the mean over the first axis; not a number where there is one value alone."""
    from scipy.special import stdtrit

    m, mean = len(values), values.mean(axis=0)
    if m < 2:
        return Interval(mean * np.nan, mean * np.nan)
    half = stdtrit(m - 1, (1 + level) / 2) * deviation(values) / np.sqrt(m)
    return Interval(mean - half, mean + half)


def of_runs(counts: ArrayLike, inputs: int, level: float = LEVEL) -> Interval:
    """Over inputs and seeds: of the mean of counts / inputs over runs (first axis) on the same inputs."""
    successes = np.asarray(counts, dtype=np.int64)
    runs, total = len(successes), successes.sum(axis=0)
    low = of_proportion(total // runs, inputs, level).low
    high = of_proportion(-(-total // runs), inputs, level).high
    return _with_seeds(Interval(low, high), successes / inputs, level)


def of_mean_of_runs(values: Floats, level: float = LEVEL) -> Interval:
    """Over inputs and seeds: of the mean of all values, a row for each run and a column for each input."""
    return _with_seeds(of_mean(values.mean(axis=0), level), values.mean(axis=1), level)


def _with_seeds(over_inputs: Interval, by_seed: Floats, level: float) -> Interval:
    """The interval over inputs, widened by that over seeds where there are several."""
    if len(by_seed) < 2:
        return over_inputs
    middle, over_seeds = by_seed.mean(axis=0), of_mean(by_seed, level)
    below = np.hypot(middle - over_inputs.low, middle - over_seeds.low)
    return Interval(middle - below, middle + np.hypot(over_inputs.high - middle, over_seeds.high - middle))


def deviation(values: Floats) -> Floats:
    """The standard deviation over the first axis, with m - 1."""
    return np.asarray(values.std(axis=0, ddof=1), dtype=np.float64)
