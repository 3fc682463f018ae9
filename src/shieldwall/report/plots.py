"""Certified accuracy against radius, drawn; around it a band, where several seeds or intervals are shown.

Colours show sigma, and where all rows have one, the run or the vote. Rows of DRT are solid, others beside
them dashed. Labels stand at the curves where there is room, else in a legend. More than eight curves become
small panels, by vote or by sigma. A mark shows the radius that n samples cannot exceed.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from io import BytesIO
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shieldwall.errors import UserError
from shieldwall.report.tables import PLUS_MINUS, describe, notes
from shieldwall.results.certificates import Floats, shared
from shieldwall.results.intervals import accuracy, accuracy_deviation, accuracy_interval, steps
from shieldwall.results.metrics import largest_radius
from shieldwall.results.rows import Row, is_drt, shared_norm, sigmas_of, titles
from shieldwall.vocabulary import SIGMAS, vote_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, distinct for the colour-blind, without the yellow that is hard to see on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_PATTERNS = ((4, 1.5), (1.2, 1.2), (5, 1.5, 1.2, 1.5), (2.4, 1.2), (5, 1.2, 1.2, 1.2, 1.2, 1.2))
_DASHES: tuple[Any, ...] = tuple((0, pattern) for pattern in _PATTERNS)
_NEARLY_SOLID: tuple[Any, ...] = ("-", (0, (7, 1.4)), (0, (7, 1.4, 1.4, 1.4)))  #: of several runs with DRT
_STRONG, _THIN = 2.1, 0.9
_ROAD = {"linewidth": 3.6, "alpha": 0.5}  #: A solid line below dashes of its colour
_Box = tuple[float, float, float, float]
"""The left and the lower end, the width and the height of a text, in shares of the axes."""
_BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
MAX_CURVES = 8  #: of one panel
_PER_LINE = 3
_GAP = 0.008
_LETTER, _LINE = 0.0117, 0.052
"""The width of a letter and the height of a line, as shares of the axes, measured on figures of this size."""
_POINTS = 200  #: of a curve, where its label may stand
_PANEL_SCALE = 1.4  #: how much larger a letter is beside the axes of a small panel
_BELOW: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.17), "borderaxespad": 0.0}
_MAX_STEPS = 1000  #: more steps of a band cannot be seen, and make the file large

# Without these each file would hold the date and the version that drew it, and never be the same twice.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
}
_DESCRIPTION = {".png": "Description", ".pdf": "Subject", ".svg": "Description"}
"""The field of each kind of file that says what the figure shows."""


def check_figure_path(path: Path) -> None:
    """Refuse a suffix that no figure is written as."""
    if path.suffix.lower() not in _METADATA:
        raise UserError(f"{path}: a figure is written as .png, .pdf or .svg, by the file's suffix")


def figure_bytes(figure: "Figure", path: Path, about: str | None = None) -> bytes:
    """The figure as a file's content by the path's suffix: the same bytes each time.

    `about` says in the file's metadata how it was made.
    """
    from matplotlib import rc_context

    check_figure_path(path)
    suffix = path.suffix.lower()
    content, metadata = BytesIO(), {**_METADATA[suffix], _DESCRIPTION[suffix]: about}
    # Text stays text, which can be searched and edited, in TrueType (publishers refuse the default, Type 3).
    # Without a fixed salt the names inside an SVG file would be random.
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "shieldwall"}):
        figure.savefig(content, format=suffix.removeprefix("."), dpi=160, metadata=metadata)
    return content.getvalue()


def describe_figure(rows: Sequence[Row], *, intervals: bool = False) -> str:
    """What a figure shows and how it was made, for its metadata: inputs, n, alpha."""
    lines = [describe(rows), *notes(rows, intervals=intervals)]
    return "; ".join(lines).replace("in brackets: ", "bands: ")


def empty_figure(width: float, height: float) -> "Figure":
    # Here, not at the top: matplotlib is slow to import, and most commands draw nothing.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def plain_axes(axes: "Axes") -> "Axes":
    """The axes with a pale grid and no frame at the top and the right."""
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def accuracy_figure(
    rows: Sequence[Row], radii: Sequence[float] | None = None,
    *, intervals: bool = False, axes: "Axes | None" = None,
) -> "Figure":  # fmt: skip
    """The exact step curve of each row: A(r) against r, in a figure of its own or in `axes`.

    `radii`, where given, are the ticks of the radius axis. The band is the standard deviation over seeds to
    both sides, or with `intervals` the interval at 95%, for each radius by itself; the legend says which.
    """
    shared_norm(rows)  # refuses rows that do not stand in one figure
    if axes is not None:
        _draw(plain_axes(axes), rows, radii, intervals)
        return cast("Figure", axes.get_figure(root=True))
    panels = _panels(rows)
    columns = min(_PER_LINE, len(panels))
    lines = -(-len(panels) // columns)
    figure = empty_figure(4.6 * columns, 3.4 * lines) if len(panels) > 1 else empty_figure(6.4, 4.0)
    for k, (title, of_panel) in enumerate(panels):
        panel = plain_axes(figure.add_subplot(lines, columns, k + 1, facecolor="white"))
        panel.set_title(title, fontsize="small", loc="left")
        looks = styles(of_panel, by_sigma=len(sigmas_of(rows)) > 1) if len(panels) > 1 else None
        _draw(panel, of_panel, radii, intervals, looks)
    return figure


def _panels(rows: Sequence[Row]) -> list[tuple[str, Sequence[Row]]]:
    """The rows of each panel, and what they share: the first of vote, sigma, both and run that is enough."""
    if len(rows) <= MAX_CURVES:
        return [("", rows)]
    keys: tuple[Callable[[Row], str], ...] = (
        lambda row: vote_title(row.vote), _sigma_title,
        lambda row: f"{vote_title(row.vote)}, {_sigma_title(row)}", lambda row: row.run,
    )  # fmt: skip
    groups: dict[str, list[Row]] = {}
    for key in keys:
        groups = {name: [row for row in rows if key(row) == name] for name in dict.fromkeys(map(key, rows))}
        if max(map(len, groups.values())) <= MAX_CURVES:
            break
    return sorted(groups.items(), key=lambda group: sigmas_of(group[1]))


def _sigma_title(row: Row) -> str:
    return f"sigma {', '.join(f'{sigma:g}' for sigma in sigmas_of([row]))}"


def _draw(
    axes: "Axes", rows: Sequence[Row], radii: Sequence[float] | None, intervals: bool,
    panel_styles: Sequence[dict[str, Any]] | None = None,
) -> None:  # fmt: skip
    norm = shared_norm(rows)
    figure = cast("Figure", axes.get_figure(root=True))
    one_run = len(rows) > 1 and len({row.run for row in rows}) == 1
    labels = [title.removeprefix(f"{rows[0].run} " if one_run else "") for title in titles(rows)]
    before, after = ("", "") if one_run else _common(labels)
    labels = [label[len(before) : len(label) - len(after)] for label in labels]
    banded = _with_band(rows, intervals)
    looks = panel_styles or styles(rows)
    right = best = 0.0
    attacked, lines = False, []
    for row, label, style in zip(rows, tuple(labels), looks, strict=True):
        r = steps(row)
        values = accuracy(row, r)
        # A is constant on (r_{k-1}, r_k], which is what "pre" draws; the last point closes the curve.
        lines.append(np.column_stack([np.append(r, r[-1]), np.append(values, 0.0)]))
        axes.step(*lines[-1].T, where="pre", label=label, **style)
        if row in banded:
            at = r[np.linspace(0, len(r) - 1, min(len(r), _MAX_STEPS)).round().astype(int)]
            # The more there are, the fainter: where all of them meet, the curves are still seen.
            look: dict[str, Any] = {"alpha": max(0.08, min(0.18, 0.5 / len(banded))), "linewidth": 0}
            ends = band(row, at, intervals=intervals)
            axes.fill_between(at, *ends, color=style["color"], step="pre", zorder=1.5, **look)
        right, best = max(right, float(r[-1])), max(best, float(values[0]))
        attack = row.record.attacks.get(row.vote)
        if attack is not None and len(row.logs) == 1 and norm == "L2":  # robust accuracy lies between the two
            inputs = "" if len(attack.truth) == row.num_inputs else f", {len(attack.truth)} inputs"
            labels.append(f"{label} under attack{inputs}")
            look = {"color": style["color"], "linestyle": ":", "marker": "v", "label": labels[-1]}
            axes.plot(attack.lengths, attack.accuracy, **look)
            right, best, attacked = max(right, attack.lengths[-1]), max(best, attack.accuracy[0]), True

    if radii is not None and len(radii):
        axes.set_xticks(sorted(radii))
        right = max(right, *radii)
    right = 1.03 * right or 1.0
    top = min(1.02, math.ceil(10 * best + 0.5) / 10) if best else 1.0
    axes.set(xlim=(0, right), ylim=(0, top), xlabel=f"radius ({norm})", ylabel="certified accuracy")
    marks = _mark_limits(axes, rows, looks, right)

    # What all curves have in common, and what the bands are.
    combined = shared(row.combines for row in rows) or ""
    common = f"{rows[0].run}{f' ({combined})' * bool(combined)}" if one_run else combined
    of_all = f"{before.rstrip(' -')}{'' if panel_styles else after}".strip()
    heading = [line for line in (common, of_all, _about_bands(rows, banded, intervals)) if line]
    scale = _PANEL_SCALE if panel_styles else 1.0
    sizes = [(scale * _LETTER * len(label) + 0.01, scale * _LINE) for label in labels]
    small: dict[str, Any] = {"fontsize": "small"}
    if not attacked and (places := label_places([line / (right, top) for line in lines], sizes, marks)):
        for (x, y, *_), label, style in zip(places, labels, looks, strict=True):
            axes.text(x, y, label, color=style["color"], transform=axes.transAxes, va="bottom", **small)
        axes.set_title("\n".join(filter(None, [axes.get_title("left"), *heading])), loc="left", **small)
        return
    legend: dict[str, Any] = {**small, "title_fontsize": "small", "frameon": False, "alignment": "left"}
    axes.legend(title="\n".join(heading), **legend, **(_BELOW if panel_styles else _BESIDE))
    if len(figure.axes) == 1 and not panel_styles:
        texts = [*heading, *labels]
        figure.set_size_inches(7.1 + 0.08 * max(map(len, texts)), max(4.0, 0.4 + 0.19 * len(texts)))


def _common(labels: Sequence[str]) -> tuple[str, str]:
    """The whole words that all labels begin with, and those that all end with."""
    from_start, from_end = ([re.split(at, label) for label in labels] for at in ("(?<=[ -])", "(?= )"))
    before = "".join(commonprefix(from_start))  # noqa: RUF071 - of lists of words
    after = "".join(reversed(commonprefix([words[::-1] for words in from_end])))  # noqa: RUF071
    whole = len(labels) < 2 or min(map(len, labels)) <= len(before) + len(after)
    return ("", "") if whole else (before, after)


def _mark_limits(
    axes: "Axes", rows: Sequence[Row], looks: Sequence[dict[str, Any]], right: float
) -> list[_Box]:
    """A mark at the radius that n samples cannot exceed, once for each sigma and n; -> where they stand."""
    limits: dict[float, tuple[int | None, str]] = {}
    for row, look in zip(rows, looks, strict=True):
        for run in row.certificates:
            limits.setdefault(round(largest_radius(run), 4), (run.fixed_n, look["color"]))
    for limit, (n, color) in limits.items():
        if 0 < limit <= right:
            style: dict[str, Any] = {"color": color, "textcoords": "offset points", "annotation_clip": False}
            up = "\N{BLACK UP-POINTING TRIANGLE}"
            axes.annotate(up, (limit, 0), (0, 0), ha="center", fontsize=5, **style)
            axes.annotate(f"limit of n = {n:,}", (limit, 0), (3, 4), rotation=90, fontsize=5.5, **style)
    return [(limit / right, 0.0, 0.025, 0.25) for limit in limits if 0 < limit <= right]


def label_places(
    curves: Sequence[Floats], sizes: Sequence[tuple[float, float]], taken: Sequence[_Box] = ()
) -> list[_Box] | None:
    """A box for the label of each curve; None if there is no room for all.

    Curves are the corners of lines (P, 2), and sizes are widths and heights, in shares of the axes. A label
    covers no curve and no other label, and its own curve is the nearest to it: of such places that with the
    others furthest.
    """
    places: list[_Box] = []
    curves = [_resampled(points) for points in curves]
    for k, (size, own) in enumerate(zip(sizes, curves, strict=True)):
        corners = np.concatenate([own + _GAP, own - size - _GAP])
        corners = corners[(corners >= 0.01).all(axis=1) & (corners + size <= 0.99).all(axis=1)]
        if not len(corners):
            return None
        reach = [_distance(corners, size, points) for points in curves]
        room = np.min([np.ones(len(corners)), *reach[:k], *reach[k + 1 :]], axis=0)
        room[(reach[k] == 0) | (reach[k] >= room)] = 0.0
        for x, y, width, height in [*taken, *places]:
            apart = np.maximum(np.subtract((x, y), size) - corners, corners - (x + width, y + height))
            room[apart.max(axis=1) <= 0] = 0.0
        if room.max() == 0:
            return None
        x, y = corners[int(room.argmax())].tolist()
        places.append((x, y, *size))
    return places


def _resampled(points: Floats) -> Floats:
    """As many points of a line at equal distances."""
    lengths = np.append(0.0, np.hypot(*np.diff(points, axis=0).T).cumsum())
    at = np.linspace(0.0, lengths[-1], _POINTS)
    return np.column_stack([np.interp(at, lengths, column) for column in points.T])


def _distance(corners: Floats, size: tuple[float, float], points: Floats) -> Floats:
    """From boxes with these lower left corners to the nearest of the points; 0 where it lies inside."""
    before = corners[:, None] - points
    outside = np.maximum(np.maximum(before, -before - np.asarray(size)), 0.0)
    return np.asarray(np.hypot(*np.moveaxis(outside, -1, 0)).min(axis=1))


def styles(rows: Sequence[Row], *, by_sigma: bool = False) -> list[dict[str, Any]]:
    """The line of each log: thin for a single member, strong for all else.

    Of several sigmas each has a colour, with `by_sigma` one alone too; else each run, or each row of one run.
    Lines of one colour differ in their dashes: where some rows are of DRT, theirs are solid or nearly so, and
    those of the others are not. The votes of a run often have nearly the same curve, so dashed lines lie over
    solid ones; if both have one colour, the solid line is broad and pale.
    """
    runs = list(dict.fromkeys(row.run for row in rows))
    sigmas = dict.fromkeys(_sigma_title(row) for row in rows)
    palette = list(dict.fromkeys([*(f"sigma {sigma:g}" for sigma in SIGMAS), *sigmas]))
    has_baseline = len({is_drt(row) for row in rows}) > 1
    lines: dict[Row, dict[str, Any]] = {}
    before: Counter[object] = Counter()
    for place, row in enumerate(sorted(rows, key=lambda row: row.is_member)):
        by_run = runs.index(row.run) if len(runs) > 1 else place
        colour = (palette.index(_sigma_title(row)) if by_sigma or len(sigmas) > 1 else by_run) % len(COLOURS)
        kind = (colour, row.is_member, has_baseline and is_drt(row))
        before[kind] += place if len(runs) == 1 and not row.is_member and kind not in before else 0
        solid = _NEARLY_SOLID if has_baseline else ("-", *_DASHES)
        dashes = _DASHES if has_baseline and not is_drt(row) else solid
        width = _THIN if row.is_member else _STRONG
        # Strong lines lie over the thin ones; dashes, which come later, over what is solid.
        look = {"linestyle": dashes[before[kind] % len(dashes)], "linewidth": width, "zorder": 2 + width}
        lines[row] = {"color": COLOURS[colour], **look}
        before[kind] += 1
        same = [other for other in rows if other.run == row.run and not other.is_member]
        if len(runs) > 1 and len(same) > 1 and row is same[0] and lines[row]["linestyle"] == "-":
            lines[row] |= _ROAD
    return [lines[row] for row in rows]


def _with_band(rows: Sequence[Row], intervals: bool) -> list[Row]:
    """All that have one; of several runs only the ensembles, where there are any, for too many would blur."""
    banded = [row for row in rows if intervals or row.seeds > 1]
    several = len({row.run for row in rows}) > 1
    return [row for row in banded if several and not row.is_member] or banded


def _about_bands(rows: Sequence[Row], banded: Sequence[Row], intervals: bool) -> str:
    if not banded:
        return ""
    what = "95% intervals" if intervals else f"{PLUS_MINUS} standard deviation over seeds"
    of_some = any(row.is_member for row in rows) and not any(row.is_member for row in banded)
    return f"bands: {what}{', not of members' if of_some else ''}"


def band(row: Row, radii: Floats, *, intervals: bool) -> tuple[Floats, Floats]:
    """Its lower and upper end at each radius: mean -+ the standard deviation over seeds, or the interval."""
    if intervals:
        return accuracy_interval(row, radii)
    middle, spread = accuracy(row, radii), accuracy_deviation(row, radii)
    assert spread is not None
    return np.maximum(middle - spread, 0.0), np.minimum(middle + spread, 1.0)
