"""Tables as files: LaTeX, Markdown or CSV by the file's suffix, the same bytes each time."""

from collections.abc import Sequence
from pathlib import Path

from shieldwall.errors import UserError
from shieldwall.files import disk_errors, write_atomic
from shieldwall.report.csv_table import as_csv
from shieldwall.report.latex import as_latex
from shieldwall.report.rows import Row
from shieldwall.report.tables import as_markdown
from shieldwall.results.record import Log

_SUFFIXES = (".tex", ".md", ".csv")


def check_table_path(path: Path) -> None:
    """Refuse a suffix that no table is written as."""
    if path.suffix.lower() not in _SUFFIXES:
        raise UserError(f"{path}: a table is written as .tex, .md or .csv, by the file's suffix")


def write_table(
    shown: Sequence[Log | Row], path: Path, radii: Sequence[float] | None = None, *, intervals: bool = False
) -> None:
    """Write the table by the path's suffix; its folder is made.

    CSV has the intervals always. LaTeX has the file's name as its label.
    """
    check_table_path(path)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        content = as_csv(shown, radii)
    elif suffix == ".tex":
        content = as_latex(shown, radii, intervals=intervals, label=path.stem)
    else:
        content = as_markdown(shown, radii, intervals=intervals)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content.encode())
