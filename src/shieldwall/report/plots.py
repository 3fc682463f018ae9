"""Certified accuracy against radius, drawn; around it a band, where several seeds or intervals are shown."""

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shieldwall.errors import UserError
from shieldwall.report.tables import PLUS_MINUS, describe, notes
from shieldwall.results.certificates import Floats, shared
from shieldwall.results.intervals import accuracy, accuracy_deviation, accuracy_interval, steps
from shieldwall.results.rows import Row, shared_norm, titles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, distinct for the colour-blind, without the yellow that is hard to see on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
_STRONG, _THIN = 2.1, 0.9
_ROAD = {"linewidth": 3.6, "alpha": 0.5}  #: a solid line below dashes of its colour
_BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
_MAX_STEPS = 1000  #: more steps of a band cannot be seen, and make the file large

# Without these each file would hold the date and the version that drew it, and never be the same twice.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
}


def check_figure_path(path: Path) -> None:
    """Refuse a suffix that no figure is written as."""
    if path.suffix.lower() not in _METADATA:
        raise UserError(f"{path}: a figure is written as .png, .pdf or .svg, by the file's suffix")


def figure_bytes(figure: "Figure", path: Path, about: str | None = None) -> bytes:
    """The figure as a file, by the path's suffix: the same bytes each time; `about` is for its metadata."""
    from matplotlib import rc_context

    check_figure_path(path)
    suffix = path.suffix.lower()
    content, field = BytesIO(), "Subject" if suffix == ".pdf" else "Description"
    metadata = {**_METADATA[suffix], field: about}
    # Text stays text, which can be searched and edited, in TrueType (publishers refuse the default, Type 3).
    # Without a fixed salt the names inside an SVG file would be random.
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "shieldwall"}):
        figure.savefig(content, format=suffix.removeprefix("."), dpi=160, metadata=metadata)
    return content.getvalue()


def describe_figure(rows: Sequence[Row], *, intervals: bool = False) -> str:
    """What a figure shows and how it was made, for its metadata: inputs, n, alpha."""
    lines = [describe(rows), *notes(rows, intervals=intervals)]
    return "; ".join(lines).replace("in brackets: ", "bands: ")


def empty_figure(width: float, height: float) -> "tuple[Figure, Axes]":
    # Here, not at the top: matplotlib is slow to import, and most commands draw nothing.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    return figure, plain_axes(figure.add_subplot(facecolor="white"))


def plain_axes(axes: "Axes") -> "Axes":
    """The axes with a pale grid and no frame at the top and the right."""
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def accuracy_figure(
    rows: Sequence[Row], radii: Sequence[float] | None = None, *, intervals: bool = False,
    axes: "Axes | None" = None,
) -> "Figure":  # fmt: skip
    """The exact step curve of each row: A(r) against r, in a figure of its own or in `axes`.

    `radii`, where given, are the ticks of the radius axis. The band is the standard deviation over seeds to
    both sides, or with `intervals` the interval at 95%, for each radius by itself; the legend says which.
    """
    norm = shared_norm(rows)
    if axes is None:
        figure, axes = empty_figure(6.4, 4.0)
    else:
        figure, axes = cast("Figure", axes.get_figure(root=True)), plain_axes(axes)
    one_run = len(rows) > 1 and len({row.run for row in rows}) == 1
    labels = [title.removeprefix(f"{rows[0].run} " if one_run else "") for title in titles(rows)]
    banded = _with_band(rows, intervals)
    right = best = 0.0
    for row, label, style in zip(rows, tuple(labels), styles(rows), strict=True):
        r = steps(row)
        values = accuracy(row, r)
        # A is constant on (r_{k-1}, r_k], which is what "pre" draws; the last point closes the curve.
        axes.step(np.append(r, r[-1]), np.append(values, 0.0), where="pre", label=label, **style)
        if row in banded:
            at = r[np.linspace(0, len(r) - 1, min(len(r), _MAX_STEPS)).round().astype(int)]
            # The more there are, the fainter: where all of them meet, the curves are still seen.
            look: dict[str, Any] = {"alpha": max(0.08, min(0.18, 0.5 / len(banded))), "linewidth": 0}
            ends = band(row, at, intervals=intervals)
            axes.fill_between(at, *ends, color=style["color"], step="pre", zorder=1.5, **look)
        right, best = max(right, float(r[-1])), max(best, float(values[0]))
        attack = row.record.attacks.get(row.vote)
        if attack is not None and len(row.logs) == 1 and norm == "L2":  # robust accuracy lies between the two
            inputs = f", {len(attack.truth)} inputs" * (len(attack.truth) != row.num_inputs)
            labels.append(f"{label} under attack{inputs}")
            look = {"color": style["color"], "linestyle": ":", "marker": "v", "label": labels[-1]}
            axes.plot(attack.lengths, attack.accuracy, **look)
            right, best = max(right, attack.lengths[-1]), max(best, attack.accuracy[0])
    if radii is not None and len(radii):
        axes.set_xticks(sorted(radii))
        right = max(right, *radii)
    right = 1.03 * right or 1.0
    top = min(1.02, math.ceil(10 * best + 0.5) / 10) if best else 1.0
    axes.set(xlim=(0, right), ylim=(0, top), xlabel=f"radius ({norm})", ylabel="certified accuracy")
    # What all curves have in common, and what the bands are.
    combined = shared(row.combines for row in rows) or ""
    common = f"{rows[0].run}{f' ({combined})' * bool(combined)}" if one_run else combined
    heading = [line for line in (common, _about_bands(rows, banded, intervals)) if line]
    texts = [*heading, *labels]
    place = _legend_place(rows, texts, right, top) if len(labels) == len(rows) else _BESIDE
    small: dict[str, Any] = {"fontsize": "small", "title_fontsize": "small"}
    axes.legend(title="\n".join(heading), alignment="left", frameon=False, **small, **place)
    if place is _BESIDE and len(figure.axes) == 1:
        figure.set_size_inches(7.1 + 0.08 * max(map(len, texts)), max(4.0, 0.4 + 0.19 * len(texts)))
    return figure


