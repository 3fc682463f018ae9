"""One HTML file without outside resources: page.html.j2 filled in, with its style and its scripts inside.

Scripts run only if their checksum is in the file's own Content-Security-Policy, so that no name in a log can
become one.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

from shieldwall.report.classes import Spec, hidden_tables
from shieldwall.report.formats import to_html
from shieldwall.report.page import provenance, tables
from shieldwall.report.page.charts import Grid, accuracies, accuracy_chart, radius_grid, training_chart
from shieldwall.report.page.curves import (
    SIGMA,
    Curve,
    CurveStyles,
    choices,
    color_rules,
    envelope_curves,
    log_curves,
    starts_hidden,
)
from shieldwall.report.page.gallery import Thumbnails, gallery
from shieldwall.report.page.training import GROUPS, Panel, panels
from shieldwall.report.tables import accuracy_table
from shieldwall.results.certificates import shared
from shieldwall.results.rows import Row, shared_norm

_HERE = "shieldwall.report.page"
_SCRIPTS = ("page.js", "gallery.js")
_READABLE = 24
"""More curves than this are too many for a picture in which none can be hidden."""


def report_page(
    rows: Sequence[Row],
    radii: Sequence[float] | None = None,
    thumbnails: Callable[[str], Thumbnails | None] = lambda data: None,
    spec: Spec | None = None,
) -> str:
    """The report of rows of one log each, as HTML: the same input gives the same text.

    Args:
        radii: of the tables; by default the paper's where it has rows for these runs.
        thumbnails: the pictures of a data set's test inputs, by its name; None where there are none.
        spec: the shape and the names of classes of a data set, by its name.
    """
    norm, logs = shared_norm(rows), log_curves(rows)
    envelopes = envelope_curves(logs)
    curves, hidden = [*logs, *envelopes], starts_hidden(logs)
    pairs = tables.paper_pairs(logs, envelopes)
    columns_at = tables.table_radii(logs, pairs, radii)
    table = accuracy_table(rows, columns_at)
    styles, grid = CurveStyles.of(logs), radius_grid(logs, columns_at)
    visible = {k for k, curve in enumerate(curves) if curve.protocol not in hidden}
    if envelopes and len(visible) > _READABLE:
        visible &= set(range(len(logs), len(curves)))
    chart = accuracy_chart(curves, [styles.curve(curve) for curve in curves], grid, norm, visible)
    run_names = dict.fromkeys(curve.row.run for curve in logs)
    runs = [next(curve for curve in logs if curve.row.run == name) for name in run_names]
    run_styles = [styles.training(curve) for curve in runs]
    training = panels([curve.row.record.training for curve in runs])
    panel_charts = [training_chart(panel, run_styles) for panel in training]
    inputs, remarks = gallery(logs, thumbnails)
    return _render(
        {
            "title": rows[0].run if len(runs) == 1 else f"A comparison of {len(runs)} runs",
            "table": table,
            "toggles": {
                name: [
                    (value, styles.sample(name, value), name != "protocol" or value not in hidden)
                    for value in choices(logs, name)
                ]
                for name in ("method", "protocol", "sigma")
            },
            "has_envelope": bool(envelopes),
            "chart": chart,
            "grid": grid,
            "key": styles.key,
            "radii": len(columns_at),
            "of_logs": tables.log_table(logs, table.columns, len(columns_at)),
            "of_envelopes": tables.envelope_table(envelopes, columns_at, len(logs)) if envelopes else None,
            "envelope_of": " = ".join(filter(None, [SIGMA, shared(curve.sigma for curve in envelopes)])),
            "hidden": [(part.title, to_html(part)) for part in hidden_tables(rows, columns_at, spec)],
            "beside": [tables.compare_with_paper(pair, columns_at) for pair in pairs],
            "groups": [(group, [k for k, p in enumerate(training) if p.group == group]) for group in GROUPS],
            "panels": training,
            "panel_charts": panel_charts,
            "runs": [(curve.row.run, style) for curve, style in zip(runs, run_styles, strict=True)],
            "thinned": _thinned(training, runs),
            "remarks": remarks,
            "gallery_choices": _gallery_choices(logs),
            "made": provenance.made_with(logs),
            "records": [curve.row.record for curve in runs],
            "data": {
                "radii": [grid.radii[k] for k in grid.hovered],
                "axes": chart.ends,
                "curves": [_curve(curve, grid, styles) for curve in curves],
                "runs": [
                    {
                        "title": curve.row.run,
                        "method": styles.methods.index(curve.method),
                        "sigma": styles.sigmas.index(curve.sigma),
                    }
                    for curve in runs
                ],
                "panels": [
                    {
                        "title": panel.title,
                        "axes": panel_chart.ends,
                        "lines": [line._asdict() for line in panel.lines],
                    }
                    for panel, panel_chart in zip(training, panel_charts, strict=True)
                ],
            },
            "gallery_data": inputs,
        }
    )


def _curve(curve: Curve, grid: Grid, styles: CurveStyles) -> dict[str, Any]:
    """What the toggles and the pointer need of a curve."""
    values = accuracies(curve, grid)
    return {
        "title": curve.title,
        "method": styles.methods.index(curve.method),
        "protocol": styles.protocols.index(curve.protocol),
        "sigma": None if curve.row.is_envelope else styles.sigmas.index(curve.sigma),
        "envelope": curve.row.is_envelope,
        "accuracy": [values[k] for k in grid.hovered if k < len(values)],
    }


def _thinned(training: Sequence[Panel], runs: Sequence[Curve]) -> list[tuple[str, int]]:
    """The runs whose training curves leave epochs out, with their strides."""
    strides = {line.run: line.stride for panel in training for line in panel.lines if line.stride > 1}
    return [(runs[run].row.run, stride) for run, stride in sorted(strides.items())]


def _gallery_choices(curves: Sequence[Curve]) -> dict[str, list[tuple[int, str]]]:
    """The logs to choose from by run, ensembles before members."""
    by_run: dict[str, list[tuple[int, str]]] = {curve.row.run: [] for curve in curves}
    for k, curve in sorted(enumerate(curves), key=lambda place: place[1].row.is_member):
        by_run[curve.row.run].append((k, curve.protocol))
    return by_run


def _render(names: Mapping[str, Any]) -> str:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True, loader=FunctionLoader(_file), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": True}
    scripts = [_file(name) for name in _SCRIPTS]
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    return environment.get_template("page.html.j2").render(
        **names, style=_file("page.css") + color_rules(), scripts=scripts,
        checksums=[f"'sha256-{digest}'" for digest in digests],
    )  # fmt: skip


def _file(name: str) -> str:
    return resources.files(_HERE).joinpath(name).read_text(encoding="utf-8")
