"""Tables in the terminal, in Markdown and in LaTeX, or as CSV: the same text each time for the same rows."""

import csv
import html
import math
import re
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from rich import box
from rich import table as rich_table
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from shieldwall.errors import UserError
from shieldwall.report.tables import AT_LEAST, PLUS_MINUS, Column, Table, describe, table_radii
from shieldwall.results import intervals
from shieldwall.results.certificates import shared
from shieldwall.results.rows import Row, sigmas_of

COLUMNS = (
    "kind", "run", "vote", "sigma", "sigmas", "noise", "norm", "n", "alpha", "precision", "bound", "inputs",
    "seeds", "radius", "certified_accuracy", "low", "high", "interval", "deviation",
    "acr", "acr_low", "acr_high", "acr_deviation", "abstained",
)  # fmt: skip
"""Of a CSV file."""
TABLE_SUFFIXES = (".tex", ".md", ".csv")
_GAP = 2
_MIN_TITLE = 24
_ESCAPED = str.maketrans(
    {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "<": "$<$", ">": "$>$", "|": "$|$", PLUS_MINUS: r"$\pm$", AT_LEAST: r"$\geq$", "\n": " ",
    }
)  # fmt: skip
_SYMBOLS = {
    "alpha": r"\alpha", "sigma": r"\sigma", "n": "n", "t": "t",
    "L1": r"\ell_1", "L2": r"\ell_2", "L-infinity": r"\ell_\infty",
}  # fmt: skip
_SYMBOL = re.compile(
    r"\b(alpha|sigma|n|L1|L2|L-infinity|(?<=Student's )t)\b(?: = ([\d.,]*\d)(?:e([-+]\d+))?)?"
)  #: a symbol's name, and its value where it follows


def check_table_path(path: Path) -> None:
    """Refuse a suffix that no table is written as."""
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise UserError(f"{path}: a table is written as .tex, .md or .csv, by the file's suffix")


class PlainTable(rich_table.Table):
    """A rule below the headings and no other lines; title and caption at the left."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True,
            title_justify="left", caption_justify="left", **options,
        )  # fmt: skip


class _WideTable(PlainTable):
    """It wraps its first column to fit the terminal, and overflows rather than drop digits as rich would."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        titles, *numbers = self.columns
        widest = max(cell_len(text.plain) for text in titles.cells if isinstance(text, Text))
        taken = sum((column.width or 0) + _GAP for column in numbers)
        titles.width = min(widest, max(_MIN_TITLE, options.max_width - taken))
        return super().__rich_console__(console, options.update_width(taken + titles.width))


def to_terminal(table: Table) -> rich_table.Table:
    """The table for a terminal, the best of a column bold; print one that may be wider with `crop=False`."""
    drawn = _WideTable(title=Text(table.title), caption=Text("\n".join(table.notes)))
    drawn.add_column(overflow="fold")
    between = "\n" if table.intervals else " "
    columns = [_terminal_cells(column, between) for column in table.columns]
    for column, cells in zip(table.columns, columns, strict=True):
        lines = [*column.heading, *(line for cell in cells for line in cell.plain.split("\n"))]
        heading, width = Text("\n".join(column.heading)), max(map(len, lines))
        drawn.add_column(heading, justify="right", no_wrap=True, width=width)
    for title, *cells in zip(table.row_titles, *columns, strict=True):
        drawn.add_row(Text(title), *cells)  # a Text, for a title may hold what would be markup in a string
    return drawn


def _terminal_cells(column: Column, between: str) -> list[Text]:
    numbers = [Text(cell, "bold" * best) for cell, best in zip(column.cells, column.best, strict=True)]
    pairs = zip(numbers, column.margins, strict=True)
    return [Text.assemble(number, between, margin) if margin else number for number, margin in pairs]


def to_markdown(table: Table) -> str:
    """The table in Markdown, its title above it and its notes below."""
    lines = [_headings(table), [":--", *("--:" for _ in table.columns)], *_lines(table, _markdown, "**{}**")]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join([html.escape(table.title, False), body, *map(_markdown, table.notes)]) + "\n"


def _markdown(text: str) -> str:
    """Text that Markdown shows as it is: no HTML, no links, no ends of cells."""
    return re.sub(r"([|$`]|(?<=])\()", r"\\\1", html.escape(text, quote=False))


def to_html(table: Table) -> str:
    """The table for a notebook."""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in _headings(table))
    body = "".join(
        f"<tr><th>{title}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for title, *cells in _lines(table, html.escape, "<b>{}</b>")
    )
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in table.notes)
    return f"<table><caption>{html.escape(table.title)}</caption><tr>{head}</tr>{body}</table>{notes}"


def _headings(table: Table) -> list[str]:
    return ["", *(" ".join(column.heading).strip() for column in table.columns)]


def _lines(
    table: Table, escape: Callable[[str], str], best: str, margins: bool = True
) -> Iterator[list[str]]:
    """The title and the cells of each row, with margins beside the numbers; `best` marks the best ones."""
    for k, title in enumerate(table.row_titles):
        cells = [escape(title)]
        for column in table.columns:
            number = (best if column.best[k] else "{}").format(escape(column.cells[k]))
            cells.append(f"{number} {escape(column.margins[k]) if margins else ''}".strip())
        yield cells


