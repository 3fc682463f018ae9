"""The envelope over sigma on a page: that of the tables, with the names by which a reader picks curves."""

from collections.abc import Sequence
from dataclasses import dataclass

from shieldwall.report.page.entries import Entry, choices
from shieldwall.report.page.signs import SIGMA
from shieldwall.results.certificates import Floats
from shieldwall.results.intervals import accuracy
from shieldwall.results.rows import envelope_row, rows_of_logs, sigma_groups


@dataclass(frozen=True, eq=False)
class Envelope:
    """One protocol of one method, certified at several sigmas on the same inputs and alike."""

    of: tuple[Entry, ...]

    @property
    def method(self) -> str:
        return self.of[0].method

    @property
    def protocol(self) -> str:
        return self.of[0].protocol

    @property
    def is_member(self) -> bool:
        return self.of[0].is_member

    @property
    def sigmas(self) -> list[str]:
        return choices(self.of, "sigma")

    @property
    def title(self) -> str:
        return f"{self.method} {self.protocol}, best of {SIGMA} {', '.join(self.sigmas)}"

    def accuracy(self, radii: Sequence[float] | Floats) -> Floats:
        """At each radius, the best certified accuracy among the sigmas."""
        return accuracy(envelope_row(rows_of_logs([entry.log for entry in self.of])), radii)


Curve = Entry | Envelope


def envelopes(entries: Sequence[Entry]) -> list[Envelope]:
    """An envelope for each method and protocol with more than one sigma, one log at each.

    Methods are those that the page tells apart: runs of another seed are another method there.
    """
    found = []
    for method in choices(entries, "method"):
        of = {entry.log: entry for entry in entries if entry.method == method}
        found += [
            Envelope(tuple(of[row.logs[0]] for row in group)) for group in sigma_groups(rows_of_logs([*of]))
        ]
    return found
