r"""A results table in LaTeX, for any class with `\usepackage{booktabs}`.

A whole `table` environment to `\input`: what it shows and how it was made are the caption, with symbols in
place of their names; the best of each column is bold, runs are set apart by a little space.
"""

import re
from collections.abc import Sequence

from shieldwall.report.cells import PLUS_MINUS, Column, about, columns
from shieldwall.report.notes import notes
from shieldwall.report.rows import Row, as_rows, titles
from shieldwall.results.record import Log

_ESCAPED = str.maketrans(
    {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "<": "$<$", ">": "$>$", "|": "$|$", PLUS_MINUS: r"$\pm$", "\n": " ",
    }
)  # fmt: skip
_SYMBOLS = {
    "alpha": r"\alpha", "sigma": r"\sigma", "n": "n", "t": "t",
    "L1": r"\ell_1", "L2": r"\ell_2", "L-infinity": r"\ell_\infty",
}  # fmt: skip
_SYMBOL = re.compile(
    r"\b(alpha|sigma|n|L1|L2|L-infinity|(?<=Student's )t)\b(?: = ([\d.,]*\d)(?:e([-+]\d+))?)?"
)
"""A symbol's name, and its value where it follows."""


def as_latex(
    shown: Sequence[Log | Row],
    radii: Sequence[float] | None = None,
    *,
    intervals: bool = False,
    label: str = "certified-accuracy",
) -> str:
    r"""The table in LaTeX; an interval stands in small print below its number.

    `\ref{tab:LABEL}` refers to it, with hyphens for what no label may hold.
    """
    caption = [about(shown), *notes(shown, intervals=intervals)]
    found, rows = columns(shown, radii, intervals=intervals), as_rows(shown)
    body: list[str] = []
    for k, (row, title) in enumerate(zip(rows, titles(rows), strict=True)):
        if k:
            body += [r"\addlinespace"] * (intervals + (row.run != rows[k - 1].run))
        body += _lines(title, found, k, intervals)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{' '.join(map(_sentence, caption))}}}",
        rf"\label{{tab:{re.sub('[^A-Za-z0-9.:_-]+', '-', label)}}}",
        r"\smallskip",
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
    """With a capital, unless a symbol comes first, and a full stop."""
    said = _SYMBOL.sub(_symbol, escaped(text))
    return f"{said[0].upper()}{said[1:]}."


def _symbol(found: re.Match[str]) -> str:
    r"""Set as mathematics: alpha = 1e-05 as $\alpha = 1 \cdot 10^{-5}$."""
    name, value, power = found.groups()
    equal = "" if value is None else " = " + value.replace(",", "{,}")
    times = "" if power is None else rf" \cdot 10^{{{int(power)}}}"
    return f"${_SYMBOLS[name]}{equal}{times}$"


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
