"""Certified accuracy against radius, drawn; around it a band, where several seeds or intervals are shown."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shieldwall.errors import UserError
from shieldwall.report.bands import fill_band, rows_with_band, what_bands_are
from shieldwall.report.cells import about
from shieldwall.report.estimates import accuracy, steps
from shieldwall.report.figure_files import check_figure_path, write_figure
from shieldwall.report.legends import legend_place
from shieldwall.report.norms import shared_norm
from shieldwall.report.notes import notes
from shieldwall.report.rows import Row, as_rows, logs_of, titles
from shieldwall.report.styles import styles
from shieldwall.results.record import Log

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_certified_accuracy(
    shown: Sequence[Log | Row],
    paths: str | Path | Iterable[str | Path],
    radii: Sequence[float] | None = None,
    *,
    intervals: bool = False,
) -> None:
    """Draw the exact step curve of each log or row, to each path: PNG, PDF or SVG, by its suffix.

    `radii`, where given, are the ticks of the radius axis. The band is the standard deviation over seeds to
    both sides, or with `intervals` the interval at 95%, for each radius by itself; the legend says which. The
    file's metadata say what is below a table: inputs, n, alpha.
    """
    targets = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for target in targets:
        check_figure_path(target)
    if not shown:
        raise UserError("there are no logs to draw")
    figure = draw(shown, radii, intervals=intervals)
    made = "; ".join([about(shown), *notes(shown, intervals=intervals)]).replace("in brackets: ", "bands: ")
    for target in targets:
        write_figure(figure, target, made)


def draw(
    shown: Sequence[Log | Row], radii: Sequence[float] | None = None, *, intervals: bool = False
) -> "Figure":
    """The figure, not yet written: certified accuracy A(r) against r, a step curve for each row."""
    # Here, not at the top: matplotlib is slow to import, and most commands draw nothing.
    from matplotlib.figure import Figure

    rows, norm = as_rows(shown), shared_norm(logs_of(shown))
    figure = Figure(figsize=(6.4, 4.0), layout="constrained", facecolor="white")
    axes = figure.add_subplot(facecolor="white")
    one_run = len(rows) > 1 and len({row.run for row in rows}) == 1
    labels = [title.removeprefix(f"{rows[0].run} " if one_run else "") for title in titles(rows)]
    banded = rows_with_band(rows, intervals=intervals)
    right = best = 0.0
    for row, label, style in zip(rows, labels, styles(rows), strict=True):
        r = steps(row)
        values = accuracy(row, r)
        # A is constant on (r_{k-1}, r_k], which is what "pre" draws; the last point closes the curve.
        axes.step(np.append(r, r[-1]), np.append(values, 0.0), where="pre", label=label, **style)
        if row in banded:
            # The more there are, the fainter: where all of them meet, the curves are still seen.
            fill_band(axes, row, style, intervals=intervals, alpha=max(0.08, min(0.18, 0.5 / len(banded))))
        right, best = max(right, float(r[-1])), max(best, float(values[0]))

    if radii is not None and len(radii):
        axes.set_xticks(sorted(radii))
        right = max(right, *radii)
    right = 1.03 * right or 1.0
    top = min(1.02, math.ceil(10 * best + 0.5) / 10) if best else 1.0
    axes.set(xlim=(0, right), ylim=(0, top), xlabel=f"radius ({norm})", ylabel="certified accuracy")
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)

    heading = [line for line in (_heading(rows, one_run), what_bands_are(rows, intervals=intervals)) if line]
    texts = [*heading, *labels]
    place = legend_place(rows, texts, right, top)
    small: dict[str, Any] = {"fontsize": "small", "title_fontsize": "small"}
    axes.legend(title="\n".join(heading), alignment="left", frameon=False, **small, **place)
    if "bbox_to_anchor" in place:
        figure.set_size_inches(7.1 + 0.08 * max(map(len, texts)), max(4.0, 0.4 + 0.19 * len(texts)))
    return figure


def _heading(rows: Sequence[Row], one_run: bool) -> str:
    """What all curves have in common, if anything: the run, and what each shows as one."""
    combined = {row.combines for row in rows}
    shared = combined.pop() if len(combined) == 1 else ""
    if not one_run:
        return shared
    return f"{rows[0].run} ({shared})" if shared else rows[0].run
