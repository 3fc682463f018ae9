"""The drawings as pictures on white, for where scripts are off."""

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shieldwall.report.page.curves import Grid
from shieldwall.report.page.looks import Look
from shieldwall.report.page.training_curves import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = 256


def picture(curves: Sequence[dict[str, Any]], looks: Sequence[Look], at: Grid, norm: str) -> str:
    """Certified accuracy against radius as a data: address, the legend below the axes."""
    figure, axes = _figure(7.6, 4.2 + 0.19 * ((len(curves) + 1) // 2))
    for curve, look in zip(curves, looks, strict=True):
        _draw(axes, curve, look, at)
    axes.set(xlim=(0, at.radii[-1]), ylim=(0, 102), xlabel=f"{norm} radius", ylabel="certified accuracy, %")
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False, handlelength=4)
    return _address(figure)


def training_picture(panel: Panel, looks: Sequence[Look]) -> str:
    """One quantity of the training log as a data: address; the legend is the page's."""
    figure, axes = _figure(3.6, 2.0)
    for line in panel.lines:
        values = [float("nan") if value is None else value for value in line.values]
        axes.plot(line.epochs, values, **_style(looks[line.run]))
    axes.set(xlim=panel.epochs, ylim=panel.values, xlabel="epoch")
    axes.tick_params(labelsize="small")
    return _address(figure)


def _figure(width: float, height: float) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, facecolor="white", layout="constrained")
    axes = figure.add_subplot(facecolor="white")
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _draw(axes: "Axes", curve: dict[str, Any], look: Look, at: Grid) -> None:
    accuracy = curve["accuracy"]
    axes.plot(
        at.radii[: len(accuracy)], accuracy, label=curve["title"].replace("$", r"\$"), **_style(look),
        marker=look.shape.letter if look.shape else "", markevery=curve["marks"], markersize=4.5,
        markeredgecolor="white", markeredgewidth=0.5,
    )  # fmt: skip
    for place in curve["marks"] if look.number else ():
        axes.annotate(
            look.number, (at.radii[place], accuracy[place]), (4, 4), textcoords="offset points",
            fontsize="small",
        )  # fmt: skip


def _style(look: Look) -> dict[str, Any]:
    dashes: Any = (0, tuple(length / look.width for length in look.dash)) if look.dash[1] else "-"
    return {"color": look.on_white, "linewidth": look.width, "linestyle": dashes}


def _address(figure: "Figure") -> str:
    """A PNG of 256 colours, which makes it a quarter of the size."""
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": None})
    Image.open(drawn).convert("RGB").quantize(_COLOURS).save(small, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(small.getvalue()).decode()}"
