"""The paper's numerical experiments, drawn: fig:transferability, fig:relation-ensemble-robustness-params.

    python paper_figures.py              # the paper's settings, 4,000 instances
    python paper_figures.py 500          # fewer instances

They are written into the current folder. The paper's ROC curve (fig:roc) needs trained members: `shieldwall
theory diagnose RUN` draws it.
"""

import sys

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shieldwall.theory.simulate import RelationPanel, TransferabilityPanel, relation, transferability

BLUE, RED, GREEN = "#0072B2", "#D55E00", "#009E73"
BINS = 10


def transferability_figure(result: list[TransferabilityPanel]) -> Figure:
    """r_MME - r_WE against lambda_1 / lambda_2, a panel for each number of members.

    Instances with equal radii are not drawn; the legend counts them. The line is the mean of the points, by
    tenths of the axis.
    """
    figure, panels = panels_in_a_row(len(result), aspect=1.0)
    for axes, panel in zip(panels, result, strict=True):
        difference, is_equal = panel.difference, panel.difference == 0
        for chosen, colour, label in (
            (difference > 0, RED, "MME larger"), (difference < 0, BLUE, "WE larger")
        ):  # fmt: skip
            axes.scatter(
                panel.ratio[chosen], difference[chosen], s=7, color=colour, alpha=0.6, linewidths=0,
                label=f"{label}: {chosen.sum()}",
            )  # fmt: skip
        axes.axhline(0.0, color="0.4", linewidth=0.8, label=f"equal: {is_equal.sum()}")
        axes.plot(*binned_mean(panel), color="black", linewidth=1.4, label="mean where not equal")
        axes.set_title(f"N = {panel.members}", fontsize="medium")
        axes.set(xlabel="$\\lambda_1 / \\lambda_2$")
        axes.locator_params(axis="x", nbins=4)
        axes.legend(fontsize="x-small", frameon=False, loc="lower right")
    panels[0].set_ylabel("radius of MME - radius of WE")
    return figure


def binned_mean(panel: TransferabilityPanel) -> tuple[list[float], list[float]]:
    """Centre and mean of the differences that are not 0, for each tenth of the ratios that has any."""
    is_unequal = panel.difference != 0
    ratio, difference = panel.ratio[is_unequal], panel.difference[is_unequal]
    edges = np.linspace(panel.ratio.min(), panel.ratio.max(), BINS + 1)
    bins = np.clip(np.searchsorted(edges, ratio, side="right") - 1, 0, BINS - 1)
    filled = np.unique(bins)
    centres = (edges[:-1] + edges[1:]) / 2
    return centres[filled].tolist(), [float(difference[bins == k].mean()) for k in filled]


def relation_figure(result: list[RelationPanel]) -> Figure:
    """Certified radius against the number of members, a panel for each setting."""
    figure, panels = panels_in_a_row(len(result), aspect=1.3)
    for axes, panel in zip(panels, result, strict=True):
        dashed = {"linewidth": 0.9, "dashes": (4, 1.5)}
        axes.plot(panel.members, panel.r_mme, color=GREEN, linewidth=2.1, label="MME")
        axes.plot(panel.members, panel.r_we, color=BLUE, linewidth=2.1, label="WE")
        axes.plot(panel.members, panel.r_we_printed, color=BLUE, label="WE, bound as printed", **dashed)
        axes.axhline(panel.r_single, color=RED, label="single model", **dashed)
        axes.set_title(setting_title(panel), fontsize="medium")
        axes.set(xlim=(0, panel.members[-1]), ylim=(0, None), xlabel="members N")
    panels[0].set_ylabel("certified radius (L2)")
    panels[-1].legend(fontsize="small", frameon=False, loc="center right")
    return figure


def setting_title(panel: RelationPanel) -> str:
    lam = ", ".join(f"$\\lambda_{k}$ = {getattr(panel.setting, f'lam{k}'):g}" for k in (1, 2, 3))
    return f"[a, b] = [{panel.setting.a:g}, {panel.setting.b:g}],  {lam}"


def panels_in_a_row(count: int, aspect: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(0.6 + aspect * 3.2 * count, 3.4), layout="constrained")
    panels: list[Axes] = list(figure.subplots(1, count, sharey=True, squeeze=False)[0])
    for axes in panels:
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


instances = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
transfers, relations = transferability(instances=instances), relation()
transferability_figure(transfers).savefig("transferability.png", dpi=160)
relation_figure(relations).savefig("relation-ensemble-robustness-params.png", dpi=160)
for panel in transfers:
    mme, we = (panel.difference > 0).mean(), (panel.difference < 0).mean()
    print(
        f"{panel.members:2} members: MME has the larger radius at {mme:.1%} of the instances, WE at {we:.1%}"
    )
for panel in relations:
    start = panel.mme_wins_from
    print(
        f"scores in [{panel.setting.a}, {panel.setting.b}]: MME has the larger radius from {start} members on"
    )
