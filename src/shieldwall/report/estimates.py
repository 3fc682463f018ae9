"""What a row shows, and how sure it is.

With A_s,j(r) the certified accuracy of the run at sigma s with seed j, a row shows

    A(r) = max over s of mean over j of A_s,j(r)

Its interval is over inputs where there is one seed, and over inputs and seeds where there are more, by the
formulas of `report.intervals`. Of K sigmas each has an interval at the level 1 - 0.05 / K, so that all hold
at once with probability 95%: then the max over s of A_s(r) lies between the largest of their lower ends and
the largest of their upper ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shieldwall.report.intervals import LEVEL, Interval, deviation, of_mean_of_runs, of_runs
from shieldwall.report.recipes_of_logs import by_number
from shieldwall.report.rows import Row
from shieldwall.results.certificates import Floats
from shieldwall.results.metrics import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy,
)
from shieldwall.results.record import Log


def accuracy(row: Row, radii: Sequence[float] | Floats) -> Floats:
    """A(r) at each radius."""
    means = [_over_seeds(group, radii).mean(axis=0) for group in row.by_sigma]
    return np.asarray(np.max(means, axis=0), dtype=np.float64)


def accuracy_interval(row: Row, radii: Sequence[float] | Floats) -> Interval:
    """Where A(r) lies at 95%, at each radius by itself."""
    level = 1 - (1 - LEVEL) / len(row.by_sigma)
    found = [_interval(group, radii, level) for group in row.by_sigma]
    return Interval(
        np.clip(np.max([one.low for one in found], axis=0), 0, 1),
        np.clip(np.max([one.high for one in found], axis=0), 0, 1),
    )


def accuracy_deviation(row: Row, radii: Sequence[float] | Floats) -> Floats | None:
    """The standard deviation over seeds at each radius, of the sigma best there; None for one seed."""
    if row.seeds < 2:
        return None
    found = [_over_seeds(group, radii) for group in row.by_sigma]
    best = np.argmax([values.mean(axis=0) for values in found], axis=0)
    return np.asarray(np.choose(best, [deviation(values) for values in found]), dtype=np.float64)


@dataclass(frozen=True)
class Number:
    """A number of a row that no radius belongs to."""

    value: float
    low: float
    high: float
    """The interval at 95%; not a number where a single value says nothing about it."""
    deviation: float | None
    """Over seeds; None for one seed."""


def average_radius(row: Row) -> Number | None:
    """The ACR, its interval over inputs, and over seeds where there are several; an envelope has none.

    For no classifier has an envelope's curve, whose area it would be.
    """
    if row.is_envelope:
        return None
    values = np.array([average_certified_radius(log.certificates) for log in row.logs])
    low, high = of_mean_of_runs(np.array([_radii_by_input(log) for log in row.logs]))
    spread = float(deviation(values)) if len(values) > 1 else None
    return Number(float(values.mean()), float(np.maximum(low, 0.0)), float(high), spread)


def abstentions(row: Row) -> float | None:
    """The share of inputs without an answer, on average over seeds; an envelope has none either."""
    return (
        None if row.is_envelope else float(np.mean([abstention_rate(log.certificates) for log in row.logs]))
    )


def steps(row: Row) -> Floats:
    """Where the row's curve can step down: 0 and the certified radii of all its logs."""
    return np.unique(
        np.concatenate([[0.0], *(log.certificates.radii[log.certificates.correct] for log in row.logs)])
    )


def _over_seeds(group: Sequence[Log], radii: Sequence[float] | Floats) -> Floats:
    return np.array([certified_accuracy(log.certificates, radii) for log in group])


def _interval(group: Sequence[Log], radii: Sequence[float] | Floats, level: float) -> Interval:
    inputs = len(group[0].certificates)
    return of_runs(np.rint(_over_seeds(group, radii) * inputs), inputs, level)


def _radii_by_input(log: Log) -> Floats:
    """The certified radius of each input, in the order of their numbers, which all runs share."""
    return np.asarray((log.certificates.radii * log.certificates.correct)[by_number(log)], dtype=np.float64)
