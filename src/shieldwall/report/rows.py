"""One row of a table, one curve of a plot: a log, or several that are shown as one.

Logs that differ only by seed are averaged. Under an envelope, the sigmas of one method and vote are one row,
whose certified accuracy at each radius is the best of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shieldwall.results.record import Log


@dataclass(frozen=True, eq=False)
class Row:
    title: str
    run: str
    by_sigma: tuple[tuple[Log, ...], ...]
    """For each sigma the logs that differ by seed, as many at each; mostly one of one."""

    @property
    def logs(self) -> list[Log]:
        return [log for group in self.by_sigma for log in group]

    @property
    def vote(self) -> str:
        return self.logs[0].vote

    @property
    def is_member(self) -> bool:
        return self.logs[0].is_member

    @property
    def is_envelope(self) -> bool:
        return len(self.by_sigma) > 1

    @property
    def seeds(self) -> int:
        """How many seeds are averaged: as many at every sigma."""
        return len(self.by_sigma[0])

    @property
    def combines(self) -> str:
        """What the row shows as one: "best sigma", "3 seeds", both, or nothing."""
        said = ["best sigma"] if self.is_envelope else []
        return ", ".join([*said, f"{self.seeds} seeds"] if self.seeds > 1 else said)


def as_rows(shown: Sequence[Log | Row]) -> list[Row]:
    """Each log as a row of its own; rows as they are."""
    return [one if isinstance(one, Row) else Row(one.title, one.run, ((one,),)) for one in shown]


def as_one(logs: Sequence[Log]) -> Row:
    """Logs of one seed at several sigmas, as one row."""
    return Row(logs[0].title, logs[0].run, tuple((log,) for log in logs))


def titles(rows: Sequence[Row]) -> list[str]:
    """The title of each, with what it shows as one where the rows differ in that."""
    if len({row.combines for row in rows}) == 1:
        return [row.title for row in rows]
    return [f"{row.title} ({row.combines})" if row.combines else row.title for row in rows]


def logs_of(shown: Sequence[Log | Row]) -> list[Log]:
    """All logs behind these rows."""
    return [log for row in as_rows(shown) for log in row.logs]
