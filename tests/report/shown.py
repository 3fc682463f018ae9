"""Tables, figures and rows straight from logs, each in one call; rows are taken as they are."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from shieldwall.files import write_output
from shieldwall.report import formats, plots, tables
from shieldwall.report.comparison import Comparison
from shieldwall.results import rows as results_rows
from shieldwall.results.record import Log
from shieldwall.results.rows import Row

Shown = Sequence[Log | Row]
Radii = Sequence[float] | None


def as_rows(shown: Iterable[Log | Row]) -> list[Row]:
    """Each log as a row of its own."""
    return [one if isinstance(one, Row) else Row(one.title, one.run, ((one,),)) for one in shown]


def as_one(logs: Iterable[Log]) -> Row:
    """Logs of one seed at several sigmas as one row."""
    return results_rows.envelope_row(as_rows(logs))


def averaged(shown: Shown) -> list[Row]:
    return results_rows.average_over_seeds(as_rows(shown))


def table(shown: Shown, radii: Radii = None, *, intervals: bool = False) -> Table:
    return formats.to_terminal(tables.accuracy_table(as_rows(shown), radii, intervals=intervals))


def as_markdown(shown: Shown, radii: Radii = None, *, intervals: bool = False) -> str:
    return formats.to_markdown(tables.accuracy_table(as_rows(shown), radii, intervals=intervals))


def as_latex(shown: Shown, radii: Radii = None, *, intervals: bool = False, **label: str) -> str:
    return formats.to_latex(tables.accuracy_table(as_rows(shown), radii, intervals=intervals), **label)


def as_csv(shown: Shown, radii: Radii = None) -> str:
    return formats.to_csv(as_rows(shown), radii)


def notes(shown: Shown, *, intervals: bool = False) -> list[str]:
    return tables.notes(as_rows(shown), intervals=intervals)


def write_table(shown: Shown, path: Path, radii: Radii = None, *, intervals: bool = False) -> None:
    formats.check_table_path(path)
    Comparison(as_rows(shown), radii, intervals).save(path)


def draw(shown: Shown, radii: Radii = None, *, intervals: bool = False) -> Figure:
    return plots.accuracy_figure(as_rows(shown), radii, intervals=intervals)


def styles(shown: Shown) -> list[dict[str, Any]]:
    return plots.styles(as_rows(shown))


def plot(shown: Shown, paths: Iterable[Path], *, intervals: bool = False) -> None:
    """The figure as files of these suffixes."""
    rows, targets = as_rows(shown), list(paths)
    for path in targets:
        plots.check_figure_path(path)
    figure, about = draw(rows, intervals=intervals), plots.describe_figure(rows, intervals=intervals)
    for path in targets:
        write_output(path, plots.figure_bytes(figure, path, about))
