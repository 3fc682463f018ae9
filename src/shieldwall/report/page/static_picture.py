"""The curves as a picture, for where scripts are off."""

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shieldwall.report.page.curves import Grid
from shieldwall.report.page.looks import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = 256


def picture(curves: Sequence[dict[str, Any]], looks: Sequence[Look], at: Grid, norm: str) -> str:
    """A PNG as a data: address, the legend below the axes."""
    from matplotlib.figure import Figure

    lines = (len(curves) + 1) // 2
    figure = Figure(figsize=(7.6, 4.2 + 0.19 * lines), dpi=120, facecolor="white", layout="constrained")
    axes = figure.add_subplot(facecolor="white")
    for curve, look in zip(curves, looks, strict=True):
        _draw(axes, curve, look, at)
    axes.set(
        xlim=(0, at.at(at.count - 1)), ylim=(0, 102), xlabel=f"{norm} radius", ylabel="certified accuracy, %"
    )
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False, handlelength=3)
    return f"data:image/png;base64,{base64.b64encode(_png(figure)).decode()}"


def _png(figure: "Figure") -> bytes:
    """With 256 colours, which makes it a quarter of the size."""
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": None})
    Image.open(drawn).convert("RGB").quantize(_COLOURS).save(small, "PNG", optimize=True)
    return small.getvalue()


def _draw(axes: "Axes", curve: dict[str, Any], look: Look, at: Grid) -> None:
    accuracy = curve["accuracy"]
    solid = look.dash[1] == 0
    style: Any = "-" if solid else (0, tuple(length / look.width for length in look.dash))
    axes.plot(
        at.radii[: len(accuracy)], accuracy, label=curve["title"].replace("$", r"\$"),
        color=look.colour, linewidth=look.width, linestyle=style,
    )  # fmt: skip
