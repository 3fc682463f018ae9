"""A study's results: each table of the paper with ours beside it, and what is not measured yet.

A difference of certified accuracies, k of n and j of m inputs, exceeds the sampling error where Agresti and
Caffo's 95% interval (2000) for the difference of two proportions does not contain 0:

    |p - q| > 1.96 sqrt(p (1 - p) / (n + 2) + q (1 - q) / (m + 2)),
    p = (k + 1) / (n + 2),  q = (j + 1) / (m + 2)

One of two ACRs is where |A - B| > 1.96 s sqrt(1 / n + 1 / m), with s the standard deviation of our certified
radii for both. Inputs are taken as drawn apart, which makes the interval wide; the randomness of training is
not in it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from shieldwall.recipes.recipe import spoken
from shieldwall.report.formats import to_markdown
from shieldwall.report.tables import NONE, Column, Table, accuracy_table, is_out_of_reach
from shieldwall.results import paper
from shieldwall.results.intervals import accuracy, average_radius
from shieldwall.results.paper import PaperRow
from shieldwall.results.record import RunRecord
from shieldwall.results.rows import (
    Row,
    average_over_seeds,
    best_rows,
    envelope_row,
    incomparable_settings,
    rows_of,
)
from shieldwall.studies.steps import Places, Step, cost, hours
from shieldwall.studies.study import Study

QUANTILE = 1.96
INPUTS = {"imagenet": 500}  # of the paper's cells; 1,000 on the other data sets
TITLE = "certified accuracy in %, by L2 radius: ours, the paper's, and the difference in points"
BATCH = 256
Seconds = Mapping[str, float]  # of a unit of each kind of step


class _Cell(NamedTuple):
    ours: str
    paper: str = ""
    difference: str = ""
    beyond: bool = False  # whether the difference exceeds the sampling error


def tables_of(study: Study, records: Sequence[RunRecord]) -> list[Table]:
    """Those of the paper that the study is about, with ours beside them, and runs that are in none."""
    if not study.paper:
        rows = [row for rows in figures_of(study, records).values() for row in rows]
        return [accuracy_table(rows)] if rows else []
    rows = rows_of(records)
    tables = [table for label in study.paper if (table := paper_table(study, label, rows))]
    printed = [row for label in study.paper for row in paper.rows(label)]
    shown = {ours.run for row in printed for ours in _fitting(row, rows)}
    if others := [row for row in rows if row.run not in shown]:
        table = accuracy_table(others)
        tables.append(replace(table, title=f"ours that the paper does not have, {table.title}"))
    return tables


def paper_table(study: Study, label: str, rows: Sequence[Row]) -> Table | None:
    """The paper's table with ours above each row; what is not measured is left out, and named below."""
    printed = paper.rows(label)
    ours = {row: measured for row in printed if (measured := _fitting(row, rows))}
    radii = sorted({radius for row in printed for radius in row.accuracy})
    headings = [*(f"{radius:.2f}" for radius in radii), *(["ACR"] if any(row.acr for row in printed) else [])]
    if not ours:
        return None
    titles, lines = list[str](), list[list[_Cell]]()
    for row, measured in ours.items():
        done = len({each.run for each in measured})
        planned = sum(paper.is_of(row, run.recipe, measured[0].vote) for run in study.shown)
        runs = f"{'best of ' * (done > 1)}{done}{f' of {planned}' * (done < planned)} runs"
        titles += [_title(row, printed, runs if planned > 1 or done > 1 else ""), "  paper", "  difference"]
        best = envelope_row(measured, "") if len(measured) > 1 else measured[0]
        cells = [_at_radius(best, row, radius) for radius in radii]
        lines.append([*cells, _acr(measured, row)] if row.acr else cells)
    columns = []
    for heading, *cells in zip(headings, *lines, strict=True):
        texts = [text for cell in cells for text in cell[:3]]
        bold = [is_bold for cell in cells for is_bold in (False, False, cell.beyond)]
        columns.append(Column(("", heading), texts, bold, [""] * len(texts)))
    notes = ["bold: the difference exceeds the sampling error"]
    if any(len({each.run for each in measured}) > 1 for measured in ours.values()):
        notes.append("best of several runs: at each radius, selected on these inputs as the paper does")
    if differing := incomparable_settings([row for measured in ours.values() for row in measured]):
        notes.append(f"warning: our rows differ in {' and '.join(differing)}")
    notes.append("the paper's votes, of single models the first member; `shieldwall report` shows every vote")
    if missing := Counter(row.label for row in printed if row not in ours):
        each = (f"{label} ({count} rows)" if count > 1 else label for label, count in missing.items())
        notes.append(f"not measured: {', '.join(each)}")
    return Table(f"{label}, {TITLE}", titles, titles, columns, notes, False)


def figures_of(study: Study, records: Sequence[RunRecord]) -> dict[str, list[Row]]:
    """The rows of each of the study's figures, by the value of the key that has one for each value."""
    votes = {run.recipe.name: run.votes for run in study.shown if run.votes}
    figures: dict[str, list[Row]] = {}
    for record in records:
        panel = spoken(getattr(record.recipe, study.panel)) if study.panel else ""
        figures.setdefault(panel, []).extend(rows_of([record], votes.get(record.base, ())))
    return {panel: best_rows(average_over_seeds(rows), study.best_over) for panel, rows in figures.items()}


