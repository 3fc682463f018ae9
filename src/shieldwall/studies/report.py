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
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shieldwall.report.formats import to_markdown
from shieldwall.report.tables import Column, Table, accuracy_table
from shieldwall.results import paper
from shieldwall.results.intervals import accuracy, average_radius
from shieldwall.results.paper import PaperRow
from shieldwall.results.record import RunRecord
from shieldwall.results.rows import Row, best_rows, envelope_row, incomparable_settings, rows_of
from shieldwall.studies.steps import Places, Step, cost
from shieldwall.studies.study import Study, spoken

QUANTILE = 1.96
INPUTS = {"imagenet": 500}
"""Of the paper's cells; 1,000 on the other data sets."""
TITLE = "certified accuracy in %, by L2 radius: ours, the paper's, and the difference in points"
BATCH = 256


class Pair(NamedTuple):
    """A row of the paper, and ours: of several runs the best at each radius."""

    paper: PaperRow
    ours: Row


def tables_of(study: Study, records: Sequence[RunRecord]) -> list[Table]:
    """Those of the paper that the study is about, with ours beside them, or our own."""
    if study.paper:
        return [table for label in study.paper if (table := paper_table(label, records))]
    rows = [row for rows in figures_of(study, records).values() for row in rows]
    return [accuracy_table(rows)] if rows else []


def paper_table(label: str, records: Sequence[RunRecord]) -> Table | None:
    """The paper's table with ours above each row; what is not measured is left out, and named below."""
    rows, printed = rows_of(records), paper.rows(label)
    pairs = [Pair(row, ours) for row in printed if (ours := _ours(row, rows)) is not None]
    if not pairs:
        return None
    radii = sorted({radius for row in printed for radius in row.accuracy})
    columns = [_column(f"{radius:.2f}", [_at_radius(pair, radius) for pair in pairs]) for radius in radii]
    if any(row.acr for row in printed):
        columns.append(_column("ACR", [_acr(pair) for pair in pairs]))
    sigmas = {row.sigma for row in printed}
    titles = [line for pair in pairs for line in (_title(pair, len(sigmas) > 1), "  paper", "  difference")]
    notes = ["bold: the difference is larger than the sampling error"]
    if any(pair.ours.is_envelope for pair in pairs):
        notes.append("best of N runs: at each radius the best, selected on these inputs as the paper does")
    if differing := incomparable_settings([pair.ours for pair in pairs]):
        notes.append(f"warning: our rows differ in {' and '.join(differing)}")
    measured = [pair.paper for pair in pairs]
    if missing := dict.fromkeys(row.label for row in printed if row not in measured):
        notes.append(f"not measured: {', '.join(missing)}")
    return Table(f"{label}, {TITLE}", titles, titles, columns, notes, False)


def figures_of(study: Study, records: Sequence[RunRecord]) -> dict[str, list[Row]]:
    """The rows of each of the study's figures, by the value of the key that has one for each value."""
    votes = {run.recipe.name: run.votes for run in study.shown if run.votes}
    figures: dict[str, list[RunRecord]] = {}
    for record in records:
        figures.setdefault(spoken(getattr(record.recipe, study.panel)) if study.panel else "", []).append(
            record
        )
    return {
        panel: best_rows(
            [row for record in group for row in rows_of([record], votes.get(record.base, ()))],
            study.best_over,
        )
        for panel, group in figures.items()
    }


def seconds_table(
    study: Study, training: Sequence[Step], places: Places, seconds: Mapping[str, float]
) -> Table:
    """Seconds per mini-batch by row, ours and the paper's."""
    rows = {step.run.row: seconds.get(cost(step, places)[0]) for step in training}
    ours = ["" if each is None else f"{BATCH * each:.3f}" for each in rows.values()]
    theirs = [f"{study.seconds[row]:.2f}" if row in study.seconds else "" for row in rows]
    columns = [
        Column(("", heading), cells, [False] * len(cells), [""] * len(cells))
        for heading, cells in (("ours, s", ours), ("paper, s", theirs))
    ]
    note = "the paper's: one GTX 1080 Ti for MNIST, four for CIFAR-10"
    return Table(study.title, list(rows), list(rows), columns, [note], False)


