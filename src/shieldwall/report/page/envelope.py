"""The upper envelope over sigma, A(r) = max over sigma of A_sigma(r), as the paper's main tables take it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.report.page.entries import Entry, choices
from shieldwall.report.page.signs import SIGMA
from shieldwall.results.logs import Log
from shieldwall.results.metrics import Floats, certified_accuracy


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

    def accuracy(self, radii: ArrayLike) -> Floats:
        """At each radius, the best certified accuracy among the sigmas."""
        by_sigma = np.array([certified_accuracy(entry.log, radii) for entry in self.of])
        return np.asarray(by_sigma.max(axis=0), dtype=np.float64)


Curve = Entry | Envelope


def envelopes(entries: Sequence[Entry]) -> list[Envelope]:
    """An envelope for each method and protocol with more than one sigma, one log at each."""
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[entry.method, entry.protocol].append(entry)
    return [Envelope(tuple(group)) for group in groups.values() if _compare(group)]


def _compare(group: Sequence[Entry]) -> bool:
    sigmas = {entry.sigma for entry in group}
    certified = {_how_certified(entry.log) for entry in group}
    return 1 < len(sigmas) == len(group) and len(certified) == 1


def _how_certified(log: Log) -> tuple[object, ...]:
    inputs = frozenset(zip(log.idx.tolist(), log.label.tolist(), strict=True))
    return inputs, log.n, log.most_draws, log.alpha, log.bound, log.precision
