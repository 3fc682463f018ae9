"""Certificates side by side: one table and one plot, in a terminal, a notebook, a paper or a file.

`shieldwall report` prints and writes the same values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike
from rich import table as rich_table
from rich.console import Console

from shieldwall.errors import UserError, checked, describe, require, unknown_name
from shieldwall.files import write_output
from shieldwall.report import formats
from shieldwall.report.plots import accuracy_figure, describe_figure, figure_bytes
from shieldwall.report.tables import Table, accuracy_table, table_radii
from shieldwall.results.certificates import Certificates
from shieldwall.results.intervals import PairedTest, paired_test
from shieldwall.results.record import RunRecord
from shieldwall.results.rows import Row, inputs_key, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH = 120  #: the columns that `print` may fill; a wider table is not cut


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Rows of certified accuracy by radius, ACR and abstentions; printed, they are a table."""

    rows: Sequence[Row]
    radii: Sequence[float] | None = None  #: those of the table; by default round ones
    intervals: bool = False  #: whether to show 95% confidence intervals
    is_paired: bool = False  #: whether the table of two rows ends with the paired test of them

    @cached_property
    def table(self) -> Table:
        table = accuracy_table(self.rows, self.radii, intervals=self.intervals)
        if not self.is_paired:
            return table
        tests = self.paired_test(*(row.title for row in self.rows))
        p_values = ", ".join(f"{test.p_value:.2g} at {test.radius:g}" for test in tests)
        note = f"paired test (exact McNemar) at each radius: p = {p_values}"
        return replace(table, notes=[*table.notes, note])

    def paired_test(self, first: str, second: str) -> list[PairedTest]:
        """The exact McNemar test of two rows, at each radius of the table by itself."""
        by_title = {row.title: row for row in self.rows}
        for name in (first, second):
            if name not in by_title:
                raise unknown_name("row", name, by_title)
            if len(by_title[name].logs) > 1:
                raise UserError(f"{name} shows several runs as one, which a paired test cannot compare")
        ours, theirs = (by_title[name].certificates[0] for name in (first, second))
        return paired_test(ours, theirs, table_radii(self.rows, self.radii))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The curves of certified accuracy against radius, in `ax` or in a new figure of pyplot."""
        require("report", "plot")
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()
        accuracy_figure(self.rows, self.radii, intervals=self.intervals, axes=ax)
        return ax

    def save(self, path: str | Path) -> None:
        """Write the table (.tex, .md or .csv) or the plot (.png, .pdf or .svg), by the file's suffix."""
        path = Path(path)
        forms: dict[str, Callable[[], str]] = {".csv": self.to_csv, ".md": self.to_markdown}
        forms[".tex"] = partial(self.to_latex, path.stem)
        if form := forms.get(path.suffix.lower()):
            return write_output(path, form().encode())
        require("report", "a plot")
        about = describe_figure(self.rows, intervals=self.intervals)
        figure = accuracy_figure(self.rows, intervals=self.intervals)
        return write_output(path, figure_bytes(figure, path, about))

    def to_latex(self, label: str = "certified-accuracy") -> str:
        return formats.to_latex(self.table, label)

    def to_markdown(self) -> str:
        return formats.to_markdown(self.table)

    def to_csv(self) -> str:
        return formats.to_csv(self.rows, self.radii)

    def _repr_html_(self) -> str:
        return formats.to_html(self.table)

    def __rich__(self) -> rich_table.Table:
        return formats.to_terminal(self.table)

    def __repr__(self) -> str:
        text = StringIO()
        Console(file=text, width=_WIDTH, color_system=None).print(self, crop=False)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


@checked
def compare(
    certificates: Mapping[str, Certificates | Mapping[str, Certificates]], labels: ArrayLike | None = None,
    *, radii: Sequence[float] | None = None, intervals: bool = False,
) -> Comparison:  # fmt: skip
    """A table and a plot of certificates by name, or of the votes of `certify_members` and `read` by name.

    Args:
        labels: the true classes of the inputs; certificates of a run know theirs.
        radii: of the table; by default round ones.
        intervals: show 95% confidence intervals, over inputs.
    """
    values = certificates.values() if isinstance(certificates, Mapping) else [certificates]
    for given in values:
        if not isinstance(given, (Certificates, Mapping)) or given is certificates:
            raise UserError(f"compare takes certificates by name, {{name: ...}}; given: {describe(given)}")
    records = []
    for name, given in certificates.items():
        votes = {name: given} if isinstance(given, Certificates) else dict(given)
        if labels is not None:
            votes = {vote: table.with_truth(labels) for vote, table in votes.items()}
        if any(table.truth is None for table in votes.values()):
            raise UserError(f"the true classes of {name} are not known: give them, compare(..., labels)")
        records.append(RunRecord(name, Path(name), votes, is_run=not isinstance(given, Certificates)))
    rows = rows_of(records)
    same_inputs = len({inputs_key(row.certificates[0]) for row in rows}) == 1
    return Comparison(rows, radii, intervals, is_paired=same_inputs and len(rows) == 2)