def not_measured(
    study: Study, steps: Iterable[Step], places: Places, seconds: Mapping[str, float]
) -> list[str]:
    """What is left to do by row and sigma: runs, hours where they are known, and the command."""
    groups: dict[tuple[str, float], list[Step]] = {}
    for step in steps:
        groups.setdefault((step.run.row, step.run.recipe.sigma), []).append(step)
    lines = []
    for (row, sigma), left in groups.items():
        runs = len({step.run.key for step in left})
        units = [cost(step, places) for step in left]
        hours = sum(count * seconds.get(kind, math.nan) for kind, count in units if count) / 3600
        price = "" if math.isnan(hours) else f", {hours:.1f} hours"
        scale = "" if study.scale == 1 else f" --scale {study.scale:g}"
        command = f"shieldwall study run {study.name} --rows {row} --sigma {sigma:g}{scale}"
        lines.append(f"{row}, sigma {sigma:g}: {runs} run{'s' * (runs > 1)}{price}: `{command}`")
    return lines


def page(
    study: Study, tables: Sequence[Table], records: Sequence[RunRecord], left: Sequence[str], machine: str
) -> str:
    """All of it in Markdown; `machine` is where the hours were measured."""
    parts = [f"# {study.title}", f"<!-- Written by `shieldwall study report {study.name}`. -->"]
    parts += study.notes
    for table in tables:
        parts.append(to_markdown(table).rstrip("\n").replace("|   ", "| &nbsp; "))
    if left:
        parts += ["## Not measured yet", *([f"Hours of one core or GPU: {machine}."] if machine else [])]
        parts.append("\n".join(f"- {line}" for line in left))
    if records:
        parts += ["## How each run was made", "\n".join(f"- {_made(record)}" for record in records)]
    return "\n\n".join(parts) + "\n"


def _ours(printed: PaperRow, rows: Sequence[Row]) -> Row | None:
    fitting = []
    for row in rows:
        recipe = None if row.logs[0].record is None else row.logs[0].record.recipe
        if recipe is not None and paper.is_of(printed, recipe, row.vote):
            fitting.append(row)
    if not fitting or printed.acr is None:
        return envelope_row(fitting, "") if len(fitting) > 1 else fitting[0] if fitting else None
    return max(fitting, key=lambda row: _radius(row)[0])


def _title(pair: Pair, with_sigma: bool) -> str:
    row, number = pair.paper, len(pair.ours.by_sigma)
    sigma = f"sigma {row.sigma:g}" if with_sigma and row.sigma else ""
    rho = f"rho {spoken(row.rho)}" if row.rho else ""
    return ", ".join(filter(None, [row.label, sigma, rho, f"best of {number} runs" if number > 1 else ""]))


class _Cell(NamedTuple):
    ours: str
    paper: str
    difference: str
    beyond: bool


def _column(heading: str, cells: Sequence[_Cell]) -> Column:
    texts = [text for cell in cells for text in cell[:3]]
    bold = [each for cell in cells for each in (False, False, cell.beyond)]
    return Column(("", heading), texts, bold, [""] * len(texts))


def _at_radius(pair: Pair, radius: float) -> _Cell:
    ours, theirs = 100 * float(accuracy(pair.ours, [radius])[0]), pair.paper.accuracy.get(radius)
    n, m = pair.ours.num_inputs, INPUTS.get(pair.paper.dataset, 1_000)
    return _cell(ours, theirs, 1, theirs is not None and shares_differ(ours / 100, n, theirs / 100, m))


def _acr(pair: Pair) -> _Cell:
    if pair.paper.acr is None:
        return _Cell("", "", "", False)
    ours, spread = _radius(pair.ours)
    error = (
        QUANTILE * spread * math.sqrt(1 / pair.ours.num_inputs + 1 / INPUTS.get(pair.paper.dataset, 1_000))
    )
    return _cell(ours, pair.paper.acr, 3, abs(ours - pair.paper.acr) > error)


def _radius(row: Row) -> tuple[float, float]:
    """The ACR, and the standard deviation over inputs."""
    average = average_radius(row)
    spreads = [
        float((run.radii * run.correct).std(ddof=1)) if len(run) > 1 else math.inf for run in row.certificates
    ]
    return average.value if average else 0.0, sum(spreads) / len(spreads)


def shares_differ(ours: float, n: int, theirs: float, m: int) -> bool:
    """Whether two shares, of n and of m inputs, differ by more than the sampling error."""
    p, q = (ours * n + 1) / (n + 2), (theirs * m + 1) / (m + 2)
    return abs(p - q) > QUANTILE * math.sqrt(p * (1 - p) / (n + 2) + q * (1 - q) / (m + 2))


def _cell(ours: float, theirs: float | None, decimals: int, beyond: bool) -> _Cell:
    if theirs is None:
        return _Cell(f"{ours:.{decimals}f}", "", "", False)
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
