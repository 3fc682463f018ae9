"""The curves as data: exact certified accuracies at a grid of radii 0, step, 2 step, ..."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shieldwall.report.page.entries import Entry
from shieldwall.report.page.envelope import Curve, Envelope
from shieldwall.report.page.looks import Looks
from shieldwall.results.certificates import Floats
from shieldwall.results.metrics import certified_accuracy

_MOST_RADII = 520
_MOST_HOVER_RADII = 105
_SYMBOLS = 3
_MANY_CURVES = 12


@dataclass(frozen=True)
class Grid:
    """Multiples of a round step from 0 to past the last certified radius, and the radii of the tables."""

    step: float
    hover_step: float
    radii: tuple[float, ...]
    hovered: tuple[int, ...]
    """Places of the radii whose values show under the pointer: multiples of `hover_step`, and the tables'."""


def grid(entries: Sequence[Entry], of_tables: Sequence[float] = ()) -> Grid:
    """Steps are 1, 2.5 or 5 times a power of ten, so that multiples of 0.25 are on a grid of finer steps."""
    largest = (
        max(
            float(entry.log.certificates.radii[entry.log.certificates.correct].max(initial=0.0))
            for entry in entries
        )
        or 1.0
    )
    power = math.floor(math.log10(largest)) - 4
    step = next(
        step for scale in range(4) for m in (1, 2.5, 5)
        if largest / (step := _rounded(m * 10.0 ** (power + scale))) + 2 <= _MOST_RADII
    )  # fmt: skip
    count = math.ceil(largest / step) + 2
    stride = next(stride for stride in (1, 2, 5) if count <= stride * _MOST_HOVER_RADII)
    multiples = [_rounded(k * step) for k in range(count)]
    hovered = {*multiples[::stride], *(radius for radius in of_tables if radius <= multiples[-1])}
    radii = tuple(sorted({*multiples, *hovered}))
    return Grid(step, multiples[stride], radii, tuple(k for k, r in enumerate(radii) if r in hovered))


def curves(of: Sequence[Curve], at: Grid, looks: Looks) -> list[dict[str, Any]]:
    """A record for each curve, envelopes last: what it is, by place in the toggles, and percentages."""
    kinds = [(one.method, one.protocol) for one in of]
    places = {kind: place for place, kind in enumerate(dict.fromkeys(kinds))}
    records = [_record(one, at, looks) for one in of]
    for kind, record in zip(kinds, records, strict=True):
        record["marks"] = _spread(len(record["accuracy"]), (places[kind] + 0.5) / len(places))
    return records


def _record(one: Curve, at: Grid, looks: Looks) -> dict[str, Any]:
    radii, look = np.array(at.radii), looks.curve(one)
    accuracy = (
        one.accuracy(radii) if isinstance(one, Envelope) else certified_accuracy(one.log.certificates, radii)
    )
    return {
        "title": one.title if isinstance(one, Envelope) else one.log.title,
        "method": looks.methods.index(one.method),
        "protocol": looks.protocols.index(one.protocol),
        "sigma": None if isinstance(one, Envelope) else looks.sigmas.index(one.sigma),
        "envelope": isinstance(one, Envelope),
        "width": look.width,
        "symbol": look.shape is not None,
        "number": look.number,
        "accuracy": [float(f"{100 * a:.4g}") for a in _to_first_zero(accuracy)],
    }


def _spread(count: int, first: float) -> list[int]:
    """Places along a curve for its symbols, not the same for curves that may be one line."""
    apart = (count - 1) / _SYMBOLS
    return sorted({int(apart * (turn + first)) for turn in range(_SYMBOLS)})


def _rounded(radius: float) -> float:
    return float(f"{radius:.10g}")


def _to_first_zero(accuracy: Floats) -> Floats:
    ends = np.flatnonzero(accuracy == 0)
    return accuracy[: ends[0] + 1] if len(ends) else accuracy


def starts_hidden(entries: Sequence[Entry]) -> set[str]:
    """The protocols whose toggles start unchecked: members and tuned weights, where many curves are left."""
    special = {e.protocol for e in entries if e.is_member or e.log.vote.startswith("we-")}
    crowded = len(entries) > _MANY_CURVES and len(special) < len({entry.protocol for entry in entries})
    return special if crowded else set()
