"""Line charts of certified accuracy and of training logs, as SVG in the page itself: whole without scripts,
which only hide and show lines.

The SVG holds the lines alone and stretches to any width and height; its strokes do not (vector-effect).
Ticks, symbols and numbers are text and small pictures placed on it in percent, so that letters keep their
size on a phone. Coordinates are those of a square of SIZE.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shieldwall.report.page.curves import MINUS, NOTHING, Curve, CurveStyle, choices
from shieldwall.report.plots import label_places
from shieldwall.results.certificates import Floats
from shieldwall.results.intervals import accuracy
from shieldwall.results.metrics import largest_radius

SIZE = 1000
_MAX_RADII = 520
_MAX_HOVER_RADII = 105
_SYMBOLS = 3
_LETTER, _LABEL = 0.0067, 0.05
"""The width of a letter and the height of a label, as shares of the widest chart."""
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
    marks: tuple[tuple[float, float], ...] = ()
    """Where its symbol or number stands, in percent from the left and from the top."""
    hidden: bool = False  #: whether it starts so
    label: tuple[float, float] | None = None
    """Where its title stands on a wide screen, in percent from the left and from below."""


class Chart(NamedTuple):
    description: str  #: what a screen reader says instead of showing it
    x: Axis
    y: Axis
    lines: list[Line]  #: from below to above
    limits: tuple[tuple[str, float], ...] = ()  #: what n cannot exceed, and where it stands, in percent

    @property
    def ends(self) -> dict[str, tuple[float, float]]:
        """Of both axes."""
        return {"x": (self.x.low, self.x.high), "y": (self.y.low, self.y.high)}


def path(x: Axis, y: Axis, xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """The line through the points, broken where there is no value, without those within a level run."""
    parts: list[str] = []
    before: float | None = None
    for k, (value, after) in enumerate(zip(ys, [*ys[1:], None], strict=True)):
        if value is not None and not before == value == after:
            point = (f"{place:.1f}".removesuffix(".0") for place in (x.place(xs[k]), SIZE - y.place(value)))
            parts.append(("M" if before is None else "L") + ",".join(point))
        before = value
    return "".join(parts)


class Grid(NamedTuple):
    """Multiples of a round step from 0 to past the last certified radius, and the radii of the tables."""

    step: float
    hover_step: float
    radii: tuple[float, ...]
    hovered: tuple[int, ...]
    """Places of the radii whose values show under the pointer: multiples of `hover_step`, and the tables'."""


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
    curves: Sequence[Curve], looks: Sequence[CurveStyle], grid: Grid, norm: str, hidden: Container[str],
    keys: Sequence[int] | None = None,
) -> Chart:  # fmt: skip
    """Certified accuracy against radius; the curves of `hidden` protocols start hidden.

    `keys` are the places of the curves on the page; by default in the order given.
    """
    values = [accuracies(curve, grid) for curve in curves]
    keys = range(len(curves)) if keys is None else keys
    x = Axis(f"{norm} radius", 0.0, grid.radii[-1])
    y = Axis("certified accuracy, %", 0.0, min(100.0, 10.0 * (max(int(max(of) / 10) for of in values) + 1)))
    kinds = list(dict.fromkeys((curve.method, curve.protocol) for curve in curves))
    protocols = choices(curves, "protocol")
    lines = []
    for k, (curve, look) in enumerate(zip(curves, looks, strict=True)):
        # Symbols at other places on each curve, for some may be one line.
        apart = (len(values[k]) - 1) / _SYMBOLS
        shift = (kinds.index((curve.method, curve.protocol)) + 0.5) / len(kinds)
        places = sorted({int(apart * (turn + shift)) for turn in range(_SYMBOLS)})
        at = [(x.percent(grid.radii[j]), round(100 - y.percent(values[k][j]), 3)) for j in places]
        marks = tuple(at if look.shape or look.number else ())
        drawn = path(x, y, grid.radii, values[k])
        lines.append(Line(keys[k], curve.title, drawn, look, marks, hidden=curve.protocol in hidden))
    lines = _labelled(lines, [_points(x, y, grid.radii, of) for of in values])
    # Ensembles first, then members, then envelopes: dashes lie on what is solid.
    ranks = [(curve.row.is_envelope, protocols.index(curve.protocol)) for curve in curves]
    order = dict(zip(keys, ranks, strict=True))
    lines.sort(key=lambda line: order[line.key])
    ends = {round(largest_radius(run), 4): run.fixed_n for curve in curves for run in curve.row.certificates}
    reached = sorted(end for end in ends if end <= grid.radii[-1])
    limits = tuple((f"limit of n = {ends[end]:,}", x.percent(end)) for end in reached)
    what = f"Certified accuracy against {norm} radius, a curve for each run and protocol"
    return Chart(f"{what}; the tables below hold the values.", x, y, lines, limits)


