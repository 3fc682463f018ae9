"""The drawings as Vega-Lite, without their data: the page hands over that of the curves to be seen."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shieldwall.report.page.curves import Grid
from shieldwall.report.page.looks import SHAPES, Look
from shieldwall.report.page.training_curves import Panel

if TYPE_CHECKING:
    import altair as alt

_FONT = "system-ui, sans-serif"


def accuracy_chart(looks: Sequence[Look], at: Grid, norm: str, best: float) -> dict[str, Any]:
    """Certified accuracy against radius; the tooltip is that of the point nearest to the pointer."""
    import altair as alt

    x = alt.X("r:Q", title=f"{norm} radius", scale=alt.Scale(domain=[0, at.radii[-1]], nice=False))
    top = alt.Scale(domain=[0, min(100, 10 * (int(best / 10) + 1))])
    y = alt.Y("a:Q", title="certified accuracy, %", scale=top)
    stroke = _by_curve(alt.Color, [look.colour for look in looks])
    lines = (
        alt.Chart(alt.NamedData("curves"))
        .mark_line(clip=True, aria=False, strokeJoin="round")
        .encode(
            x=x,
            y=y,
            color=stroke,
            strokeDash=_by_curve(alt.StrokeDash, [list(look.dash) for look in looks]),
            strokeWidth=alt.StrokeWidth("width:Q", scale=None),
        )
    )
    symbols = (
        alt.Chart(alt.NamedData("symbols"))
        .mark_point(filled=True, size=60, aria=False, opacity=1, stroke="var(--paper)", strokeWidth=0.8)
        .encode(x=x, y=y, color=stroke, shape=_by_curve(alt.Shape, [_path(look) for look in looks]))
    )
    numbers = (
        alt.Chart(alt.NamedData("numbers"))
        .mark_text(aria=False, dx=8, dy=-7, fontSize=11)
        .encode(x=x, y=y, text="number:N")
    )
    told = [
        _named("curve", "point:Q"),
        alt.Tooltip("r:Q", title="radius", format=".4~f"),
        alt.Tooltip("a:Q", title="certified accuracy, %", format=".2f"),
    ]
    layers = alt.layer(lines, symbols, numbers, _nearest(x, y, stroke, "r", told))
    said = f"Certified accuracy against {norm} radius, a curve for each run and protocol"
    return _specification(layers, f"{said}; the tables below hold the values.", height=380)


def training_chart(panel: Panel, looks: Sequence[Look]) -> dict[str, Any]:
    """One quantity of the training log against the epoch, a line for each run."""
    import altair as alt

    x = alt.X(
        "epoch:Q", scale=alt.Scale(domain=panel.epochs, nice=False), axis=alt.Axis(tickMinStep=1, format="d")
    )
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=panel.values))
    stroke = _by_curve(alt.Color, [look.colour for look in looks])
    lines = (
        alt.Chart(alt.NamedData("lines"))
        .mark_line(aria=False, strokeWidth=1.6)
        .encode(
            x=x,
            y=y,
            color=stroke,
            strokeDash=_by_curve(alt.StrokeDash, [list(look.dash) for look in looks]),
        )
    )
    told = [
        _named("run", "c:Q"),
        alt.Tooltip("epoch:Q"),
        alt.Tooltip("value:Q", title=panel.title, format=".4~g"),
    ]
    return _specification(
        alt.layer(lines, _nearest(x, y, stroke, "epoch", told)), panel.description, height=150
    )


def _nearest(x: "alt.X", y: "alt.Y", stroke: Any, along: str, told: "list[alt.Tooltip]") -> "alt.Chart":
    """Points that show themselves, and what they tell, when the pointer is nearer to them than to others.

    A finger that taps is gone before the click: that is why a click counts too.
    """
    import altair as alt

    near = alt.selection_point(
        name="near", nearest=True, on="pointerover, click", clear="pointerout", fields=["c", along],
        empty=False, toggle=False,
    )  # fmt: skip
    points: alt.Chart = (
        alt.Chart(alt.NamedData("points"))
        .mark_point(filled=True, size=60, aria=False)
        .encode(x=x, y=y, color=stroke, opacity=alt.condition(near, alt.value(1), alt.value(0)), tooltip=told)
        .add_params(near)
    )
    return points


def _named(kind: str, field: str) -> "alt.Tooltip":
    """What a line is called, by a function of the page, curveTitle or runTitle.

    The name as a field would be lost: in the tooltip of the nearest point, Vega-Lite looks for text in the
    cell around the point and not in the point.
    """
    import altair as alt

    return alt.Tooltip(field, title=kind, formatType=f"{kind}Title", format="")


def _by_curve(channel: "type[Any]", values: list[Any]) -> Any:
    import altair as alt

    return channel("c:N", scale=alt.Scale(domain=list(range(len(values))), range=values), legend=None)


def _path(look: Look) -> str:
    return (look.shape or SHAPES[0]).path


def _specification(chart: "alt.LayerChart | alt.FacetChart", description: str, height: int) -> dict[str, Any]:
    """The description is what Vega gives to a screen reader."""
    drawn = (
        chart.properties(width="container", height=height, background="transparent", description=description)
        .configure(font=_FONT, customFormatTypes=True)
        .configure_view(stroke=None)
        .configure_axis(
            labelFontSize=12, titleFontSize=12, titleFontWeight="normal", titlePadding=8,
            domain=False, ticks=False, labelPadding=6, labelFlush=False, gridWidth=0.6, tickCount=6,
        )
    )  # fmt: skip
    specification: dict[str, Any] = drawn.to_dict()
    return specification
