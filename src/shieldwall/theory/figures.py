"""The figures of `theory.simulate`'s experiments, drawn: fig:transferability and
fig:relation-ensemble-robustness-params."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shieldwall.files import write_output
from shieldwall.report.plots import COLOURS, figure_bytes
from shieldwall.theory.simulate import Relation, RelationPanel, Transferability, TransferabilityPanel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _RED, _GREEN = COLOURS[:3]
_PANEL = (3.2, 3.4)
"""Width and height of a panel, in inches."""
_BINS = 10


def draw_transferability(result: Transferability, path: str | Path) -> None:
    """Write fig:transferability, as PNG or PDF by the suffix: a point for each instance of unlike radii."""
    _write(transferability_figure(result), Path(path))


def draw_relation(result: Relation, path: str | Path) -> None:
    """Write fig:relation-ensemble-robustness-params, as PNG or PDF by the suffix: radius against members."""
    _write(relation_figure(result), Path(path))


def transferability_figure(result: Transferability) -> "Figure":
    """r_MME - r_WE against lambda_1 / lambda_2, a panel for each number of members.

    Instances whose radii are equal are left out, and counted in the legend. The line is the mean of the
    points, by tenths of the axis.
    """
    figure, panels = _panels(len(result.panels), aspect=1.0)
    for axes, panel in zip(panels, result.panels, strict=True):
        _scatter(axes, panel)
    panels[0].set_ylabel("radius of MME - radius of WE")
    return figure


def relation_figure(result: Relation) -> "Figure":
    """Certified radius against the number of members, a panel for each setting."""
    figure, panels = _panels(len(result.panels), aspect=1.3)
    for axes, panel in zip(panels, result.panels, strict=True):
        _curves(axes, panel)
    panels[0].set_ylabel("certified radius (L2)")
    panels[-1].legend(fontsize="small", frameon=False, loc="center right")
    return figure


def _panels(count: int, aspect: float) -> "tuple[Figure, list[Axes]]":
    # Here, not at the top: matplotlib is slow to import, and most commands draw nothing.
    from matplotlib.figure import Figure

    width, height = _PANEL
    figure = Figure(figsize=(0.6 + aspect * width * count, height), layout="constrained", facecolor="white")
    grid = figure.subplots(1, count, sharey=True, squeeze=False)
    panels: list[Axes] = list(grid[0])
    for axes in panels:
        axes.set_facecolor("white")
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _scatter(axes: "Axes", panel: TransferabilityPanel) -> None:
    ratio, difference = panel.ratio, panel.difference
    for chosen, colour, label in (
        (difference > 0, _RED, "MME larger"),
        (difference < 0, _BLUE, "WE larger"),
    ):
        style: dict[str, Any] = {"s": 7, "color": colour, "alpha": 0.6, "linewidths": 0}
        axes.scatter(ratio[chosen], difference[chosen], label=f"{label}: {chosen.sum()}", **style)
    axes.axhline(0.0, color="0.4", linewidth=0.8, label=f"equal: {(difference == 0).sum()}")
    axes.plot(*_binned_mean(panel), color="black", linewidth=1.4, label="mean where not equal")
    axes.set_title(f"N = {panel.members}", fontsize="medium")
    axes.set_xlabel("$\\lambda_1 / \\lambda_2$")
    axes.locator_params(axis="x", nbins=4)
    axes.legend(fontsize="x-small", frameon=False, loc="lower right")


def _binned_mean(panel: TransferabilityPanel) -> tuple[list[float], list[float]]:
    """Centre and mean of the unequal differences, for each tenth of the ratios that has any."""
    told_apart = panel.difference != 0
    ratio, difference = panel.ratio[told_apart], panel.difference[told_apart]
    edges = np.linspace(panel.ratio.min(), panel.ratio.max(), _BINS + 1)
    bins = np.clip(np.searchsorted(edges, ratio, side="right") - 1, 0, _BINS - 1)
    filled = np.unique(bins)
    centres = (edges[:-1] + edges[1:]) / 2
    return centres[filled].tolist(), [float(difference[bins == k].mean()) for k in filled]


def _curves(axes: "Axes", panel: RelationPanel) -> None:
    one = panel.setting
    axes.plot(panel.members, panel.r_mme, color=_GREEN, linewidth=2.1, label="MME")
    axes.plot(panel.members, panel.r_we, color=_BLUE, linewidth=2.1, label="WE")
    axes.plot(
        panel.members,
        panel.r_we_printed,
        color=_BLUE,
        linewidth=0.9,
        dashes=(4, 1.5),
        label="WE, bound as printed",
    )
    axes.axhline(panel.r_single, color=_RED, linewidth=1.4, dashes=(4, 1.5), label="single model")
    axes.set_title(
        f"[a, b] = [{one.a:g}, {one.b:g}],  $\\lambda_1$ = {one.lam1:g},  $\\lambda_2$ = {one.lam2:g},  "
        f"$\\lambda_3$ = {one.lam3:g}",
        fontsize="medium",
    )
    axes.set(xlim=(0, panel.members[-1]), ylim=(0, None), xlabel="members N")


def _write(figure: "Figure", path: Path) -> None:
    write_output(path, figure_bytes(figure, path))
