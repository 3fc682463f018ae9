"""The text of a results table, before it is drawn in one form or another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shieldwall.errors import UserError
from shieldwall.report.comparable import what_differs
from shieldwall.report.estimates import (
    abstentions,
    accuracy,
    accuracy_deviation,
    accuracy_interval,
    average_radius,
)
from shieldwall.report.norms import shared_norm
from shieldwall.report.rows import Row, as_rows, logs_of
from shieldwall.results.metrics import default_radii
from shieldwall.results.record import Log

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
_SHOWN_DIGITS, _MOST_DECIMALS = 3, 9


@dataclass(frozen=True)
class Column:
    """One column: two lines of heading, a cell for each row, and which cells to stress."""

    heading: tuple[str, str]
    cells: list[str]
    best: list[bool]
    margins: list[str]
    """What follows the number in each cell: its deviation over seeds, its interval, or nothing."""


def about(shown: Sequence[Log | Row]) -> str:
    """What the table shows; logs that no table can show are refused."""
    if not shown:
        raise UserError("there are no logs to show")
    return f"certified accuracy in %, by {shared_norm(logs_of(shown))} radius"


def table_radii(shown: Sequence[Log | Row], radii: Sequence[float] | None = None) -> list[float]:
    """The radii of a table, 0 among them, always: those given, or round ones."""
    wanted = default_radii([log.certificates for log in logs_of(shown)]) if radii is None else radii
    return [float(r) for r in np.unique(np.append(0.0, wanted))]


def columns(
    shown: Sequence[Log | Row], radii: Sequence[float] | None = None, *, intervals: bool = False
) -> list[Column]:
    """The columns after the title; that of radius 0 comes first and is headed "clean".

    `intervals` adds to each number the interval at 95%, instead of the deviation over seeds. A column that
    would be empty is left out. Nothing is stressed where the rows do not compare.
    """
    rows, at = as_rows(shown), table_radii(shown, radii)
    compare = not what_differs(logs_of(shown))
    accuracies = np.array([accuracy(row, at) for row in rows])
    margins = [_margins_by_radius(row, at, intervals) for row in rows]
    found = [
        *(
            _ranked(
                ("" if r else "clean", _radius(r)),
                [_percent(value) for value in accuracies[:, k]],
                [margin[k] for margin in margins],
                compare,
            )
            for k, r in enumerate(at)
        ),
        _average_radii(rows, intervals, compare),
        _plain(("abst.", "%"), ["" if (a := abstentions(row)) is None else _percent(a) for row in rows]),
        _plain(("", "inputs"), [_inputs(row) for row in rows]),
    ]
    return [column for column in found if any(column.cells)]


def _margins_by_radius(row: Row, radii: list[float], intervals: bool) -> list[str]:
    if intervals:
        low, high = accuracy_interval(row, radii)
        return [_between(_percent(a), _percent(b)) for a, b in zip(low, high, strict=True)]
    spread = accuracy_deviation(row, radii)
    return [""] * len(radii) if spread is None else [f"{PLUS_MINUS} {_percent(one)}" for one in spread]


def _average_radii(rows: Sequence[Row], intervals: bool, compare: bool) -> Column:
    """Three decimals, or as many as three digits of the largest take."""
    found = [average_radius(row) for row in rows]
    largest = max((one.value for one in found if one is not None), default=0.0)
    decimals = max(_SHOWN_DIGITS, _decimals(largest))
    cells, margins = [], []
    for one in found:
        cells.append("" if one is None else f"{one.value:.{decimals}f}")
        if one is not None and intervals and math.isfinite(one.high):
            margins.append(_between(f"{one.low:.{decimals}f}", f"{one.high:.{decimals}f}"))
        elif one is not None and not intervals and one.deviation is not None:
            margins.append(f"{PLUS_MINUS} {one.deviation:.{decimals}f}")
        else:
            margins.append("")
    return _ranked(("", "ACR"), cells, margins, compare)


def _plain(heading: tuple[str, str], cells: list[str]) -> Column:
    return Column(heading, cells, [False] * len(cells), [""] * len(cells))


def _ranked(heading: tuple[str, str], cells: list[str], margins: list[str], compare: bool) -> Column:
    """Stresses the highest as shown, if they compare, and unless all are equal."""
    numbers = {cell for cell in cells if cell}
    top = max(numbers, key=float, default="") if compare and len(numbers) > 1 else None
    return Column(heading, cells, [cell == top for cell in cells], margins)


def _inputs(row: Row) -> str:
    """How many; certificates that are shown as one are of the same inputs."""
    return str(len(row.logs[0].certificates))


def _between(low: str, high: str) -> str:
    return f"[{low}, {high}]"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def _radius(r: float) -> str:
    """At least two decimals; at most four, or as many as three digits take."""
    whole, decimals = f"{r:.{max(4, _decimals(r))}f}".split(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"


def _decimals(value: float) -> int:
    """How many _SHOWN_DIGITS digits take, counted from the first that is not 0."""
    return min(_MOST_DECIMALS, _SHOWN_DIGITS - 1 - math.floor(math.log10(value))) if value else 0
