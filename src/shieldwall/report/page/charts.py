"""Line charts as SVG in the page itself: whole without scripts, which only hide and show lines.

The SVG holds the lines alone and stretches to any width and height; its strokes do not (vector-effect).
Ticks, symbols and numbers are text and small pictures placed on it in percent, so that letters keep their
size on a phone. Coordinates are those of a square of SIZE.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shieldwall.report.page.curves import MINUS, Curve, CurveStyle, choices
from shieldwall.report.page.training import Panel
from shieldwall.results.intervals import accuracy

SIZE = 1000
_MAX_RADII = 520
_MAX_HOVER_RADII = 105
_SYMBOLS = 3


@dataclass(frozen=True)
class Axis:
    title: str
    low: float
    high: float
    max_steps: int = 8

    def place(self, value: float) -> float:
        """From 0 to SIZE."""
        return SIZE * (value - self.low) / (self.high - self.low)

    def percent(self, value: float) -> float:
        return round(100 * self.place(value) / SIZE, 3)

    @property
    def ticks(self) -> list[tuple[str, float]]:
        """At most `max_steps` of 1, 2, 2.5 or 5 times a power of ten: labels and places in percent."""
        smallest = (self.high - self.low) / self.max_steps
        power = 10.0 ** math.floor(math.log10(smallest))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= smallest * (1 - 1e-9))
        decimals = len(f"{step:.12f}".rstrip("0").partition(".")[2])
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        values = [k * step for k in range(first, last + 1)]
        return [(f"{value:.{decimals}f}".replace("-", MINUS), self.percent(value)) for value in values]


class Line(NamedTuple):
    key: int
    """The place of its curve or run on the page, by which it is hidden and shown."""
    title: str
    path: str
    look: CurveStyle
    marks: tuple[tuple[float, float], ...] = ()
    """Where its symbol or number stands, in percent from the left and from the top."""
    hidden: bool = False
    """Whether it starts so."""


class Chart(NamedTuple):
    description: str
    """What a screen reader says instead of showing it."""
    x: Axis
    y: Axis
    lines: list[Line]
    """From below to above."""

    @property
    def ends(self) -> dict[str, tuple[float, float]]:
        """Of both axes."""
        return {"x": (self.x.low, self.x.high), "y": (self.y.low, self.y.high)}


def path(x: Axis, y: Axis, xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """The line through the points, broken where there is no value, without those within a level run."""
    parts: list[str] = []
    is_open = False
    for k, value in enumerate(ys):
        if value is None:
            is_open = False
            continue
        between = 0 < k < len(ys) - 1 and ys[k - 1] == value == ys[k + 1]
        if is_open and between:
            continue
        point = (f"{place:.1f}".removesuffix(".0") for place in (x.place(xs[k]), SIZE - y.place(value)))
        parts.append(("L" if is_open else "M") + ",".join(point))
        is_open = True
    return "".join(parts)


class Grid(NamedTuple):
    """Multiples of a round step from 0 to past the last certified radius, and the radii of the tables."""

    step: float
    hover_step: float
    radii: tuple[float, ...]
    hovered: tuple[int, ...]
    """Places of the radii whose values show under the pointer: multiples of `hover_step`, and the tables'."""


def radius_grid(curves: Sequence[Curve], of_tables: Sequence[float] = ()) -> Grid:
    """Steps are 1, 2.5 or 5 times a power of ten, so that multiples of 0.25 are on a grid of finer steps."""
    certificates = [curve.row.certificates[0] for curve in curves]
    largest = max(float(run.radii[run.correct].max(initial=0.0)) for run in certificates) or 1.0
    power = math.floor(math.log10(largest)) - 4
    step = next(
        step for scale in range(4) for m in (1, 2.5, 5)
        if largest / (step := _rounded(m * 10.0 ** (power + scale))) + 2 <= _MAX_RADII
    )  # fmt: skip
    count = math.ceil(largest / step) + 2
    stride = next(stride for stride in (1, 2, 5) if count <= stride * _MAX_HOVER_RADII)
    multiples = [_rounded(k * step) for k in range(count)]
    hovered = {*multiples[::stride], *(radius for radius in of_tables if radius <= multiples[-1])}
    radii = tuple(sorted({*multiples, *hovered}))
    return Grid(step, multiples[stride], radii, tuple(k for k, r in enumerate(radii) if r in hovered))


def accuracy_chart(
    curves: Sequence[Curve], looks: Sequence[CurveStyle], grid: Grid, norm: str, visible: set[int]
) -> Chart:
    """Certified accuracy against radius; ensembles are drawn first and envelopes last, so that dashes lie on
    what is solid."""
    values = [accuracies(curve, grid) for curve in curves]
    best = max(max(of_curve) for of_curve in values)
    x = Axis(f"{norm} radius", 0.0, grid.radii[-1])
    y = Axis("certified accuracy, %", 0.0, min(100.0, 10.0 * (int(best / 10) + 1)))
    kinds = [(curve.method, curve.protocol) for curve in curves]
    different, protocols = list(dict.fromkeys(kinds)), choices(curves, "protocol")
    lines = []
    for k in sorted(
        range(len(curves)), key=lambda k: (curves[k].row.is_envelope, protocols.index(curves[k].protocol), k)
    ):
        # Symbols at other places on each curve, for some may be one line.
        apart, shift = (len(values[k]) - 1) / _SYMBOLS, (different.index(kinds[k]) + 0.5) / len(different)
        places = sorted({int(apart * (turn + shift)) for turn in range(_SYMBOLS)})
        marks = tuple(
            (x.percent(grid.radii[place]), round(100 - y.percent(values[k][place]), 3))
            for place in (places if looks[k].shape or looks[k].number else ())
        )
        drawn = path(x, y, grid.radii, values[k])
        lines.append(Line(k, curves[k].title, drawn, looks[k], marks, hidden=k not in visible))
    what = f"Certified accuracy against {norm} radius, a curve for each run and protocol"
    return Chart(f"{what}; the tables below hold the values.", x, y, lines)


def training_chart(panel: Panel, looks: Sequence[CurveStyle]) -> Chart:
    epochs = [epoch for line in panel.lines for epoch in line.epochs]
    values = [value for line in panel.lines for value in line.values if value is not None] or [0.0, 1.0]
    room = 0.05 * (max(values) - min(values)) or 0.05 * abs(max(values)) or 1.0
    x = Axis("epoch", min(epochs), max(max(epochs), min(epochs) + 1))  # one epoch has an axis too
    y = Axis("", min(values) - room, max(values) + room, max_steps=5)
    lines = [
        Line(line.run, "", path(x, y, line.epochs, line.values), looks[line.run]) for line in panel.lines
    ]
    what = f"{panel.title} by epoch, a line for each run"
    return Chart(f"{what}; the table below holds the last values.", x, y, lines)


def accuracies(curve: Curve, grid: Grid) -> list[float]:
    """Percentages at the radii of the grid, down to the first 0."""
    values = accuracy(curve.row, np.array(grid.radii))
    ends = np.flatnonzero(values == 0)
    return [float(f"{100 * value:.4g}") for value in (values[: ends[0] + 1] if len(ends) else values)]


def _rounded(radius: float) -> float:
    return float(f"{radius:.10g}")
