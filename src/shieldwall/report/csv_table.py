"""Results as tidy CSV: a line for each row of the table and each radius, numbers at full precision.

Every row is there once, so that nothing is counted twice when lines are grouped: runs that are averaged or
shown as an envelope have no lines of their own; a file of each run has them. `kind` says what a row is: `log`
for one certification log, `seeds` for the mean over runs that differ only by seed, `envelope` for the best
sigma at each radius. `sigma` is a number, empty for an envelope; `sigmas` are all of the row's, with spaces
between. `seeds` counts those at each sigma. Fractions are in [0, 1]. `low` and `high` end the 95% interval
that `interval` names; `deviation` is over seeds, empty for one. `acr` and `abstained` are of the whole row,
the same in each of its lines. What a log does not say, or the logs of a row do not share, is empty.
"""

import csv
import math
from collections.abc import Sequence
from io import StringIO

from shieldwall.report.tables import describe, table_radii
from shieldwall.results.certificates import shared
from shieldwall.results.intervals import (
    abstentions,
    accuracy,
    accuracy_deviation,
    accuracy_interval,
    average_radius,
)
from shieldwall.results.rows import Row, sigmas_of

COLUMNS = (
    "kind", "run", "vote", "sigma", "sigmas", "noise", "norm", "n", "alpha", "precision", "bound", "inputs",
    "seeds", "radius", "certified_accuracy", "low", "high", "interval", "deviation",
    "acr", "acr_low", "acr_high", "acr_deviation", "abstained",
)  # fmt: skip
_Cell = str | int | float | None


def to_csv(rows: Sequence[Row], radii: Sequence[float] | None = None) -> str:
    describe(rows)  # refuses rows that do not stand in one table
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerows(map(_text, line) for line in _lines(row, table_radii(rows, radii)))
    return text.getvalue()


def _lines(row: Row, radii: list[float]) -> list[list[_Cell]]:
    low, high = accuracy_interval(row, radii)
    spread, acr = accuracy_deviation(row, radii), average_radius(row)
    of_row: list[_Cell] = [
        "envelope" if row.is_envelope else "seeds" if row.seeds > 1 else "log",
        row.run,
        row.vote,
        shared(run.sigma for run in row.certificates),
        " ".join(repr(sigma) for sigma in sigmas_of([row])),
        shared(run.noise for run in row.certificates),
        shared(run.norm for run in row.certificates),
        shared(run.fixed_n for run in row.certificates),
        shared(run.alpha for run in row.certificates),
        shared(run.precision for run in row.certificates),
        shared(run.bound_kind for run in row.certificates),
        row.num_inputs,
        row.seeds,
    ]
    kind = "clopper-pearson and student-t" if row.seeds > 1 else "clopper-pearson"
    kind += " all sigmas at once" if row.is_envelope else ""
    of_run = [acr.value, acr.low, acr.high, acr.deviation] if acr else [None] * 4
    return [
        [
            *of_row,
            r,
            value,
            float(low[k]),
            float(high[k]),
            kind,
            None if spread is None else float(spread[k]),
            *of_run,
            abstentions(row),
        ]
        for k, (r, value) in enumerate(zip(radii, accuracy(row, radii).tolist(), strict=True))
    ]


def _text(cell: _Cell) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return cell if isinstance(cell, str) else repr(cell)
