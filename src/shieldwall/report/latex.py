r"""A results table in LaTeX, for any class with `\usepackage{booktabs}`.

A whole `table` environment to `\input`: what it shows and how it was made are the caption, the best of each
column is bold, runs are set apart by a little space.
"""

from collections.abc import Sequence

from shieldwall.report.cells import PLUS_MINUS, Column, about, columns
from shieldwall.report.notes import notes
from shieldwall.report.rows import Row, as_rows, titles
from shieldwall.results.logs import Log

_ESCAPED = str.maketrans(
    {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "<": "$<$", ">": "$>$", "|": "$|$", PLUS_MINUS: r"$\pm$", "\n": " ",
    }
)  # fmt: skip


def as_latex(
    shown: Sequence[Log | Row], radii: Sequence[float] | None = None, *, intervals: bool = False
) -> str:
    """The table in LaTeX; an interval stands in small print below its number."""
    caption = [about(shown), *notes(shown, intervals=intervals)]
    found, rows = columns(shown, radii, intervals=intervals), as_rows(shown)
    body: list[str] = []
    for k, (row, title) in enumerate(zip(rows, titles(rows), strict=True)):
        if k and row.run != rows[k - 1].run:
            body.append(r"\addlinespace")
        body += _lines(title, found, k, intervals)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{' '.join(map(_sentence, caption))}}}",
        r"\label{tab:certified-accuracy}",
        rf"\begin{{tabular}}{{l{'r' * len(found)}}}",
        r"\toprule",
        *(_line(["", *(escaped(column.heading[k]) for column in found)]) for k in range(2)),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return text.translate(_ESCAPED)


def _sentence(text: str) -> str:
    return f"{escaped(text[0].upper() + text[1:])}."


def _lines(title: str, found: Sequence[Column], k: int, intervals: bool) -> list[str]:
    """A row, and where there are intervals a second line for them."""
    numbers = [rf"\textbf{{{column.cells[k]}}}" if column.best[k] else column.cells[k] for column in found]
    margins = [escaped(column.margins[k]) for column in found]
    if not intervals:
        both = (f"{number} {margin}".strip() for number, margin in zip(numbers, margins, strict=True))
        return [_line([escaped(title), *both])]
    small = (rf"{{\scriptsize {margin}}}" if margin else "" for margin in margins)
    return [_line([escaped(title), *numbers]), _line(["", *small])]


def _line(cells: Sequence[str]) -> str:
    line = " & ".join(cells).strip() + r" \\"
    # After a line break, a bracket or a star would be read as its argument.
    return "{}" + line if line[0] in "[*" else line
