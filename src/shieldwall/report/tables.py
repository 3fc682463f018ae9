"""One row for each log, or for several shown as one: clean and certified accuracies, ACR, abstentions."""

import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from shieldwall.report.cells import Column, about, columns
from shieldwall.report.notes import notes
from shieldwall.report.plain_table import PlainTable
from shieldwall.report.rows import Row, as_rows, titles
from shieldwall.results.record import Log

_GAP = 2
_LEAST_TITLE = 24


class _Table(PlainTable):
    """A table that wraps its first column to fit the terminal, but never cuts a number.

    Where even that is too wide it overflows: rich by itself would drop the titles, then digits.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        titles, *numbers = self.columns
        widest = max(cell_len(text.plain) for text in titles.cells if isinstance(text, Text))
        taken = sum((column.width or 0) + _GAP for column in numbers)
        titles.width = min(widest, max(_LEAST_TITLE, options.max_width - taken))
        return super().__rich_console__(console, options.update_width(taken + titles.width))


def table(
    shown: Sequence[Log | Row], radii: Sequence[float] | None = None, *, intervals: bool = False
) -> Table:
    """The table for a terminal; the best of each column is bold, an interval stands below its number.

    To print one that may be wider than the terminal, give `crop=False` to rich's `print`.
    """
    heading, found = about(shown), columns(shown, radii, intervals=intervals)
    drawn = _Table(title=Text(heading), caption=Text("\n".join(notes(shown, intervals=intervals))))
    drawn.add_column(overflow="fold")
    between = "\n" if intervals else " "
    for column in found:
        cells = [_cell(column, k, between) for k in range(len(shown))]
        lines = (line for cell in cells for line in cell.plain.split("\n"))
        width = max(len(text) for text in (*column.heading, *lines))
        drawn.add_column(Text("\n".join(column.heading)), justify="right", no_wrap=True, width=width)
    for k, title in enumerate(titles(as_rows(shown))):
        # A Text, for a title may hold what would be markup in a string.
        drawn.add_row(Text(title), *(_cell(column, k, between) for column in found))
    return drawn


def _cell(column: Column, k: int, between: str) -> Text:
    number = Text(column.cells[k], style="bold" if column.best[k] else "")
    return Text.assemble(number, between, column.margins[k]) if column.margins[k] else number


def as_markdown(
    shown: Sequence[Log | Row], radii: Sequence[float] | None = None, *, intervals: bool = False
) -> str:
    """The same table in Markdown, its title above it and its notes below."""
    title, found = about(shown), columns(shown, radii, intervals=intervals)
    lines = [
        ["", *(" ".join(column.heading).strip() for column in found)],
        [":--", *("--:" for _ in found)],
    ]
    for k, name in enumerate(titles(as_rows(shown))):
        cells = ((f"**{c.cells[k]}**" if c.best[k] else c.cells[k], c.margins[k]) for c in found)
        lines.append([re.sub(r"([|$])", r"\\\1", name), *(" ".join(cell).rstrip() for cell in cells)])
    rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join([title, rows, *notes(shown, intervals=intervals)]) + "\n"
