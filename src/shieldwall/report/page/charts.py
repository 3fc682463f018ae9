"""Line charts of certified accuracy and of training logs, as SVG in the page itself: whole without scripts,
which only hide and show lines.

The SVG holds the lines alone, in a square of SIZE that stretches to any width and height. Ticks, symbols and
numbers are text and small pictures placed on it in percent, so that letters keep their size on a phone.
"""

import math
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shieldwall.report.page.curves import MINUS, NOTHING, Curve, CurveStyle, choices
from shieldwall.results.intervals import accuracy

SIZE = 1000
_MAX_RADII = 520
_MAX_HOVER_RADII = 105
_SYMBOLS = 3
GROUPS = ("Accuracy", "Gradient diversity", "Loss terms")
_NO_CURVES = ("epoch", "lr", "seconds")
_DIVERSITY = ("gd", "cosine", "alignment")
_NAMES = {
    "accuracy": "accuracy under noise, mean of members, %",
    "weakest": "accuracy under noise, weakest member, %",
    "noisy_accuracy": "accuracy under noise, %",
    "adversarial_accuracy": "accuracy on adversarial noisy inputs, %",
    "gd": "gradient diversity loss",
    "cosine": "mean cosine of members' gradients",
    "cm": "confidence margin loss",
    "loss": "total loss",
}


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
        step = _round_step((self.high - self.low) / self.max_steps, (1, 2, 2.5, 5, 10))
        decimals = len(f"{step:.12f}".rstrip("0").partition(".")[2])
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        values = [k * step for k in range(first, last + 1)]
        return [(f"{value:.{decimals}f}".replace("-", MINUS), self.percent(value)) for value in values]


class Line(NamedTuple):
    key: int  #: the place of its curve or run on the page, by which it is hidden and shown
    title: str
    path: str
    look: CurveStyle
    marks: tuple[tuple[float, float], ...] = ()  #: of its symbol or number: percent from the left and the top
    hidden: bool = False  #: whether it starts so


class Chart(NamedTuple):
    description: str  #: what a screen reader says instead of showing it
    x: Axis
    y: Axis
    lines: list[Line]  #: from below to above

    @property
    def ends(self) -> dict[str, tuple[float, float]]:
        return {"x": (self.x.low, self.x.high), "y": (self.y.low, self.y.high)}


