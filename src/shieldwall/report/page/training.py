"""The training logs as panels, a quantity each with a line for each run: accuracy, diversity, loss terms."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shieldwall.report.page.curves import MINUS, NOTHING

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
        kept = [*records[:-1:stride], *records[-1:]]
        epochs = [record["epoch"] for record in kept]
        for key in dict.fromkeys(key for record in kept for key in record if key not in _NO_CURVES):
            numbers = [_number(record.get(key)) for record in kept]
            if any(number is not None for number in numbers):
                lines.setdefault(key, []).append(Line(run, epochs, _shown(key, numbers), stride))
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