def _points(x: Axis, y: Axis, radii: Sequence[float], values: Sequence[float]) -> Floats:
    """Of a curve, in shares of the chart, the last down to 0."""
    at = [(x.place(radius), y.place(value)) for radius, value in zip(radii, values, strict=False)]
    return np.array([*at, (at[-1][0], 0.0)]) / SIZE


def _labelled(lines: list[Line], points: Sequence[Floats]) -> list[Line]:
    """The lines in view with their titles beside them, if there is room for all on a wide screen."""
    shown = [k for k, line in enumerate(lines) if not line.hidden]
    sizes = [(_LETTER * len(lines[k].title), _LABEL) for k in shown]
    places = label_places([points[k] for k in shown], sizes) or []
    for k, (left, low, *_) in zip(shown, places, strict=False):
        lines[k] = lines[k]._replace(label=(round(100 * left, 2), round(100 * low, 2)))
    return lines


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
    lines: dict[str, list[History]] = {}
    for run, records in enumerate(logs):
        epochs = [record["epoch"] for record in records]
        for key in dict.fromkeys(key for record in records for key in record if key not in _NO_CURVES):
            numbers = [_number(record.get(key)) for record in records]
            if any(number is not None for number in numbers):
                lines.setdefault(key, []).append(History(run, epochs, _shown(key, numbers)))
    shown = [Panel(_group(key), _NAMES.get(key, key.replace("_", " ")), of) for key, of in lines.items()]
    return sorted(shown, key=lambda panel: GROUPS.index(panel.group))


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _shown(key: str, numbers: Sequence[float | None]) -> list[float | None]:
    """Four digits of the finite ones; accuracies that are fractions in percent."""
    finite = [number if number is not None and math.isfinite(number) else None for number in numbers]
    is_fraction = all(number is None or 0 <= number <= 1 for number in finite)
    scale = 100 if is_fraction and _group(key) == GROUPS[0] else 1
    return [None if number is None else float(f"{scale * number:.4g}") for number in finite]


def _group(key: str) -> str:
    if key.endswith("accuracy") or key == "weakest":
        return GROUPS[0]
    return GROUPS[1] if key in _DIVERSITY else GROUPS[2]


def training_chart(panel: Panel, looks: Sequence[CurveStyle]) -> Chart:
    epochs = [epoch for line in panel.lines for epoch in line.epochs]
    values = [value for line in panel.lines for value in line.values if value is not None] or [0.0, 1.0]
    room = 0.05 * (max(values) - min(values)) or 0.05 * abs(max(values)) or 1.0
    x = Axis("epoch", min(epochs), max(max(epochs), min(epochs) + 1))  # one epoch has an axis too
    y = Axis("", min(values) - room, max(values) + room, max_steps=5)
    lines = [Line(of.run, "", path(x, y, of.epochs, of.values), looks[of.run]) for of in panel.lines]
    what = f"{panel.title} by epoch, a line for each run"
    return Chart(f"{what}; the table below holds the last values.", x, y, lines)
