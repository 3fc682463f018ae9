"""A results table before it takes a form: what it shows, its cells, and the notes below it."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from shieldwall.errors import UserError
from shieldwall.results import intervals as numbers
from shieldwall.results.certificates import Certificates, shared, usual_bound
from shieldwall.results.metrics import by_class, carried, default_radii, largest_radius, probabilities
from shieldwall.results.record import Log
from shieldwall.results.rows import Row, incomparable_settings, shared_norm, sigmas_of, titles

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
NONE = "-"
AT_LEAST = "\N{GREATER-THAN OR EQUAL TO}"
_BOUND = f"sampling stopped early: an ACR with {AT_LEAST} is a lower bound"
STOPPED_EARLY = f"{_BOUND}; radii may be smaller than with all n samples"
Spec = Callable[[str], tuple[Any, Sequence[str]]]  #: shape and names of classes of a data set, by its name
_LEVELS = (0.5, 0.9, 0.99, 0.999)
_MOST_CLASSES, _NAMED = 10, 3
_NUM_DIGITS, _MAX_DECIMALS = 3, 9
_NOISE = {"exact-gaussian": "exact Gaussian", "laplace": "Laplace"}


@dataclass(frozen=True)
class Column:
    """One column: two lines of heading, a cell for each row, and which cells are best."""

    heading: tuple[str, str]
    cells: list[str]
    best: list[bool]
    margins: list[str]  #: what follows each number: its deviation over seeds, its interval, or nothing
    is_ranked: bool = False  #: whether its cells can be compared, so that there is a best


@dataclass(frozen=True)
class Table:
    """A line for each row: its title, the run that it is of, and a cell of each column."""

    title: str
    row_titles: list[str]
    runs: list[str]
    columns: list[Column]
    notes: list[str]
    intervals: bool  #: whether margins are intervals


def accuracy_table(
    rows: Sequence[Row], radii: Sequence[float] | None = None, *, intervals: bool = False
) -> Table:
    """Certified accuracy at each radius, ACR, abstentions and inputs; the column of radius 0 is "clean".

    `intervals` adds to each number the interval at 95%, instead of the deviation over seeds. A column that
    would be empty is left out. Nothing is marked as best where the rows cannot be compared.
    """
    title, radii = describe(rows), table_radii(rows, radii)
    row_titles = titles(rows)
    for k, row in enumerate(rows):
        if row.record.varied and not row.is_envelope:  # what has columns of its own is left out
            row_titles[k] = row_titles[k].replace(row.run, row.record.base, 1)
    columns = _varied(rows) + result_columns(rows, radii, intervals=intervals)
    columns = [column for column in columns if any(column.cells)]
    remarks = notes(rows, intervals=intervals) + _about_classes(rows, radii)
    return Table(title, row_titles, [row.run for row in rows], columns, remarks, intervals)


def _varied(rows: Sequence[Row]) -> list[Column]:
    """A column for each key of the recipes in which runs of the same name differ."""
    varied = [{} if row.is_envelope else dict(row.record.varied) for row in rows]
    keys = dict.fromkeys(key for of_run in varied for key in of_run)
    if all(row.seeds > 1 for row in rows):
        keys.pop("seed", None)
    for row, of_run in zip(rows, varied, strict=True):
        if row.seeds > 1:
            of_run.pop("seed", None)
    return [_plain(("", key), [of_run.get(key, "") for of_run in varied]) for key in keys]


def describe(rows: Sequence[Row]) -> str:
    """What the table shows; rows with different norms are refused."""
    return f"certified accuracy in %, by {shared_norm(rows)} radius"


def table_radii(rows: Sequence[Row], radii: Sequence[float] | None = None) -> list[float]:
    """The radii of a table, always with 0: the given ones, or round ones."""
    wanted = default_radii([run for row in rows for run in row.certificates]) if radii is None else radii
    return sorted({0.0, *map(float, wanted)})


def result_columns(rows: Sequence[Row], radii: list[float], *, intervals: bool = False) -> list[Column]:
    """One for each radius, then ACR, abstentions and inputs."""
    compare = not incomparable_settings(rows)
    accuracies = np.array([numbers.accuracy(row, radii) for row in rows])
    margins = [_margins_by_radius(row, radii, intervals) for row in rows]
    columns = []
    for k, r in enumerate(radii):
        shares = zip(rows, accuracies[:, k], strict=True)
        cells = [NONE if is_out_of_reach(row, r) else _percent(share) for row, share in shares]
        of_radius = ["" if cell == NONE else margin[k] for cell, margin in zip(cells, margins, strict=True)]
        columns.append(_ranked(("" if r else "clean", _radius(r)), cells, of_radius, compare))
    abstained = [numbers.abstentions(row) for row in rows]
    inputs = [(row.num_inputs, row.num_wanted) for row in rows]
    columns += [
        _average_radii(rows, intervals, compare),
        _plain(("abst.", "%"), ["" if share is None else _percent(share) for share in abstained]),
        _plain(("", "inputs"), [f"{m}" if m == wanted else f"{m} of {wanted}" for m, wanted in inputs]),
    ]
    return columns


def _margins_by_radius(row: Row, radii: list[float], intervals: bool) -> list[str]:
    if intervals:
        ends = zip(*numbers.accuracy_interval(row, radii), strict=True)
        return [f"[{_percent(low)}, {_percent(high)}]" for low, high in ends]
    spread = numbers.accuracy_deviation(row, radii)
    return [""] * len(radii) if spread is None else [f"{PLUS_MINUS} {_percent(share)}" for share in spread]


def _average_radii(rows: Sequence[Row], intervals: bool, compare: bool) -> Column:
    """Three decimals, or as many as three digits of the largest take. Lower bounds are marked, not ranked."""
    averages = [numbers.average_radius(row) for row in rows]
    largest = max((average.value for average in averages if average is not None), default=0.0)
    decimals = max(_NUM_DIGITS, _decimals(largest))
    cells, margins = [""] * len(rows), [""] * len(rows)
    for k, (row, average) in enumerate(zip(rows, averages, strict=True)):
        if average is not None:
            cells[k] = f"{f'{AT_LEAST} ' * row.stopped_early}{average.value:.{decimals}f}"
        if average is not None and intervals and math.isfinite(average.interval[1]):
            margins[k] = "[{:.{d}f}, {:.{d}f}]".format(*average.interval, d=decimals)
        elif average is not None and not intervals and average.deviation is not None:
            margins[k] = f"{PLUS_MINUS} {average.deviation:.{decimals}f}"
    return _ranked(("", "ACR"), cells, margins, compare and not any(row.stopped_early for row in rows))


def _plain(heading: tuple[str, str], cells: list[str]) -> Column:
    return Column(heading, cells, [False] * len(cells), [""] * len(cells))


def _ranked(heading: tuple[str, str], cells: list[str], margins: list[str], compare: bool) -> Column:
    """Marks the highest as shown, if the rows can be compared, not all are equal and it is not 0."""
    shown = set(cells) - {""}
    top = max(shown - {NONE}, key=float, default="0") if compare and len(shown) > 1 else "0"
    return Column(heading, cells, [cell == top and float(top) > 0 for cell in cells], margins, compare)


def is_out_of_reach(row: Row, radius: float) -> bool:
    """Whether n samples cannot certify this radius at any input of the row."""
    return radius > max(map(largest_radius, row.certificates))


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def _radius(r: float) -> str:
    """At least two decimals; at most four, or as many as three digits take."""
    whole, decimals = f"{r:.{max(4, _decimals(r))}f}".split(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"


def _decimals(value: float) -> int:
    """How many _NUM_DIGITS digits take, counted from the first that is not 0."""
    return min(_MAX_DECIMALS, _NUM_DIGITS - 1 - math.floor(math.log10(value))) if value else 0


def notes(rows: Sequence[Row], *, intervals: bool = False) -> list[str]:
    """What all rows share, what a margin means, and a warning where the rows cannot be compared."""
    logs = [log for row in rows for log in row.logs]
    facts = (shared(fact) for fact in zip(*(_facts(log.certificates) for log in logs), strict=True))
    lines = [", ".join(filter(None, facts))]
    if differing := incomparable_settings(rows):
        named = " and ".join(filter(None, [", ".join(differing[:-1]), differing[-1]]))
        lines.append(f"warning: the rows differ in {named} and cannot be compared")
    partial = [log for log in logs if log.num_wanted > len(log.certificates)]
    parts = (f"{len(log.certificates):,} of {log.num_wanted:,} inputs of {log.run}" for log in partial)
    lines += [f"interrupted certification: {', '.join(dict.fromkeys(parts))}"] * bool(partial)
    lines += [STOPPED_EARLY] * any(row.stopped_early for row in rows)
    lines.append(_about_envelopes([row for row in rows if row.is_envelope]))
    averaged = [row for row in rows if row.seeds > 1]
    if intervals:
        lines.append(_about_intervals(rows, averaged))
    elif averaged:
        seeds = _span([row.seeds for row in averaged])
        lines.append(f"mean {PLUS_MINUS} standard deviation over {seeds} seeds")
    return [line for line in lines if line]


def _about_classes(rows: Sequence[Row], radii: Sequence[float]) -> list[str]:
    by_title = {log.title: carried(log.certificates, radii) for row in rows for log in row.logs}
    parts = [f"{title} at {c[0]:g}: {c[2]} of {c[3]} of class {c[1]}" for title, c in by_title.items() if c]
    parts = [*parts[:_NAMED], *[f"and {len(parts) - _NAMED} more"] * (len(parts) > _NAMED)]
    return [f"warning: most inputs certified are of one class ({'; '.join(parts)})"] if parts else []


def _about_envelopes(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    sigmas, over = sigmas_of(rows), rows[0].over
    which = f"sigma {', '.join(f'{sigma:g}' for sigma in sigmas)}"
    if over != "sigma":
        which = "the runs that differ in that"
    elif any(sigmas_of([row]) != sigmas for row in rows):
        which = "the sigmas that were run"
    best = f"best {over}: at each radius the best of {_span([len(row.by_sigma) for row in rows])} models"
    if held := sorted({len(row.held_out[0][0].certificates) for row in rows if row.held_out}):
        return f"{best}, chosen on {', '.join(map(str, held))} held-out inputs; no single model attains it"
    warning = "the numbers are too high for new inputs, and no single model attains them"
    return f"{best}, {which}; warning: chosen on the inputs shown, so {warning}"


def _about_intervals(rows: Sequence[Row], averaged: Sequence[Row]) -> str:
    """Which intervals these are: formulas in `results.intervals`."""
    over = "over inputs (accuracy: Clopper-Pearson, ACR: Student's t)"
    if averaged:
        where = "" if len(averaged) == len(rows) else ", where averaged,"
        seeds = _span([row.seeds for row in averaged])
        over += f" and{where} over {seeds} seeds (Student's t; the squares of both widths add up)"
    overs = {row.over for row in rows if row.is_envelope and not row.held_out}
    at_once = f", for all {'sigmas' if overs == {'sigma'} else 'runs'} at once (Bonferroni)" if overs else ""
    return f"in brackets: the 95% interval {over}{at_once}"


def _span(counts: Sequence[int]) -> str:
    """5, or 3 to 5."""
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def _facts(run: Certificates) -> tuple[str, ...]:
    """What certificates were made with, in words; empty where they do not say, or where it is the usual."""
    n = f"n up to {run.max_n:,}" if run.max_n is not None else f"n = {run.fixed_n:,}" if run.fixed_n else ""
    is_all, varies = run.is_bounded.all(), run.max_n is not None or run.fixed_n is None
    kind, bound = (run.noise or "gaussian").partition("(")[0], usual_bound(run.bound_kind)
    noise = f"noise {run.noise}" if run.sigma is None else f"{_NOISE.get(kind, kind)} noise"
    return (
        f"{len(run):,} inputs",
        n,
        f"{run.mean_n:,.0f} samples on average" if run.mean_n is not None and (varies or not is_all) else "",
        "" if is_all else "wrong classes not bounded",
        "" if run.alpha is None else f"alpha = {run.alpha:g}",
        "" if run.sigma is None else f"sigma = {run.sigma:g}",
        "" if kind == "gaussian" else noise,
        "" if run.precision in (None, "float32") else str(run.precision),
        "" if bound in ("", "one-sided") else f"{bound} bound",
    )


def hidden_tables(rows: Sequence[Row], radii: Sequence[float] | None, spec: Spec | None) -> list[Table]:
    """One of all votes' p_A, and one of the classes for each ensemble, or else for each member."""
    logs = [log for row in rows for log in row.logs]
    known = {log.title: p for log in logs if (p := probabilities(log.certificates)) is not None}
    above = {level: [100 * (p >= level).mean() for p in known.values()] for level in _LEVELS}
    shares = [_shares(f">= {level:g}", values) for level, values in above.items()]
    note = "p_A: how often the true class won under noise; above 0.5 the smoothed classifier is right"
    of_all = _hidden("inputs by p_A, in %", list(known), shares, note)
    shown = [log for log in logs if not log.is_member] or logs
    return [of_all] * bool(known) + [_of_classes(log, table_radii(rows, radii), spec) for log in shown]