def to_latex(table: Table, label: str = "certified-accuracy") -> str:
    r"""The table in LaTeX, for any class with `\usepackage{booktabs}`; an interval stands below its number.

    A whole `table` environment to `\input`: what it shows and how it was made are the caption, with symbols
    in place of their names. `\ref{tab:LABEL}` refers to it, with hyphens for what no label may hold.
    """
    columns = table.columns
    body: list[str] = []
    for k, cells in enumerate(_lines(table, escape_latex, r"\textbf{{{}}}", margins=not table.intervals)):
        if k:
            body += [r"\addlinespace"] * (table.intervals + (table.runs[k] != table.runs[k - 1]))
        body.append(_latex_line(cells))
        if table.intervals:
            margins = (escape_latex(column.margins[k]) for column in columns)
            below = (rf"{{\scriptsize {margin}}}" if margin else "" for margin in margins)
            body.append(_latex_line(["", *below]))
    lines = [
        r"% needs \usepackage{booktabs}", r"\begin{table}", r"\centering",
        rf"\caption{{{' '.join(map(_sentence, [table.title, *table.notes]))}}}",
        rf"\label{{tab:{re.sub('[^A-Za-z0-9.:_-]+', '-', label)}}}",
        r"\smallskip", rf"\begin{{tabular}}{{l{'r' * len(columns)}}}", r"\toprule",
        *(_latex_line(["", *(escape_latex(column.heading[k]) for column in columns)]) for k in range(2)),
        r"\midrule", *body, r"\bottomrule", r"\end{tabular}", r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return text.translate(_ESCAPED)


def _sentence(text: str) -> str:
    """With a capital, unless a symbol comes first, and a full stop."""
    sentence = _SYMBOL.sub(_symbol, escape_latex(text))
    return f"{sentence[0].upper()}{sentence[1:]}."


def _symbol(symbol: re.Match[str]) -> str:
    r"""Set as mathematics: alpha = 1e-05 as $\alpha = 1 \cdot 10^{-5}$."""
    name, value, power = symbol.groups()
    equal = "" if value is None else " = " + value.replace(",", "{,}")
    times = "" if power is None else rf" \cdot 10^{{{int(power)}}}"
    return f"${_SYMBOLS[name]}{equal}{times}$"


def _latex_line(cells: Sequence[str]) -> str:
    line = " & ".join(cells).strip() + r" \\"
    # After a line break, a bracket or a star would be read as its argument.
    return "{}" + line if line[0] in "[*" else line


def to_csv(rows: Sequence[Row], radii: Sequence[float] | None = None) -> str:
    """Tidy CSV: a line for each row of the table and each radius, numbers at full precision.

    Runs that are averaged or shown as an envelope have no lines of their own, so that nothing counts twice
    when lines are grouped. `kind` is `log` for one certification log, `seeds` for the mean over runs that
    differ only by seed, `envelope` for the best sigma at each radius. `acr` and `abstained` are of the whole
    row, the same in each of its lines. What is not known, or differs between the logs of a row, is empty.
    There are two columns more where they say something: `inputs_wanted` if a certification was interrupted,
    and `acr_kind`, `lower bound` for rows whose sampling stopped early.
    """
    describe(rows)  # refuses rows that do not stand in one table
    columns = [*COLUMNS, *["inputs_wanted"] * any(row.num_wanted > row.num_inputs for row in rows)]
    columns += ["acr_kind"] * any(row.stopped_early for row in rows)
    text = StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerows(_csv_lines(row, table_radii(rows, radii)))
    return text.getvalue()


def _csv_lines(row: Row, radii: list[float]) -> list[dict[str, Any]]:
    spread, acr = intervals.accuracy_deviation(row, radii), intervals.average_radius(row)
    interval = "clopper-pearson and student-t" if row.seeds > 1 else "clopper-pearson"
    of_row: dict[str, Any] = {
        "kind": "envelope" if row.is_envelope else "seeds" if row.seeds > 1 else "log",
        "run": row.run, "vote": row.vote, "sigmas": " ".join(map(repr, sigmas_of([row]))),
        "inputs": row.num_inputs, "inputs_wanted": row.num_wanted, "seeds": row.seeds,
        "interval": interval + (" all sigmas at once" if row.is_envelope else ""),
        "abstained": intervals.abstentions(row), "acr_kind": "lower bound" if row.stopped_early else None,
    }  # fmt: skip
    settings = ("sigma", "noise", "norm", "alpha", "precision")
    for column, name in [("n", "fixed_n"), ("bound", "bound_kind"), *zip(settings, settings, strict=True)]:
        of_row[column] = shared(getattr(run, name) for run in row.certificates)
    if acr:
        named = zip(("acr_low", "acr_high", "acr_deviation"), (*acr.interval, acr.deviation), strict=True)
        known = {name: value for name, value in named if value is not None and not math.isnan(value)}
        of_row |= {"acr": acr.value, **known}
    for column, cell in of_row.items():
        # A spreadsheet takes what starts like this for a formula.
        if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@"):
            of_row[column] = f"'{cell}"
    curves = (intervals.accuracy(row, radii), *intervals.accuracy_interval(row, radii))
    deviations = [None] * len(radii) if spread is None else spread.tolist()
    values = zip(radii, *(curve.tolist() for curve in curves), deviations, strict=True)
    names = ("radius", "certified_accuracy", "low", "high", "deviation")
    return [of_row | dict(zip(names, of_radius, strict=True)) for of_radius in values]
