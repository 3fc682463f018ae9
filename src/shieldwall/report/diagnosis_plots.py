"""The figures of a diagnosis: fig:roc on the run's own members, and what lies behind it."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shieldwall.files import write_output
from shieldwall.report.diagnosis import MME, PAPERS_AREA, WE, Diagnosis, title
from shieldwall.report.plots import figure_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _RED, _GREY = "#0072B2", "#D55E00", "0.6"


def plot_diagnosis(found: Diagnosis, folder: Path) -> list[Path]:
    """Draw what there is to draw into the folder: the ROC curve, radii against ERI and transferability."""
    drawn = {"eri.png": indicator_figure(found), "we-or-mme.png": difference_figure(found)}
    if found.curve is not None:
        drawn["roc.png"] = roc_figure(found)
    for name, figure in drawn.items():
        path = folder / name
        write_output(path, figure_bytes(figure, path))
    return [folder / name for name in drawn]


def roc_figure(found: Diagnosis) -> "Figure":
    """fig:roc: does X foretell at which inputs MME has the larger certified radius?"""
    assert found.curve is not None
    figure, axes = _empty(4.2, 4.0)
    curve = found.curve
    label = f"area {curve.area:.2f} $\\pm$ {curve.error:.2f} (paper: {PAPERS_AREA})"
    axes.plot(curve.false_positive, curve.true_positive, color=_BLUE, linewidth=2.1, label=label)
    axes.plot([0, 1], [0, 1], color=_GREY, linewidth=0.9, dashes=(4, 1.5), label="chance")
    axes.set(
        xlim=(0, 1), ylim=(0, 1.01), xlabel="share of inputs where WE has the larger radius",
        ylabel="share of inputs where MME has", aspect="equal",
    )  # fmt: skip
    axes.legend(fontsize="small", frameon=False, loc="lower right")
    return figure


def indicator_figure(found: Diagnosis) -> "Figure":
    """Certified radius around the truth against the soft-smoothed ERI, for WE and the members."""
    figure, axes = _empty(6.4, 4.0)
    for vote in found.votes:
        if vote == MME:
            continue
        eri, error = found.values("soft", vote, "eri"), found.values("soft", vote, "eri_error")
        radii = np.array([one.radius_around_truth(vote) for one in found.inputs])
        strong = vote == WE
        axes.errorbar(
            eri, radii, xerr=error, fmt="o", markersize=4.5 if strong else 2.5, linewidth=0,
            elinewidth=0.8, color=_BLUE if strong else _GREY, zorder=3 if strong else 2,
            label=title(vote) if strong or vote == found.votes[0] else None,
        )  # fmt: skip
    handles, _ = axes.get_legend_handles_labels()
    names = [f"members 1 to {len(found.votes) - 2}", "WE"][: len(handles)]
    axes.legend(handles, names, fontsize="small", frameon=False, loc="upper right")
    axes.set(
        xlabel=f"soft-smoothed ERI at r = {found.r:g}, with standard errors", ylabel="certified radius (L2)"
    )
    return figure


def difference_figure(found: Diagnosis) -> "Figure":
    """The radius of MME less that of WE against lambda_1 / lambda_2, as fig:transferability draws it."""
    figure, axes = _empty(6.4, 4.0)
    ratio = found.proxy("ratio")
    difference = np.array(
        [one.radius_around_truth(MME) - one.radius_around_truth(WE) for one in found.inputs]
    )
    for chosen, colour, label in ((difference > 0, _RED, "MME larger"), (difference < 0, _BLUE, "WE larger")):
        axes.scatter(ratio[chosen], difference[chosen], s=12, color=colour, label=f"{label}: {chosen.sum()}")
    axes.axhline(0.0, color="0.4", linewidth=0.8, label=f"equal: {(difference == 0).sum()}")
    axes.set(xlabel="$\\lambda_1 / \\lambda_2$", ylabel="radius of MME - radius of WE")
    axes.legend(fontsize="small", frameon=False)
    return figure


def _empty(width: float, height: float) -> "tuple[Figure, Axes]":
    # Here, not at the top: matplotlib is slow to import, and most commands draw nothing.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.add_subplot(facecolor="white")
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
