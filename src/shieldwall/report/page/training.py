"""The training logs as panels, a quantity each with a line for each run: accuracy, diversity, loss terms."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shieldwall.report.page.curves import MINUS, NOTHING

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
GROUPS = ("Accuracy", "Gradient diversity", "Loss terms")
_MOST_EPOCHS = 300


@dataclass(frozen=True)
class Line:
    """One quantity of one run; None where it was not a finite number."""

    run: int
    epochs: list[int]
    values: list[float | None]
    stride: int
    """The step between epochs that are kept; the last epoch always is."""

    @property
    def last(self) -> str:
        known = [value for value in self.values if value is not None]
        return f"{known[-1]:.4g}".replace("-", MINUS) if known else NOTHING


@dataclass(frozen=True)
class Panel:
    group: str
    title: str
    lines: list[Line]

    @property
    def description(self) -> str:
        """What a screen reader says instead of showing it."""
        return f"{self.title} by epoch, a line for each run; the table below holds the last values."

    @property
    def epochs(self) -> list[float]:
        """The first and the last of the axis; two apart, so that one epoch has an axis too."""
        every = [epoch for line in self.lines for epoch in line.epochs]
        return [min(every), max(max(every), min(every) + 1)]

    @property
    def values(self) -> list[float]:
        """The least and the largest of the axis, with a little room."""
        every = [value for line in self.lines for value in line.values if value is not None] or [0.0, 1.0]
        room = 0.05 * (max(every) - min(every)) or 0.05 * abs(max(every)) or 1.0
        return [min(every) - room, max(every) + room]


def panels(logs: Sequence[Sequence[Mapping[str, Any]]]) -> list[Panel]:
    """The panels of several runs, which lines name by their place; runs without a log have no lines."""
    lines: dict[str, list[Line]] = {}
    for run, epochs in enumerate(logs):
        for key, line in _lines(run, epochs).items():
            lines.setdefault(key, []).append(line)
    shown = [Panel(_group(key), _NAMES.get(key, key.replace("_", " ")), of) for key, of in lines.items()]
    return sorted(shown, key=lambda panel: GROUPS.index(panel.group))


def _lines(run: int, records: Sequence[Mapping[str, Any]]) -> dict[str, Line]:
    stride = math.ceil(len(records) / _MOST_EPOCHS) or 1
    kept = list(records[::stride])
    if kept and kept[-1] is not records[-1]:
        kept.append(records[-1])
    keys = dict.fromkeys(
        key
        for record in kept
        for key, value in record.items()
        if key not in _NO_CURVES and isinstance(value, int | float) and not isinstance(value, bool)
    )
    return {key: _line(run, key, kept, stride) for key in keys}


def _line(run: int, key: str, records: Sequence[Mapping[str, Any]], stride: int) -> Line:
    values = [_finite(record.get(key)) for record in records]
    is_fraction = all(value is None or 0 <= value <= 1 for value in values)
    scale = 100 if is_fraction and _group(key) == GROUPS[0] else 1
    shown = [None if value is None else float(f"{scale * value:.4g}") for value in values]
    return Line(run, [record["epoch"] for record in records], shown, stride)


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _group(key: str) -> str:
    if key.endswith("accuracy") or key == "weakest":
        return GROUPS[0]
    return GROUPS[1] if key in _DIVERSITY else GROUPS[2]
