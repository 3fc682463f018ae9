"""One HTML file that asks for nothing: page.html.j2 filled in, with its style and its scripts inside.

Scripts run only if their checksum is in the file's own Content-Security-Policy, so that no name in a log can
become one.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

from shieldwall.report.page import drawing, provenance, tables
from shieldwall.report.page.curves import Grid, curves, grid, starts_hidden
from shieldwall.report.page.entries import Entry, entries
from shieldwall.report.page.envelope import Curve, envelopes
from shieldwall.report.page.gallery import gallery
from shieldwall.report.page.looks import Look, Looks
from shieldwall.report.page.palette import rules
from shieldwall.report.page.signs import SIGMA
from shieldwall.report.page.sprite import Thumbnails
from shieldwall.report.page.training_curves import GROUPS, Panel, panels
from shieldwall.report.tables import describe, notes
from shieldwall.results.record import Log
from shieldwall.results.rows import Row, rows_of_logs, shared_norm

_HERE = "shieldwall.report.page"
_SCRIPTS = ("page.js", "gallery.js")
_READABLE = 24
"""More curves than this are too many for a picture in which none can be hidden."""


def report_page(
    rows: Sequence[Row],
    radii: Sequence[float] | None = None,
    thumbnails: Callable[[str], Thumbnails | None] = lambda data: None,
) -> str:
    """The report of rows of one log each, as HTML: the same input gives the same text.

    Args:
        radii: of the tables; by default the paper's where it has rows for these runs.
        thumbnails: the pictures of a data set's test inputs, by its name; None where there are none.
    """
    return _rendered(_content([row.logs[0] for row in rows], thumbnails, radii))


def _content(
    logs: Sequence[Log],
    thumbnails: Callable[[str], Thumbnails | None],
    radii: Sequence[float] | None,
) -> dict[str, Any]:
    """The names of the template."""
    rows = rows_of_logs(logs)
    about, norm = describe(rows), shared_norm(rows)
    found = entries(logs)
    over_sigma = envelopes(found)
    every: list[Curve] = [*found, *over_sigma]
    pairs = tables.counterparts(found, over_sigma)
    shown = tables.radii_shown(found, pairs, radii)
    looks, at, hidden = Looks.of(found), grid(found, shown), starts_hidden(found)
    drawn, curve_looks = curves(every, at, looks), [looks.curve(one) for one in every]
    by_run = _first_of_each_run(found)
    run_looks = [looks.training(entry) for entry in by_run]
    training = panels([entry.record.training for entry in by_run])
    inputs = gallery(found, thumbnails)
    seen = _few_enough([k for k, one in enumerate(every) if one.protocol not in hidden], len(found))
    chart = _accuracy_chart(drawn, curve_looks, at, norm, set(seen))
    panel_charts = [_training_chart(panel, run_looks) for panel in training]
    return {
        "title": logs[0].run if len(by_run) == 1 else f"A comparison of {len(by_run)} runs",
        "about": about,
        "notes": notes(rows),
        "toggles": [_toggle(name, looks, hidden) for name in ("method", "protocol", "sigma")],
        "has_envelope": bool(over_sigma),
        "chart": chart,
        "panel_charts": panel_charts,
        "grid": ", ".join(f"{k * at.step:g}" for k in range(3)),
        "hover_step": f"{at.hover_step:g}",
        "key": looks.key,
        "headings": tables.headings(found, shown),
        "radii": len(shown),
        "rows": tables.log_rows(found, shown),
        "envelope_rows": tables.envelope_rows(over_sigma, shown, len(found)),
        "envelope_of": " = ".join(filter(None, [SIGMA, tables.sigmas_shared(over_sigma)])),
        "beside": tables.beside_paper(pairs, shown),
        "groups": [(group, [k for k, p in enumerate(training) if p.group == group]) for group in GROUPS],
        "panels": training,
        "runs": [(entry.log.run, look) for entry, look in zip(by_run, run_looks, strict=True)],
        "thinned": _thinned(training, by_run),
        "gallery": inputs,
        "gallery_choices": _gallery_choices(found),
        "made": provenance.made_with(found),
        "sources": provenance.sources(found),
        "data": {
            "radii": [at.radii[k] for k in at.hovered],
            "axes": _axes(chart),
            "curves": [_curve(record, at) for record in drawn],
            "runs": [_run(entry, looks) for entry in by_run],
            "panels": [_panel(panel, chart) for panel, chart in zip(training, panel_charts, strict=True)],
        },
        "gallery_data": {"sets": inputs.sets, "logs": inputs.logs},
    }


def _first_of_each_run(found: Sequence[Entry]) -> list[Entry]:
    first: dict[str, Entry] = {}
    for entry in found:
        first.setdefault(entry.log.run, entry)
    return list(first.values())


def _few_enough(seen: list[int], first_envelope: int) -> list[int]:
    """The curves that are seen at first, or only the envelopes among them if they are too many to read."""
    thick = [k for k in seen if k >= first_envelope]
    return thick if thick and len(seen) > _READABLE else seen


def _toggle(name: str, looks: Looks, hidden: set[str]) -> dict[str, Any]:
    values = {"method": looks.methods, "protocol": looks.protocols, "sigma": looks.sigmas}[name]
    unchecked = hidden if name == "protocol" else set()
    return {
        "name": name,
        "choices": [(value, looks.sample(name, value), value not in unchecked) for value in values],
    }


def _run(entry: Entry, looks: Looks) -> dict[str, Any]:
    method, sigma = looks.methods.index(entry.method), looks.sigmas.index(entry.sigma)
    return {"title": entry.log.run, "method": method, "sigma": sigma}


def _accuracy_chart(
    records: Sequence[dict[str, Any]], looks: Sequence[Look], at: Grid, norm: str, seen: set[int]
) -> drawing.Chart:
    """Certified accuracy against radius; ensembles are drawn first and envelopes last, so that dashes lie on
    what is solid."""
    best = max(max(record["accuracy"]) for record in records)
    x = drawing.Axis(f"{norm} radius", 0.0, at.radii[-1])
    y = drawing.Axis("certified accuracy, %", 0.0, min(100.0, 10.0 * (int(best / 10) + 1)))
    order = sorted(range(len(records)), key=lambda k: (records[k]["envelope"], records[k]["protocol"], k))
    lines = [
        drawing.Line(
            k,
            records[k]["title"],
            drawing.path(x, y, at.radii, records[k]["accuracy"]),
            looks[k],
            drawing.marks(x, y, at.radii, records[k]["accuracy"], records[k]["marks"]),
            hidden=k not in seen,
        )
        for k in order
    ]
    what = f"Certified accuracy against {norm} radius, a curve for each run and protocol"
    return drawing.Chart(f"{what}; the tables below hold the values.", x, y, lines)


def _training_chart(panel: Panel, looks: Sequence[Look]) -> drawing.Chart:
    (first, last), (low, high) = panel.epochs, panel.values
    x, y = drawing.Axis("epoch", first, last), drawing.Axis("", low, high, max_steps=5)
    lines = [
        drawing.Line(line.run, "", drawing.path(x, y, line.epochs, line.values), looks[line.run])
        for line in panel.lines
    ]
    return drawing.Chart(panel.description, x, y, lines)


def _axes(chart: drawing.Chart) -> dict[str, list[float]]:
    return {"x": [chart.x.low, chart.x.high], "y": [chart.y.low, chart.y.high]}


def _curve(record: dict[str, Any], at: Grid) -> dict[str, Any]:
    """What the toggles and the pointer need of a curve."""
    told = ("title", "method", "protocol", "sigma", "envelope")
    count = len(record["accuracy"])
    return {
        **{name: record[name] for name in told},
        "accuracy": [record["accuracy"][k] for k in at.hovered if k < count],
    }


def _panel(panel: Panel, chart: drawing.Chart) -> dict[str, Any]:
    return {"title": panel.title, "axes": _axes(chart), "lines": [vars(line) for line in panel.lines]}


def _thinned(training: Sequence[Panel], by_run: Sequence[Entry]) -> list[tuple[str, int]]:
    """The runs whose training curves leave epochs out, with their strides."""
    strides = {line.run: line.stride for panel in training for line in panel.lines if line.stride > 1}
    return [(by_run[run].log.run, stride) for run, stride in sorted(strides.items())]


def _gallery_choices(found: Sequence[Entry]) -> dict[str, list[tuple[int, str]]]:
    """The logs to choose from by run, ensembles before members."""
    by_run: dict[str, list[tuple[int, str]]] = {entry.log.run: [] for entry in found}
    for k, entry in sorted(enumerate(found), key=lambda one: one[1].is_member):
        by_run[entry.log.run].append((k, entry.protocol))
    return by_run


def _rendered(names: Mapping[str, Any]) -> str:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_file),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": True}
    scripts = [_file(name) for name in _SCRIPTS]
    return environment.get_template("page.html.j2").render(
        **names,
        style=_file("page.css") + rules(),
        scripts=scripts,
        checksums=[_checksum(script) for script in scripts],
    )


def _file(name: str) -> str:
    return resources.files(_HERE).joinpath(name).read_text(encoding="utf-8")


def _checksum(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
