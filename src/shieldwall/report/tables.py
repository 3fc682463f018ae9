"""One row for each log: clean and certified accuracies, ACR, abstentions."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from shieldwall.report.cells import about, columns
from shieldwall.report.notes import notes
from shieldwall.report.plain_table import PlainTable
from shieldwall.results.logs import Log

_GAP = 2
_LEAST_TITLE = 16


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


def table(logs: Sequence[Log], radii: Sequence[float] | None = None) -> Table:
    """The table for a terminal; the best of each column is bold.

    To print one that may be wider than the terminal, give `crop=False` to rich's `print`.
    """
    title, shown = about(logs), columns(logs, radii)
    drawn = _Table(title=Text(title), caption=Text("\n".join(notes(logs))))
    drawn.add_column()
    for column in shown:
        width = max(len(text) for text in (*column.heading, *column.cells))
        drawn.add_column(Text("\n".join(column.heading)), justify="right", no_wrap=True, width=width)
    for k, log in enumerate(logs):
        cells = (Text(column.cells[k], style="bold" if column.best[k] else "") for column in shown)
        # A Text, for a title may hold what would be markup in a string.
        drawn.add_row(Text(log.title), *cells)
    return drawn


def as_markdown(logs: Sequence[Log], radii: Sequence[float] | None = None) -> str:
    """The same table in Markdown, its title above it and its notes below."""
    title, shown = about(logs), columns(logs, radii)
    lines = [
        ["", *(" ".join(column.heading).strip() for column in shown)],
        [":--", *("--:" for _ in shown)],
    ]
    for k, log in enumerate(logs):
        cells = (f"**{column.cells[k]}**" if column.best[k] else column.cells[k] for column in shown)
        lines.append([log.title.replace("|", "\\|"), *cells])
    rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join([title, rows, *notes(logs)]) + "\n"
