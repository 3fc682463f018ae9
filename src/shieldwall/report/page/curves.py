"""The curves as data: exact certified accuracies at a grid of radii 0, step, 2 step, ..."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shieldwall.report.page.entries import Entry
from shieldwall.report.page.envelope import Curve, Envelope
from shieldwall.report.page.looks import Looks
from shieldwall.results.metrics import Floats, certified_accuracy

_MOST_RADII = 320
_HOVER_RADII = 64
_MANY_CURVES = 12


@dataclass(frozen=True)
class Grid:
    """Radii that are multiples of a round step, from 0 to past the last certified one."""

    step: float
    count: int

    @property
    def radii(self) -> Floats:
        return np.array([self.at(k) for k in range(self.count)])

    @property
    def hover_stride(self) -> int:
        """Every so many-th radius can be hovered over."""
        return math.ceil(self.count / _HOVER_RADII)

    def at(self, k: int) -> float:
        return float(f"{k * self.step:.10g}")


def grid(entries: Sequence[Entry]) -> Grid:
    largest = max(float(entry.log.radius[entry.log.correct].max(initial=0.0)) for entry in entries) or 1.0
    power = 10.0 ** (math.floor(math.log10(largest)) - 4)
    step = next(
        step for scale in (1, 10, 100, 1000) for m in (1, 2, 5)
        if largest / (step := m * scale * power) + 2 <= _MOST_RADII
    )  # fmt: skip
    return Grid(float(f"{step:.6g}"), math.ceil(largest / step) + 2)


def curves(of: Sequence[Curve], at: Grid, looks: Looks) -> list[dict[str, Any]]:
    """A record for each curve, envelopes last: what it is, by place in the toggles, and percentages."""
    return [_record(one, at, looks) for one in of]


def _record(one: Curve, at: Grid, looks: Looks) -> dict[str, Any]:
    accuracy = one.accuracy(at.radii) if isinstance(one, Envelope) else certified_accuracy(one.log, at.radii)
    return {
        "title": one.title if isinstance(one, Envelope) else one.log.title,
        "method": looks.methods.index(one.method),
        "protocol": looks.protocols.index(one.protocol),
        "sigma": None if isinstance(one, Envelope) else looks.sigmas.index(one.sigma),
        "envelope": isinstance(one, Envelope),
        "width": looks.curve(one).width,
        "accuracy": [float(f"{100 * a:.4g}") for a in _to_first_zero(accuracy)],
    }


def _to_first_zero(accuracy: Floats) -> Floats:
    ends = np.flatnonzero(accuracy == 0)
    return accuracy[: ends[0] + 1] if len(ends) else accuracy


def starts_hidden(entries: Sequence[Entry]) -> set[str]:
    """The protocols whose toggles start unchecked: members, where there are many curves beside theirs."""
    members = {entry.protocol for entry in entries if entry.is_member}
    crowded = len(entries) > _MANY_CURVES and len(members) < len({entry.protocol for entry in entries})
    return members if crowded else set()