def _of_classes(log: Log, radii: Sequence[float], spec: Spec | None) -> Table:
    classes, sizes, counts = by_class(log.certificates, radii)
    names = dict(zip(classes.tolist(), map(str, classes), strict=True))
    if spec and log.record.recipe:
        with suppress(UserError):  # the data set is not on this machine
            names |= enumerate(spec(log.record.recipe.data)[1])
    shares = 100 * counts / sizes[:, None]
    order = shares.mean(axis=1).argsort(kind="stable")[:_MOST_CLASSES]
    titles = [f"class {names[label]}" for label in classes[order].tolist()]
    columns = [
        _plain(("", f"{r:.2f}"), [NONE] * len(order)) if r > largest_radius(log.certificates) else
        _shares(f"{r:.2f}", of_radius[order])
        for r, of_radius in zip(radii, shares.T, strict=True)
    ]  # fmt: skip
    note = f"weakest on average over these radii: {titles[0]}; shown: {len(titles)} of {len(classes)} classes"
    inputs = _shares("inputs", sizes[order], "d")
    return _hidden(f"certified accuracy of {log.title} in %, by true class", titles, [*columns, inputs], note)


def _hidden(title: str, rows: list[str], columns: list[Column], note: str) -> Table:
    return Table(title, rows, rows, columns, [note], intervals=False)


def _shares(heading: str, values: Any, form: str = ".1f") -> Column:
    return _plain(("", heading), [f"{value:{form}}" for value in values])
