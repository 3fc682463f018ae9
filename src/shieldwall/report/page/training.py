"""The training logs as panels, a quantity each with a line for each run: accuracy, diversity, loss terms."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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


class Line(NamedTuple):
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


class Panel(NamedTuple):
    group: str
    title: str
    lines: list[Line]


def panels(logs: Sequence[Sequence[Mapping[str, Any]]]) -> list[Panel]:
    """The panels of several runs, which lines name by their place; runs without a log have no lines."""
    lines: dict[str, list[Line]] = {}
    for run, records in enumerate(logs):
        stride = math.ceil(len(records) / _MOST_EPOCHS) or 1
        kept = [record for k, record in enumerate(records) if k % stride == 0 or k == len(records) - 1]
        keys = dict.fromkeys(key for record in kept for key, value in record.items() if _is_number(value))
        for key in keys:
            if key not in _NO_CURVES:
                lines.setdefault(key, []).append(_line(run, key, kept, stride))
    shown = [Panel(_group(key), _NAMES.get(key, key.replace("_", " ")), of) for key, of in lines.items()]
    return sorted(shown, key=lambda panel: GROUPS.index(panel.group))


def _line(run: int, key: str, records: Sequence[Mapping[str, Any]], stride: int) -> Line:
    found: list[Any] = [record.get(key) for record in records]
    values = [value if _is_number(value) and math.isfinite(value) else None for value in found]
    is_fraction = all(value is None or 0 <= value <= 1 for value in values)
    scale = 100 if is_fraction and _group(key) == GROUPS[0] else 1
    shown = [None if value is None else float(f"{scale * value:.4g}") for value in values]
    return Line(run, [record["epoch"] for record in records], shown, stride)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _group(key: str) -> str:
    if key.endswith("accuracy") or key == "weakest":
        return GROUPS[0]
    return GROUPS[1] if key in _DIVERSITY else GROUPS[2]
