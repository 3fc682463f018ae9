"""Tables of what ACR hides (results/classes.py): the distribution of p_A, and certified accuracy by class."""

from collections.abc import Callable, Sequence

import numpy as np

from shieldwall.report.tables import Column, Table, table_radii
from shieldwall.results.classes import by_class, probabilities
from shieldwall.results.record import Log
from shieldwall.results.rows import Row

_LEVELS = (0.5, 0.9, 0.99, 0.999)
_MOST_CLASSES = 10


def hidden_tables(
    rows: Sequence[Row],
    radii: Sequence[float] | None = None,
    names: Callable[[str], Sequence[str]] = lambda data: (),
) -> list[Table]:
    """One of all votes' p_A, then one of each ensemble's classes, or of each member's where there are no others.

    `names` gives the names of a data set's classes, where they are known.
    """
    logs = [log for row in rows for log in row.logs]
    known = [(log, p) for log in logs if (p := probabilities(log.certificates)) is not None]
    tables = []
    if known:
        columns = [_column(f">= {p:g}", [100 * (own >= p).mean() for _, own in known]) for p in _LEVELS]
        note = "p_A: how often the true class wins under noise; above 0.5 the smoothed classifier is right"
        of_all = [log for log, _ in known]
        tables.append(_table("share of inputs by p_A, in %", [log.title for log in of_all], columns, note))
    grid = table_radii(rows, radii)
    for log in [log for log in logs if not log.is_member] or logs:
        tables.append(_of_classes(log, grid, names))
    return tables


def _of_classes(log: Log, radii: Sequence[float], names: Callable[[str], Sequence[str]]) -> Table:
    classes, sizes, counts = by_class(log.certificates, radii)
    shares = 100 * counts / sizes[:, None]
    order = shares.mean(axis=1).argsort(kind="stable")[:_MOST_CLASSES]
    recipe = log.record.recipe
    called = dict(enumerate(names(recipe.data) if recipe else ()))
    titles = [f"class {called.get(label, label)}" for label in classes[order].tolist()]
    columns = [_column(f"{r:.2f}", shares[order, k].tolist()) for k, r in enumerate(radii)]
    columns.append(_column("inputs", sizes[order].tolist(), "d"))
    note = f"weakest on average over these radii: {titles[0]}; {len(order)} of {len(classes)} classes"
    return _table(f"certified accuracy of {log.title} in %, by true class", titles, columns, note)


def _table(title: str, rows: list[str], columns: list[Column], note: str) -> Table:
    return Table(title, rows, rows, columns, [note], intervals=False)


def _column(heading: str, values: Sequence[float], form: str = ".1f") -> Column:
    cells = [f"{value:{form}}" for value in values]
    return Column(("", heading), cells, [False] * len(cells), [""] * len(cells))
