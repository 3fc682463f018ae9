"""What is on a page, put together: for the template, and as data for the scripts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shieldwall.report.page import charts, provenance, tables
from shieldwall.report.page.curves import curves, grid, starts_hidden
from shieldwall.report.page.entries import Entry, entries
from shieldwall.report.page.envelope import Curve, envelopes
from shieldwall.report.page.gallery import gallery
from shieldwall.report.page.looks import Look, Looks
from shieldwall.report.page.signs import SIGMA
from shieldwall.report.page.static_picture import picture, training_picture
from shieldwall.report.page.training_curves import GROUPS, Panel, panels
from shieldwall.report.tables import describe, notes
from shieldwall.results.record import Log
from shieldwall.results.rows import rows_of_logs, shared_norm

_READABLE = 24
"""More curves than this are too many for a picture in which none can be hidden."""


def content(logs: Sequence[Log], data_dir: Path | None, radii: Sequence[float] | None) -> dict[str, Any]:
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
    inputs = gallery(found, data_dir)
    for_picture = _few_enough([k for k, one in enumerate(every) if one.protocol not in hidden], len(found))
    return {
        "title": logs[0].run if len(by_run) == 1 else f"A comparison of {len(by_run)} runs",
        "about": about,
        "notes": notes(rows),
        "toggles": [_toggle(name, looks, hidden) for name in ("method", "protocol", "sigma")],
        "has_envelope": bool(over_sigma),
        "static": picture([drawn[k] for k in for_picture], [curve_looks[k] for k in for_picture], at, norm),
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
        "panel_pictures": [training_picture(panel, run_looks) for panel in training],
        "runs": [(entry.log.run, look) for entry, look in zip(by_run, run_looks, strict=True)],
        "thinned": _thinned(training, by_run),
        "gallery": inputs,
        "gallery_choices": _gallery_choices(found),
        "made": provenance.made_with(found),
        "sources": provenance.sources(found),
        "data": {
            "radii": at.radii,
            "hovered": at.hovered,
            "curves": drawn,
            "chart": charts.accuracy_chart(curve_looks, at, norm, max(max(one["accuracy"]) for one in drawn)),
            "runs": [_run(entry, looks) for entry in by_run],
            "panels": [_panel(panel, run_looks) for panel in training],
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


def _panel(panel: Panel, looks: Sequence[Look]) -> dict[str, Any]:
    return {"chart": charts.training_chart(panel, looks), "lines": [vars(line) for line in panel.lines]}


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
