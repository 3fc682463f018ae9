"""The band around a curve: how far seeds spread, or the interval at 95%, for each radius by itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shieldwall.report.cells import PLUS_MINUS
from shieldwall.report.estimates import accuracy, accuracy_deviation, accuracy_interval, steps
from shieldwall.report.rows import Row
from shieldwall.results.certificates import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_STEPS = 1000
"""More would not be seen, and make a file of thousands of inputs large."""


def rows_with_band(rows: Sequence[Row], *, intervals: bool) -> list[Row]:
    """All that have one; of several runs only the ensembles, where there are any, for too many would blur."""
    found = [row for row in rows if intervals or row.seeds > 1]
    several = len({row.run for row in rows}) > 1
    return [row for row in found if several and not row.is_member] or found


def what_bands_are(rows: Sequence[Row], *, intervals: bool) -> str:
    """In words, for a legend; nothing where no row has a band."""
    found = rows_with_band(rows, intervals=intervals)
    if not found:
        return ""
    what = "95% intervals" if intervals else f"{PLUS_MINUS} standard deviation over seeds"
    of_some = any(row.is_member for row in rows) and not any(row.is_member for row in found)
    return f"bands: {what}{', not of members' if of_some else ''}"


def fill_band(axes: "Axes", row: Row, style: dict[str, Any], *, intervals: bool, alpha: float) -> None:
    """Shade the band below the curves, where the row has one."""
    radii = steps(row)
    if len(radii) > _MOST_STEPS:
        radii = radii[np.linspace(0, len(radii) - 1, _MOST_STEPS).round().astype(int)]
    ends = band(row, radii, intervals=intervals)
    if ends is not None:
        look: dict[str, Any] = {"color": style["color"], "alpha": alpha, "linewidth": 0}
        axes.fill_between(radii, *ends, step="pre", zorder=1.5, **look)


def band(row: Row, radii: Floats, *, intervals: bool) -> tuple[Floats, Floats] | None:
    """Its lower and upper end at each radius: mean -+ the standard deviation over seeds, or the interval."""
    if intervals:
        return accuracy_interval(row, radii)
    spread = accuracy_deviation(row, radii)
    if spread is None:
        return None
    middle = accuracy(row, radii)
    return np.maximum(middle - spread, 0.0), np.minimum(middle + spread, 1.0)
