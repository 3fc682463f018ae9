"""One certification log, line by line: our own or another tool's.

A tab-separated file with a header. `idx label predict radius correct` must be among its columns; what the
certificates were made with is read where there are columns for it:

    noise   gaussian(0.25), exact-gaussian(0.25), uniform(0.433), laplace(0.177)
    bound   one-sided, two-sided, randomized(U), sequential(N), ...
    n alpha norm precision vote
"""

import math
import re
from pathlib import Path
from typing import NamedTuple

from shieldwall.errors import UserError
from shieldwall.vocabulary import ABSTAIN, NOISES, NORMS

COLUMNS = ("idx", "label", "predict", "radius", "correct")
USUAL_NORM = "l2"
"""The norm of a file that does not say: what other tools certify."""

_CALL = re.compile(r"([^()]+)\((.+)\)")
_DEVIATIONS = NOISES | {"exact-gaussian": 1.0}
"""The standard deviation of each kind of noise whose argument is 1."""
_HARMED_BY_A_CUT = {*COLUMNS, "noise", "bound", "n", "alpha", "norm", "precision"} - {"correct"}


class Row(NamedTuple):
    """One input; what the file does not say is None."""

    idx: int
    label: int
    predict: int
    radius: float
    norm: str
    n: int | None
    alpha: float | None
    noise: str | None
    sigma: float | None
    precision: str | None
    bound: str | None
    most_draws: int | None
    vote: str | None


def read_rows(path: Path) -> list[Row]:
    """The inputs in a file, at least one; a last line that was cut off is left out."""
    header, lines = _lines(path)
    rows: list[Row] = []
    seen: dict[int, int] = {}
    for number, text in enumerate(lines, start=2):
        line = _Line(header, text, f"{path}, line {number}")
        row = line.row()
        if row.idx in seen:
            raise line.error(f"idx {row.idx} is already on line {seen[row.idx]}")
        if rows and row.norm != rows[0].norm:
            raise line.error(f"norm is {row.norm}, but that of line 2 is {rows[0].norm}; a log has one norm")
        seen[row.idx] = number
        rows.append(row)
    if not rows:
        raise UserError(f"{path}: no input is certified in this file yet")
    return rows


class _Line:
    """The cells of one line by column, with errors that say where."""

    def __init__(self, header: list[str], text: str, where: str) -> None:
        cells = text.split("\t")
        self.where = where
        if len(cells) != len(header):
            raise self.error(f"the header has {len(header)} columns, this line has {len(cells)}")
        self.cells = dict(zip(header, cells, strict=True))

    def error(self, what: str) -> UserError:
        return UserError(f"{self.where}: {what}")

    def whole(self, column: str, text: str | None = None) -> int:
        text = self.cells[column] if text is None else text
        try:
            return int(text)
        except ValueError:
            raise self.error(f"{column} is {text!r}, not a whole number") from None

    def real(self, column: str, text: str | None = None) -> float:
        text = self.cells[column] if text is None else text
        try:
            value = float(text)
        except ValueError:
            raise self.error(f"{column} is {text!r}, not a number") from None
        if not (math.isfinite(value) and value >= 0):
            raise self.error(f"{column} is {text}; it must be finite and not negative")
        return value

    def row(self) -> Row:
        idx, label, predict, correct = (
            self.whole(column) for column in ("idx", "label", "predict", "correct")
        )
        radius = self.real("radius")
        if label < 0 or predict < ABSTAIN:
            raise self.error(f"label {label}, predict {predict}; classes count from 0, {ABSTAIN} abstains")
        if correct != (predict == label):
            raise self.error(f"correct is {correct}, but predict is {predict} and label is {label}")
        if predict == ABSTAIN and radius > 0:
            raise self.error(f"radius is {radius:g}, but an abstention certifies nothing")
        bound, most_draws = self.bound()
        return Row(
            idx,
            label,
            predict,
            radius,
            norm=self.norm(),
            n=self.whole("n") if "n" in self.cells else None,
            alpha=self.real("alpha") if "alpha" in self.cells else None,
            noise=self.cells.get("noise"),
            sigma=self.sigma(),
            precision=self.cells.get("precision"),
            bound=bound,
            most_draws=most_draws,
            vote=self.cells.get("vote"),
        )

    def norm(self) -> str:
        norm = self.cells.get("norm", USUAL_NORM)
        if norm not in NORMS:
            raise self.error(f"norm is {norm!r}, not one of {', '.join(NORMS)}")
        return norm

    def sigma(self) -> float | None:
        call = _CALL.fullmatch(self.cells.get("noise", ""))
        return self.real("noise", call[2]) * _DEVIATIONS[call[1]] if call and call[1] in _DEVIATIONS else None

    def bound(self) -> tuple[str | None, int | None]:
        """The kind of bound, and the most draws that a sequential one allows."""
        text = self.cells.get("bound")
        call = _CALL.fullmatch(text or "")
        if not call:
            return text, None
        return call[1], self.whole("bound", call[2]) if call[1].endswith("sequential") else None


def _lines(path: Path) -> tuple[list[str], list[str]]:
    """The header's columns and the lines after it, without one that was cut off."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    try:
        *lines, last = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{path}: this is not text, so not a certification log") from None
    if not lines and not last:
        raise UserError(f"{path}: the file is empty")
    header = (lines[0] if lines else last).split("\t")
    if missing := [column for column in COLUMNS if column not in header]:
        raise UserError(
            f"{path}, line 1: no column {', '.join(missing)}; "
            f"a certification log is tab-separated and starts with {' '.join(COLUMNS)}"
        )
    # A file that an editor saved may lack the last newline and still be whole; a number in the
    # last cell could have lost digits, so there only the newline proves that it did not.
    cells = last.split("\t")
    if lines and len(cells) == len(header) and cells[-1] and header[-1] not in _HARMED_BY_A_CUT:
        lines.append(last)
    return header, lines[1:]
