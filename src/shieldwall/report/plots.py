"""Certified accuracy against radius, drawn."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shieldwall.errors import UserError
from shieldwall.report.figure_files import check_figure_path, write_figure
from shieldwall.report.legends import legend_place
from shieldwall.report.norms import shared_norm
from shieldwall.report.styles import styles
from shieldwall.results.logs import Log
from shieldwall.results.metrics import curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_certified_accuracy(
    logs: Sequence[Log], paths: str | Path | Iterable[str | Path], radii: Sequence[float] | None = None
) -> None:
    """Draw the exact step curve of each log, to each path: PNG or PDF, by its suffix.

    `radii`, where given, are the ticks of the radius axis.
    """
    targets = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for target in targets:
        check_figure_path(target)
    if not logs:
        raise UserError("there are no logs to draw")
    figure = draw(logs, radii)
    for target in targets:
        write_figure(figure, target)


def draw(logs: Sequence[Log], radii: Sequence[float] | None = None) -> "Figure":
    """The figure, not yet written: certified accuracy A(r) against r, a step curve for each log."""
    # Here, not at the top: matplotlib is slow to import, and most commands draw nothing.
    from matplotlib.figure import Figure

    norm = shared_norm(logs)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained", facecolor="white")
    axes = figure.add_subplot(facecolor="white")
    curves = [curve(log) for log in logs]
    one_run = len(logs) > 1 and len({log.run for log in logs}) == 1
    labels = [log.title.removeprefix(f"{log.run} ") if one_run else log.title for log in logs]
    for label, (r, accuracy), style in zip(labels, curves, styles(logs), strict=True):
        # A is constant on (r_{k-1}, r_k], which is what "pre" draws; the last point closes the curve.
        x, y = np.append(r, r[-1]), np.append(accuracy, 0.0)
        axes.step(x, y, where="pre", label=label, **style)

    right = max(float(r[-1]) for r, _ in curves)
    if radii is not None and len(radii):
        axes.set_xticks(sorted(radii))
        right = max(right, *radii)
    right = 1.03 * right or 1.0
    best = max(float(accuracy[0]) for _, accuracy in curves)
    top = min(1.02, math.ceil(10 * best + 0.5) / 10) if best else 1.0
    axes.set(xlim=(0, right), ylim=(0, top), xlabel=f"radius ({norm})", ylabel="certified accuracy")
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)

    heading = [logs[0].run] if one_run else []
    place = legend_place(logs, heading + labels, right, top)
    axes.legend(title="".join(heading), fontsize="small", frameon=False, **place)
    if "bbox_to_anchor" in place:
        figure.set_figwidth(7.1 + 0.08 * max(len(text) for text in heading + labels))
    return figure