def styles(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The line of each log: thin for a single member, strong for all else.

    In one run every row has its own colour; of several runs, each has one colour for all of its rows. Dashes
    show the vote. The votes of a run often have nearly the same curve, so dashed lines lie over solid ones;
    if both have one colour, the solid line is broad and pale. After the last colour the dashes change.
    """
    runs = list(dict.fromkeys(row.run for row in rows))
    lines: dict[Row, dict[str, Any]] = {}
    for place, row in enumerate(sorted(rows, key=lambda row: row.is_member)):
        of_run = [other for other in rows if (other.run, other.is_member) == (row.run, row.is_member)]
        colour, dashes = place, place // len(COLOURS) if row.is_member else place
        if len(runs) > 1:
            colour = runs.index(row.run)
            dashes = colour // len(COLOURS) + of_run.index(row) * math.ceil(len(runs) / len(COLOURS))
        width = _THIN if row.is_member else _STRONG
        # Strong lines lie over the thin ones; dashes, which come later, over what is solid.
        lines[row] = {
            "color": COLOURS[colour % len(COLOURS)], "linestyle": _DASHES[dashes % len(_DASHES)],
            "linewidth": width, "zorder": 2 + width,
        }  # fmt: skip
        if len(runs) > 1 and not row.is_member and len(of_run) > 1 and row is of_run[0]:
            lines[row] |= _ROAD
    return [lines[row] for row in rows]


def _with_band(rows: Sequence[Row], intervals: bool) -> list[Row]:
    """All that have one; of several runs only the ensembles, where there are any, for too many would blur."""
    banded = [row for row in rows if intervals or row.seeds > 1]
    several = len({row.run for row in rows}) > 1
    return [row for row in banded if several and not row.is_member] or banded


def _about_bands(rows: Sequence[Row], banded: Sequence[Row], intervals: bool) -> str:
    what = "95% intervals" if intervals else f"{PLUS_MINUS} standard deviation over seeds"
    of_some = any(row.is_member for row in rows) and not any(row.is_member for row in banded)
    return f"bands: {what}{', not of members' * of_some}" if banded else ""


def band(row: Row, radii: Floats, *, intervals: bool) -> tuple[Floats, Floats]:
    """Its lower and upper end at each radius: mean -+ the standard deviation over seeds, or the interval."""
    if intervals:
        return accuracy_interval(row, radii)
    middle, spread = accuracy(row, radii), accuracy_deviation(row, radii)
    assert spread is not None
    return np.maximum(middle - spread, 0.0), np.minimum(middle + spread, 1.0)


def _legend_place(rows: Sequence[Row], texts: Sequence[str], right: float, top: float) -> dict[str, Any]:
    """A corner of the axes that no curve enters, or else beside them.

    The curves only fall, so none enters the upper right box [x, right] x [y, top] if each is
    below y at x, and none enters the lower left box [0, x] x [0, y] if each is above y at x.
    """
    # The share of the axes that the text covers, as measured on figures of this size.
    width, height = 0.13 + 0.0145 * max(map(len, texts)), 0.04 + 0.052 * len(texts)
    if width < 1 and height < 1:
        if all(accuracy(row, [right * (1 - width)]) < top * (1 - height) for row in rows):
            return {"loc": "upper right"}
        if all(accuracy(row, [right * width]) > top * height for row in rows):
            return {"loc": "lower left"}
    return _BESIDE
