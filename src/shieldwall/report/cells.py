"""The text of a results table, before it is drawn in one form or another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shieldwall.errors import UserError
from shieldwall.results.logs import Log
from shieldwall.results.metrics import default_radii, summary

ABOUT = "certified accuracy in %, by L2 radius"


@dataclass(frozen=True)
class Column:
    """One column: two lines of heading, a cell for each log, and which cells to stress."""

    heading: tuple[str, str]
    cells: list[str]
    best: list[bool]


def columns(logs: Sequence[Log], radii: Sequence[float] | None = None) -> list[Column]:
    """The columns after the title; that of radius 0 comes first, always, and is headed "clean"."""
    if not logs:
        raise UserError("there are no logs to show")
    at = np.unique(np.append(0.0, default_radii(logs) if radii is None else radii)).tolist()
    lines = [summary(log, at) for log in logs]

    by_radius = zip(*(line.certified_accuracy for line in lines), strict=True)
    return [
        *(
            _ranked(("" if r else "clean", _radius(r)), [_percent(accuracy) for accuracy in accuracies])
            for r, accuracies in zip(at, by_radius, strict=True)
        ),
        _ranked(("", "ACR"), [f"{line.average_certified_radius:.3f}" for line in lines]),
        _plain(("abst.", "%"), [_percent(line.abstention_rate) for line in lines]),
        _plain(("", "inputs"), [str(line.inputs) for line in lines]),
    ]


def notes(logs: Sequence[Log]) -> list[str]:
    """What holds for all of the logs, and a warning where they cannot be compared."""
    facts = [
        _shared([len(log.idx) for log in logs], "{:,} inputs"),
        _shared([log.n for log in logs], "n = {:,}"),
        _shared([log.alpha for log in logs], "alpha = {:g}"),
        _shared([log.sigma for log in logs], "sigma = {:g}"),
    ]
    said = [", ".join(fact for fact in facts if fact)]
    inputs = {frozenset(zip(log.idx.tolist(), log.label.tolist(), strict=True)) for log in logs}
    if len(inputs) > 1:
        said.append("warning: the inputs differ from log to log, so the rows do not compare")
    return [line for line in said if line]


def _shared(values: Sequence[float | None], form: str) -> str:
    first = values[0]
    return form.format(first) if first is not None and all(value == first for value in values) else ""


def _plain(heading: tuple[str, str], cells: list[str]) -> Column:
    return Column(heading, cells, [False] * len(cells))


def _ranked(heading: tuple[str, str], cells: list[str]) -> Column:
    """Stresses the highest as shown, unless all are equal: then there is nothing to stress."""
    top = max(cells, key=float)
    return Column(heading, cells, [cell == top and len(set(cells)) > 1 for cell in cells])


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def _radius(r: float) -> str:
    """At least two decimals, at most four."""
    whole, decimals = f"{r:.4f}".split(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"
