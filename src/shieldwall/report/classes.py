"""Tables of what ACR hides (results/classes.py): the distribution of p_A, and certified accuracy by class."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from shieldwall.errors import UserError
from shieldwall.report.tables import Column, Table, table_radii
from shieldwall.results.classes import by_class, probabilities
from shieldwall.results.record import Log
from shieldwall.results.rows import Row

Spec = Callable[[str], tuple[Any, Sequence[str]]]
"""The shape and the names of classes of the data set of this name."""
_LEVELS = (0.5, 0.9, 0.99, 0.999)
_MOST_CLASSES = 10


def hidden_tables(rows: Sequence[Row], radii: Sequence[float] | None, spec: Spec | None) -> list[Table]:
    """One of all votes' p_A, and one of the classes for each ensemble, or else for each member."""
    logs = [log for row in rows for log in row.logs]
    known = [(log, p) for log in logs if (p := probabilities(log.certificates)) is not None]
    shares = [_column(f">= {level:g}", [100 * (p >= level).mean() for _, p in known]) for level in _LEVELS]
    note = "p_A: how often the true class won under noise; above 0.5 the smoothed classifier is right"
    of_all = _table("inputs by p_A, in %", [log.title for log, _ in known], shares, note)
    shown = [log for log in logs if not log.is_member] or logs
    return [of_all] * bool(known) + [_of_classes(log, table_radii(rows, radii), spec) for log in shown]


def _of_classes(log: Log, radii: Sequence[float], spec: Spec | None) -> Table:
    classes, sizes, counts = by_class(log.certificates, radii)
    names = dict(zip(classes.tolist(), map(str, classes), strict=True))
    if spec and log.record.recipe:
        with suppress(UserError):  # the data set is not on this machine
            names |= enumerate(spec(log.record.recipe.data)[1])
    shares = 100 * counts / sizes[:, None]
    order = shares.mean(axis=1).argsort(kind="stable")[:_MOST_CLASSES]
    titles = [f"class {names[label]}" for label in classes[order].tolist()]
    columns = [_column(f"{r:.2f}", of_radius[order]) for r, of_radius in zip(radii, shares.T, strict=True)]
    note = f"weakest on average over these radii: {titles[0]}; shown: {len(titles)} of {len(classes)} classes"
    inputs = _column("inputs", sizes[order], "d")
    return _table(f"certified accuracy of {log.title} in %, by true class", titles, [*columns, inputs], note)


def _table(title: str, rows: list[str], columns: list[Column], note: str) -> Table:
    return Table(title, rows, rows, columns, [note], intervals=False)


def _column(heading: str, values: Any, form: str = ".1f") -> Column:
    return Column(("", heading), [f"{v:{form}}" for v in values], [False] * len(values), [""] * len(values))
