"""Line charts as SVG in the page itself: whole without scripts, which only hide and show lines.

The SVG holds the lines alone and stretches to any width and height; its strokes do not (vector-effect).
Ticks, symbols and numbers are text and small pictures placed on it in percent, so that letters keep their
size on a phone. Coordinates are those of a square of SIZE.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shieldwall.report.page.looks import Look
from shieldwall.report.page.signs import MINUS

SIZE = 1000


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
        """Labels at multiples of a round step, with their places in percent."""
        step = self._step()
        decimals = len(f"{step:.12f}".rstrip("0").partition(".")[2])
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        values = [k * step for k in range(first, last + 1)]
        return [(f"{value:.{decimals}f}".replace("-", MINUS), self.percent(value)) for value in values]

    def _step(self) -> float:
        """The smallest of 1, 2, 2.5 and 5 times a power of ten that gives no more than `max_steps`."""
        smallest = (self.high - self.low) / self.max_steps
        power = 10.0 ** math.floor(math.log10(smallest))
        return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= smallest * (1 - 1e-9))


@dataclass(frozen=True)
class Mark:
    """A symbol or a number on a line, in percent from the left and from the top."""

    left: float
    top: float


@dataclass(frozen=True)
class Line:
    key: int
    """The place of its curve or run on the page, by which it is hidden and shown."""
    title: str
    path: str
    look: Look
    marks: tuple[Mark, ...] = ()
    hidden: bool = False
    """Whether it starts so."""


@dataclass(frozen=True)
class Chart:
    description: str
    """What a screen reader says instead of showing it."""
    x: Axis
    y: Axis
    lines: list[Line]
    """From below to above."""


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
        parts.append(f"{'L' if is_open else 'M'}{_number(x.place(xs[k]))},{_number(SIZE - y.place(value))}")
        is_open = True
    return "".join(parts)


def marks(
    x: Axis, y: Axis, xs: Sequence[float], ys: Sequence[float], places: Sequence[int]
) -> tuple[Mark, ...]:
    return tuple(Mark(x.percent(xs[k]), round(100 - y.percent(ys[k]), 3)) for k in places)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
