"""Our rows beside the paper's, at the same radii: by how much they differ, and whether sampling explains it.

Both certified accuracies are shares of test inputs, k of n and j of m. They differ by more than the sampling
error where Agresti and Caffo's 95% interval (2000) for the difference of two proportions does not hold 0:

    |p - q| > 1.96 sqrt(p (1 - p) / (n + 2) + q (1 - q) / (m + 2)),
    p = (k + 1) / (n + 2),  q = (j + 1) / (m + 2)

Two ACRs do where |A - B| > 1.96 s sqrt(1 / n + 1 / m), with s the standard deviation of our certified radii
for both. Inputs are taken as drawn apart; where both sides saw the same ones, as here, fewer differences are
found than there are. What another seed of training would change is not in it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shieldwall.results.certificates import Floats
from shieldwall.results.intervals import accuracy
from shieldwall.results.metrics import average_certified_radius
from shieldwall.results.record import Log
from shieldwall.results.rows import envelope_row, rows_of_logs

QUANTILE = 1.96
PAPER_INPUTS = 1_000
"""Of each cell of the paper's MNIST and CIFAR-10 tables: every 10th test image."""
NOT_MEASURED = "not yet measured"
DASH = "-"


@dataclass(frozen=True)
class Row:
    """What we measured, beside what the paper printed; either may be missing."""

    label: str
    ours: tuple[Log, ...]
    """Of several logs, the best at each radius."""
    paper: Mapping[float, float] | None
    """Radius -> certified accuracy in percent."""
    paper_label: str = "paper"
    missing: str = ""
    """What a best of several still lacks, in words: then there is nothing to compare yet."""

    def difference(self, radius: float) -> float | None:
        """Ours less the paper's in points; None where either is missing."""
        if not self.ours or self.missing or self.paper is None or radius not in self.paper:
            return None
        return 100 * float(best_accuracy(self.ours, [radius])[0]) - self.paper[radius]

    def is_beyond(self, radius: float) -> bool:
        """Whether the difference is more than the sampling error."""
        if self.difference(radius) is None or self.paper is None:
            return False
        ours = float(best_accuracy(self.ours, [radius])[0])
        return shares_differ(ours, len(self.ours[0].certificates), self.paper[radius] / 100, PAPER_INPUTS)


def best_accuracy(logs: Sequence[Log], radii: Sequence[float]) -> Floats:
    """At each radius the highest certified accuracy of these logs, chosen after the fact as in the paper."""
    return accuracy(envelope_row(rows_of_logs(logs)), radii)


def shares_differ(ours: float, n: int, theirs: float, m: int) -> bool:
    """Whether two shares, of n and of m inputs, differ by more than the sampling error."""
    p, q = (ours * n + 1) / (n + 2), (theirs * m + 1) / (m + 2)
    return abs(p - q) > QUANTILE * math.sqrt(p * (1 - p) / (n + 2) + q * (1 - q) / (m + 2))


def acr_differs(log: Log, theirs: float) -> bool:
    """Whether the log's ACR differs from the paper's by more than the sampling error."""
    spread = (
        float((log.certificates.radii * log.certificates.correct).std(ddof=1))
        if len(log.certificates) > 1
        else math.inf
    )
    error = QUANTILE * spread * math.sqrt(1 / len(log.certificates) + 1 / PAPER_INPUTS)
    return abs(average_certified_radius(log.certificates) - theirs) > error


def accuracy_table(rows: Sequence[Row], radii: Sequence[float]) -> str:
    """Ours, the paper's and the difference for each row, in Markdown; beyond the sampling error in bold."""
    lines = []
    for row in rows:
        lines.append(_ours(row, radii))
        if row.paper is not None:
            cells = (f"{row.paper[r]:.1f}" if r in row.paper else "" for r in radii)
            lines.append([f"&nbsp; {row.paper_label}", *cells])
        if any(row.difference(r) is not None for r in radii):
            lines.append(["&nbsp; difference", *(_difference(row, r) for r in radii)])
    table = markdown_table(["", *(f"{r:.2f}" for r in radii)], lines)
    return table + counted([row.is_beyond(r) for row in rows for r in radii if row.difference(r) is not None])


def counted(beyond: Sequence[bool]) -> str:
    """How many differences are beyond the sampling error, as a paragraph; nothing where there are none."""
    if not beyond:
        return ""
    return f"\n\nBeyond the sampling error, in bold: {sum(beyond)} of {len(beyond)} differences."


def acr_cells(log: Log | None, theirs: float | None) -> list[str]:
    """Our ACR, the paper's and the difference; beyond the sampling error in bold."""
    ours = None if log is None else average_certified_radius(log.certificates)
    cells = [DASH if value is None else f"{value:.3f}" for value in (ours, theirs)]
    if log is None or ours is None or theirs is None:
        return [*cells, ""]
    return [*cells, signed(ours - theirs, 3, bold=acr_differs(log, theirs))]


def signed(value: float, decimals: int, *, bold: bool) -> str:
    text = f"{value:+.{decimals}f}"
    if not float(text):
        text = text.replace("-", "+")
    return f"**{text}**" if bold else text


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]], align: str = "--:") -> str:
    """The first column at the left; `align` for the others, which are numbers as a rule."""
    rows = [list(head), [":--", *(align for _ in head[1:])], *map(list, lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _ours(row: Row, radii: Sequence[float]) -> list[str]:
    if not row.ours:
        return [f"{row.label}: {NOT_MEASURED}", *(DASH for _ in radii)]
    label = f"{row.label}: {row.missing} {NOT_MEASURED}" if row.missing else row.label
    return [label, *(f"{100 * accuracy:.1f}" for accuracy in best_accuracy(row.ours, radii))]


def _difference(row: Row, radius: float) -> str:
    difference = row.difference(radius)
    return "" if difference is None else signed(difference, 1, bold=row.is_beyond(radius))