def path(x: Axis, y: Axis, xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """The line through the points, broken where there is no value, without those within a level run."""
    parts: list[str] = []
    for k, (before, value, after) in enumerate(zip([None, *ys], ys, [*ys[1:], None], strict=False)):
        if value is not None and not before == value == after:
            point = (f"{place:.1f}".removesuffix(".0") for place in (x.place(xs[k]), SIZE - y.place(value)))
            parts.append(("M" if before is None else "L") + ",".join(point))
    return "".join(parts)


class Grid(NamedTuple):
    """Multiples of a round step from 0 to past the last certified radius, and the radii of the tables."""

    step: float
    hover_step: float
    radii: tuple[float, ...]
    hovered: tuple[int, ...]  #: places of the radii shown under the pointer: round ones, and the tables'


def radius_grid(curves: Sequence[Curve], of_tables: Sequence[float] = ()) -> Grid:
    """The step is 1, 2.5 or 5 times a power of ten: then finer steps have multiples of 0.25 on their grid."""
    certificates = [curve.row.certificates[0] for curve in curves]
    largest = max(float(run.radii[run.correct].max(initial=0.0)) for run in certificates) or 1.0
    step = _round_step(largest / (_MAX_RADII - 2), (1, 2.5, 5, 10))
    count = math.ceil(largest / step) + 2
    stride = next(stride for stride in (1, 2, 5) if count <= stride * _MAX_HOVER_RADII)
    multiples = [_rounded(k * step) for k in range(count)]
    hovered = {*multiples[::stride], *(radius for radius in of_tables if radius <= multiples[-1])}
    radii = tuple(sorted({*multiples, *hovered}))
    return Grid(step, multiples[stride], radii, tuple(k for k, r in enumerate(radii) if r in hovered))


def accuracy_chart(
    curves: Sequence[Curve], looks: Sequence[CurveStyle], grid: Grid, norm: str, hidden: Container[str]
) -> Chart:
    """Certified accuracy against radius; the curves of `hidden` protocols start hidden."""
    values = [accuracies(curve, grid) for curve in curves]
    x = Axis(f"{norm} radius", 0.0, grid.radii[-1])
    y = Axis("certified accuracy, %", 0.0, min(100.0, 10.0 * (max(int(max(of) / 10) for of in values) + 1)))
    kinds = list(dict.fromkeys((curve.method, curve.protocol) for curve in curves))
    lines = []
    for k, (curve, look) in enumerate(zip(curves, looks, strict=True)):
        # Symbols at other places on each curve, for some may be one line.
        apart = (len(values[k]) - 1) / _SYMBOLS
        shift = (kinds.index((curve.method, curve.protocol)) + 0.5) / len(kinds)
        places = sorted({int(apart * (turn + shift)) for turn in range(_SYMBOLS)})
        marks = [(x.percent(grid.radii[p]), round(100 - y.percent(values[k][p]), 3)) for p in places]
        is_marked, drawn = bool(look.shape or look.number), path(x, y, grid.radii, values[k])
        lines.append(Line(k, curve.title, drawn, look, tuple(marks * is_marked), curve.protocol in hidden))
    # Ensembles first, then members, then envelopes: dashes lie on what is solid.
    protocols = choices(curves, "protocol")
    order = [(curve.row.is_envelope, protocols.index(curve.protocol)) for curve in curves]
    lines.sort(key=lambda line: order[line.key])
    what = f"Certified accuracy against {norm} radius, a curve for each run and protocol"
    return Chart(f"{what}; the tables below hold the values.", x, y, lines)


def accuracies(curve: Curve, grid: Grid) -> list[float]:
    """Percentages at the radii of the grid, down to the first 0."""
    values = accuracy(curve.row, np.array(grid.radii))
    ends = np.flatnonzero(values == 0)
    return [float(f"{100 * value:.4g}") for value in (values[: ends[0] + 1] if len(ends) else values)]


def _round_step(least: float, multiples: Sequence[float]) -> float:
    """The smallest of these multiples of a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return _rounded(next(m * power for m in multiples if m * power >= least * (1 - 1e-9)))


def _rounded(radius: float) -> float:
    return float(f"{radius:.10g}")


class History(NamedTuple):
    """One quantity of one run; None where it was not a finite number."""

    run: int
    epochs: list[int]
    values: list[float | None]

    @property
    def last(self) -> str:
        known = [value for value in self.values if value is not None]
        return f"{known[-1]:.4g}".replace("-", MINUS) if known else NOTHING


class Panel(NamedTuple):
    group: str
    title: str
    lines: list[History]


def panels(logs: Sequence[Sequence[Mapping[str, Any]]]) -> list[Panel]:
    """The panels of several runs, which lines name by their place; runs without a log have no lines."""
    lines: dict[str, list[History]] = defaultdict(list)
    for run, records in enumerate(logs):
        epochs = [record["epoch"] for record in records]
        for key in dict.fromkeys(key for record in records for key in record if key not in _NO_CURVES):
            values = [_shown(key, record.get(key)) for record in records]
            if any(value is not None for value in values):
                lines[key].append(History(run, epochs, values))
    shown = [Panel(_group(key), _NAMES.get(key, key.replace("_", " ")), of) for key, of in lines.items()]
    return sorted(shown, key=lambda panel: GROUPS.index(panel.group))


def _shown(key: str, value: object) -> float | None:
    """Four digits of a finite number, accuracies in percent."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(f"{100 * value if _group(key) == GROUPS[0] else value:.4g}")


def _group(key: str) -> str:
    if key.endswith("accuracy") or key == "weakest":
        return GROUPS[0]
    return GROUPS[1] if key in _DIVERSITY else GROUPS[2]


def training_chart(panel: Panel, looks: Sequence[CurveStyle]) -> Chart:
    epochs = [epoch for line in panel.lines for epoch in line.epochs]
    values = [value for line in panel.lines for value in line.values if value is not None]
    room = 0.05 * (max(values) - min(values)) or 0.05 * abs(max(values)) or 1.0
    x = Axis("epoch", min(epochs), max(max(epochs), min(epochs) + 1))  # one epoch has an axis too
    y = Axis("", min(values) - room, max(values) + room, max_steps=5)
    lines = [Line(run, "", path(x, y, at, losses), looks[run]) for run, at, losses in panel.lines]
    what = f"{panel.title} by epoch, a line for each run"
    return Chart(f"{what}; the table below holds the last values.", x, y, lines)
