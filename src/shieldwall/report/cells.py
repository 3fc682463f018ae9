"""The text of a results table, before it is drawn in one form or another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shieldwall.errors import UserError
from shieldwall.report.norms import shared_norm
from shieldwall.results.logs import Log
from shieldwall.results.metrics import default_radii, summary

_SHOWN_DIGITS, _MOST_DECIMALS = 3, 9


@dataclass(frozen=True)
class Column:
    """One column: two lines of heading, a cell for each log, and which cells to stress."""

    heading: tuple[str, str]
    cells: list[str]
    best: list[bool]


def about(logs: Sequence[Log]) -> str:
    """What the table shows; logs that no table can show are refused."""
    if not logs:
        raise UserError("there are no logs to show")
    return f"certified accuracy in %, by {shared_norm(logs)} radius"


def columns(logs: Sequence[Log], radii: Sequence[float] | None = None) -> list[Column]:
    """The columns after the title; that of radius 0 comes first, always, and is headed "clean"."""
    at = np.unique(np.append(0.0, default_radii(logs) if radii is None else radii)).tolist()
    lines = [summary(log, at) for log in logs]

    by_radius = zip(*(line.certified_accuracy for line in lines), strict=True)
    return [
        *(
            _ranked(("" if r else "clean", _radius(r)), [_percent(accuracy) for accuracy in accuracies])
            for r, accuracies in zip(at, by_radius, strict=True)
        ),
        _ranked(("", "ACR"), _average_radii([line.average_certified_radius for line in lines])),
        _plain(("abst.", "%"), [_percent(line.abstention_rate) for line in lines]),
        _plain(("", "inputs"), [str(line.inputs) for line in lines]),
    ]


def _plain(heading: tuple[str, str], cells: list[str]) -> Column:
    return Column(heading, cells, [False] * len(cells))


def _ranked(heading: tuple[str, str], cells: list[str]) -> Column:
    """Stresses the highest as shown, unless all are equal: then there is nothing to stress."""
    top = max(cells, key=float)
    return Column(heading, cells, [cell == top and len(set(cells)) > 1 for cell in cells])


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def _radius(r: float) -> str:
    """At least two decimals; at most four, or as many as three digits take."""
    whole, decimals = f"{r:.{max(4, _decimals(r))}f}".split(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"


def _average_radii(found: list[float]) -> list[str]:
    """Three decimals, or as many as three digits of the largest take."""
    decimals = max(_SHOWN_DIGITS, _decimals(max(found)))
    return [f"{one:.{decimals}f}" for one in found]


def _decimals(value: float) -> int:
    """How many _SHOWN_DIGITS digits take, counted from the first that is not 0."""
    return min(_MOST_DECIMALS, _SHOWN_DIGITS - 1 - math.floor(math.log10(value))) if value else 0
