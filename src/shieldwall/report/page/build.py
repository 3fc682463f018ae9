"""One HTML file without outside resources: page.html.j2 filled in, with its style and its scripts inside.

Scripts run only if their checksum is in the file's own Content-Security-Policy, so that no name in a log can
become one.
"""

import base64
import hashlib
from collections.abc import Collection, Sequence
from importlib import resources
from typing import Any

from shieldwall.report.formats import to_html
from shieldwall.report.page import charts, tables
from shieldwall.report.page.curves import (
    SIGMA,
    Curve,
    CurveStyles,
    envelope_curves,
    log_curves,
    starts_hidden,
)
from shieldwall.report.page.gallery import Finder, gallery
from shieldwall.report.plots import MAX_CURVES
from shieldwall.report.tables import Spec, accuracy_table, hidden_tables, table_radii
from shieldwall.results.certificates import shared
from shieldwall.results.rows import Row, shared_norm

_HERE = "shieldwall.report.page"


def report_page(
    rows: Sequence[Row], radii: Sequence[float] | None = None, thumbnails: Finder = lambda data: None,
    spec: Spec | None = None, board: str = "",
) -> str:  # fmt: skip
    """The report of rows of one log each, as HTML: the same input gives the same text.

    `radii` are by default the paper's where it has rows for these runs; `board` is where the page's board is.
    """
    norm, logs = shared_norm(rows), log_curves(rows)
    envelopes, hidden = envelope_curves(logs), starts_hidden(logs)
    curves = [*logs, *envelopes]
    pairs = tables.paper_pairs(curves)
    radii = table_radii(rows, radii or [radius for pair in pairs for radius in pair.row.accuracy] or None)
    table = accuracy_table(rows, radii)
    styles, grid = CurveStyles(logs), charts.radius_grid(logs, radii)
    parts = _panels(curves, logs, styles, hidden)
    drawings, axes = [], []
    for title, of in parts:
        shown = [curves[k] for k in of]
        looks = [styles.curve(curve) for curve in shown]
        drawings.append((title, charts.accuracy_chart(shown, looks, grid, norm, hidden, of)))
        axes.append({"axes": drawings[-1][1].ends, "curves": of})
    runs = list({curve.row.run: curve for curve in reversed(logs)}.values())[::-1]
    run_styles = [styles.training(curve) for curve in runs]
    training = charts.panels([curve.row.record.training for curve in runs])
    training_charts = [charts.training_chart(panel, run_styles) for panel in training]
    inputs, remarks = gallery(logs, thumbnails)
    values_of = {"method": styles.methods, "protocol": styles.protocols, "sigma": styles.sigmas}
    toggles = {
        name: [(each, styles.sample(name, each), name != "protocol" or each not in hidden) for each in of]
        for name, of in values_of.items()
    }
    panels = zip(training, training_charts, strict=True)
    data = {
        "radii": [grid.radii[k] for k in grid.hovered], "charts": axes,
        "curves": [_curve(curve, grid, styles) for curve in curves],
        "runs": [{"title": curve.row.run, **_places(curve, styles)} for curve in runs],
        "panels": [
            {"title": panel.title, "axes": drawn.ends, "lines": [line._asdict() for line in panel.lines]}
            for panel, drawn in panels
        ],
    }  # fmt: skip
    return render(
        "page.html.j2", ["page.js", "gallery.js"], board=board,
        title=rows[0].run if len(runs) == 1 else f"A comparison of {len(runs)} runs",
        table=table, toggles=toggles, has_envelope=bool(envelopes), drawings=drawings, grid=grid,
        key=styles.key, radii=len(radii), first_radius=[c.heading[0] for c in table.columns].index("clean"),
        conclusion=tables.conclusion(logs, hidden, radii), of_logs=tables.log_table(logs, table.columns),
        of_envelopes=tables.envelope_table(envelopes, radii, len(logs)) if envelopes else None,
        envelope_of=" = ".join(filter(None, [SIGMA, shared(curve.sigma for curve in envelopes)])),
        hidden=[(part.title, to_html(part)) for part in hidden_tables(rows, radii, spec)],
        beside=[tables.compare_with_paper(pair, radii) for pair in pairs],
        groups=[(group, [k for k, p in enumerate(training) if p.group == group]) for group in charts.GROUPS],
        panels=training, panel_charts=training_charts,
        runs=[(curve.row.run, style) for curve, style in zip(runs, run_styles, strict=True)],
        remarks=remarks, gallery_choices=_gallery_choices(logs), made=tables.made_with(logs),
        records=[curve.row.record for curve in runs], data=data, gallery_data=inputs,
    )  # fmt: skip


def _panels(
    curves: Sequence[Curve], logs: Sequence[Curve], styles: CurveStyles, hidden: Collection[str]
) -> list[tuple[str, list[int]]]:
    """The places of the curves in each chart: of all, or of each sigma where that would have too many."""
    if sum(curve.protocol not in hidden for curve in logs) <= MAX_CURVES or not styles.by_sigma:
        return [("", list(range(len(curves))))]
    places: dict[str, list[int]] = {f"{SIGMA} = {sigma}": [] for sigma in styles.sigmas}
    for k, curve in enumerate(curves):
        title = f"best over {SIGMA}" if curve.row.is_envelope else f"{SIGMA} = {curve.sigma}"
        places.setdefault(title, []).append(k)
    return list(places.items())


def _curve(curve: Curve, grid: charts.Grid, styles: CurveStyles) -> dict[str, Any]:
    """What the toggles and the pointer need of a curve."""
    values = charts.accuracies(curve, grid)
    return {
        "title": curve.title, "protocol": styles.protocols.index(curve.protocol),
        "envelope": curve.row.is_envelope, **_places(curve, styles),
        "accuracy": [values[k] for k in grid.hovered if k < len(values)],
    }  # fmt: skip


def _places(curve: Curve, styles: CurveStyles) -> dict[str, int | None]:
    """Of the method and the sigma among the toggles."""
    sigma = None if curve.row.is_envelope else styles.sigmas.index(curve.sigma)
    return {"method": styles.methods.index(curve.method), "sigma": sigma}


def _gallery_choices(curves: Sequence[Curve]) -> dict[str, list[tuple[int, str]]]:
    """The logs to choose from by run, ensembles before members."""
    by_run: dict[str, list[tuple[int, str]]] = {curve.row.run: [] for curve in curves}
    for k, curve in sorted(enumerate(curves), key=lambda place: place[1].row.is_member):
        by_run[curve.row.run].append((k, curve.protocol))
    return by_run


def render(template: str, scripts: Sequence[str], **names: Any) -> str:
    """A template of this package with these scripts; `names` are what it shows."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True, loader=FunctionLoader(_file), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": True}
    texts = [_file(name) for name in scripts]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return environment.get_template(template).render(
        **names, style=_file("page.css"), scripts=texts,
        checksums=[f"'sha256-{digest}'" for digest in digests],
    )  # fmt: skip


def _file(name: str) -> str:
    return resources.files(_HERE).joinpath(name).read_text(encoding="utf-8")
