"""Where a figure's legend goes."""

from collections.abc import Sequence
from typing import Any

from shieldwall.report.estimates import accuracy
from shieldwall.report.rows import Row, as_rows
from shieldwall.results.record import Log


def legend_place(
    shown: Sequence[Log | Row], texts: Sequence[str], right: float, top: float
) -> dict[str, Any]:
    """A corner of the axes that no curve enters, or else beside them.

    The curves only fall, so none enters the upper right box [x, right] x [y, top] if each is
    below y at x, and none enters the lower left box [0, x] x [0, y] if each is above y at x.
    """
    # The share of the axes that the text covers, as measured on figures of this size.
    width = 0.13 + 0.0145 * max(len(text) for text in texts)
    height = 0.04 + 0.052 * len(texts)
    if width < 1 and height < 1:
        rows = as_rows(shown)
        if all(accuracy(row, [right * (1 - width)]) < top * (1 - height) for row in rows):
            return {"loc": "upper right"}
        if all(accuracy(row, [right * width]) > top * height for row in rows):
            return {"loc": "lower left"}
    return {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