def seconds_table(study: Study, training: Sequence[Step], places: Places, seconds: Seconds) -> Table:
    """Seconds per mini-batch by row, ours and the paper's."""
    rows = {step.run.row: seconds.get(cost(step, places)[0]) for step in training}
    ours = ["" if image is None else f"{BATCH * image:.3f}" for image in rows.values()]
    theirs = [f"{study.seconds[row]:.2f}" if row in study.seconds else "" for row in rows]
    nothing = [False] * len(rows), [""] * len(rows)
    columns = [Column(("", "ours, s"), ours, *nothing), Column(("", "paper, s"), theirs, *nothing)]
    note = "the paper's: one GTX 1080 Ti for MNIST, four for CIFAR-10"
    return Table(study.title, list(rows), list(rows), columns, [note], False)


def not_measured(study: Study, steps: Iterable[Step], places: Places, seconds: Seconds) -> list[str]:
    """What is left to do by row and sigma: runs, hours where they are known, and the command."""
    groups: dict[tuple[str, float], list[Step]] = {}
    for step in steps:
        groups.setdefault((step.run.row, step.run.recipe.sigma), []).append(step)
    lines = []
    for (row, sigma), left in groups.items():
        runs = len({step.run.key for step in left})
        due = hours(left, places, seconds)
        price = "" if math.isnan(due) else f", {due:.1f} hours"
        command = f"shieldwall study run {study.command} --rows {row} --sigma {sigma:g}"
        is_measured = all(places.readable(step.run) for step in left)
        what = "members to start others from" if is_measured else f"{runs} run{'s' * (runs > 1)}"
        lines.append(f"{row}, sigma {sigma:g}: {what}{price}: `{command}`")
    return lines


def page(
    study: Study, tables: Sequence[Table], records: Sequence[RunRecord], left: Sequence[str], machine: str
) -> str:
    """All of it in Markdown; `machine` is where the hours were measured."""
    parts = [f"# {study.title}", f"<!-- Written by `shieldwall study report {study.name}`. -->", *study.notes]
    parts += [to_markdown(table).rstrip("\n").replace("|   ", "| &nbsp; ") for table in tables]
    if left:
        parts += ["## Not measured yet", *([f"Hours of one core or GPU: {machine}."] if machine else [])]
        parts.append("\n".join(f"- {line}" for line in left))
    if records:
        parts += ["## How each run was made", "\n".join(f"- {_made(record)}" for record in records)]
    return "\n\n".join(parts) + "\n"


def _fitting(printed: PaperRow, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if (recipe := row.record.recipe) and paper.is_of(printed, recipe, row.vote)]


def _title(row: PaperRow, printed: Sequence[PaperRow], runs: str) -> str:
    sigma = f"sigma {row.sigma:g}" if row.sigma and len({each.sigma for each in printed}) > 1 else ""
    data = row.dataset if len({each.dataset for each in printed}) > 1 else ""
    return ", ".join(filter(None, [row.label, data, sigma, row.rho and f"rho {spoken(row.rho)}", runs]))


def _at_radius(ours: Row, printed: PaperRow, radius: float) -> _Cell:
    share, theirs = float(accuracy(ours, [radius])[0]), printed.accuracy.get(radius)
    if is_out_of_reach(ours, radius):
        return _Cell(NONE, "" if theirs is None else f"{theirs:.1f}")
    if theirs is None:
        return _Cell(f"{100 * share:.1f}")
    inputs = INPUTS.get(printed.dataset, 1_000)
    return _cell(100 * share, theirs, 1, shares_differ(share, ours.num_inputs, theirs / 100, inputs))


def _acr(ours: Sequence[Row], printed: PaperRow) -> _Cell:
    averages = {each.value: row.certificates[0] for row in ours if (each := average_radius(row))}
    acr, theirs = max(averages), printed.acr or 0.0
    certificates = averages[acr]
    spread = (certificates.radii * certificates.correct).std(ddof=1) if len(certificates) > 1 else math.inf
    error = QUANTILE * spread * math.sqrt(1 / len(certificates) + 1 / INPUTS.get(printed.dataset, 1_000))
    return _cell(acr, theirs, 3, bool(abs(acr - theirs) > error))


def shares_differ(ours: float, n: int, theirs: float, m: int) -> bool:
    """Whether the difference of two shares exceeds the sampling error."""
    p, q = (ours * n + 1) / (n + 2), (theirs * m + 1) / (m + 2)
    return abs(p - q) > QUANTILE * math.sqrt(p * (1 - p) / (n + 2) + q * (1 - q) / (m + 2))


def _cell(ours: float, theirs: float, decimals: int, beyond: bool) -> _Cell:
    difference = round(round(ours, decimals) - theirs, decimals) + 0.0  # of the numbers as shown; -0.0 is 0
    return _Cell(f"{ours:.{decimals}f}", f"{theirs:.{decimals}f}", f"{difference:+.{decimals}f}", beyond)


def _made(record: RunRecord) -> str:
    recipe, settings = record.recipe, record.settings
    schedule = recipe and recipe.schedule
    stages = [record.environment.get(stage, {}) for stage in ("train", "certify")]
    dates = [str(stage.get("date", "on an unknown day"))[:10] for stage in stages]
    commits = dict.fromkeys(str(stage.get("commit"))[:7] for stage in stages)
    devices = dict.fromkeys(str(stage.get("device")) for stage in stages)
    return (
        f"`{record.name}`: {schedule and schedule.epochs} epochs, learning rate {schedule and schedule.lr}, "
        f"seed {recipe and recipe.seed}; {len(next(iter(record.certificates.values()))):,} inputs, "
        f"n0 = {settings.get('n0'):,}, n = {settings.get('n'):,}, {settings.get('precision')}; "
        f"trained {dates[0]}, certified {dates[1]}, commit {', '.join(commits)}, {', '.join(devices)}; "
        f"weights `{str(settings.get('members_sha256'))[:12]}`"
    )
