"""A board of certificates: one table of any number of runs on any data sets, each a click from its own page.

Rows compare, so that one of them is the best, where they agree in data set, inputs, n, alpha, norm and range
of pixels. What a file does not say agrees with nothing.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shieldwall.report.page.build import render
from shieldwall.report.page.curves import NOTHING, SIGMA, Curve, choices, log_curves, starts_hidden
from shieldwall.report.page.tables import number_of_samples
from shieldwall.report.tables import result_columns, table_radii
from shieldwall.results.record import Log
from shieldwall.results.rows import NORMS, Row, inputs_key

NumTest = Callable[[str], int]  #: how many test inputs a data set has, by its name
_ENDINGS = {"1": "st", "2": "nd", "3": "rd"}


class Line(NamedTuple):
    """A row of the board: the place of its group, whose rows compare, and its own in that."""

    group: int
    place: int
    curve: Curve
    facts: Mapping[str, str]


def page_names(runs: Sequence[str]) -> dict[str, str]:
    """The file for the page of each run, by the run's name; no two differ only in case."""
    names: dict[str, str] = {}
    for run in dict.fromkeys(runs):
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", run).strip("-.") or "run"
        taken = {name.lower() for name in names.values()}
        numbered = (f"{plain}-{number}.html" for number in range(2, len(taken) + 3))
        names[run] = next(name for name in (f"{plain}.html", *numbered) if name.lower() not in taken)
    return names


def board_page(
    rows: Sequence[Row], radii: Sequence[float] | None, links: Mapping[str, str], num_test: NumTest
) -> str:
    """The board of rows of one log each, as HTML; `links` are the pages of the runs, by their names."""
    radii = table_radii(rows, radii)
    curves = sorted(log_curves(rows), key=lambda curve: (_data(curve.row), curve.row.run))
    groups: dict[object, list[Curve]] = defaultdict(list)
    for curve in curves:
        groups[_agreement(curve.row.logs[0])].append(curve)
    lines = []
    for number, group in enumerate(groups.values()):
        lines += [Line(number, k, curve, _facts(curve, num_test)) for k, curve in enumerate(group)]
    toggles = {"data": list(dict.fromkeys(_data(curve.row) for curve in curves))}
    toggles |= {name: choices(curves, name) for name in ("protocol", "sigma")}
    return render(
        "board.html.j2", ["board.js"], links=links, toggles=toggles, hidden=starts_hidden(curves),
        columns=[result_columns([curve.row for curve in group], radii)[:-1] for group in groups.values()],
        lines=sorted(lines, key=lambda line: curves.index(line.curve)), conclusion=_conclusion(groups),
        norms=sorted({line.facts["norm"] for line in lines}), num_runs=len(links),
    )  # fmt: skip


def _conclusion(groups: Mapping[object, Sequence[Curve]]) -> str:
    """How many runs there are on each data set, and how many of them compare."""
    of_data: dict[str, set[str]] = defaultdict(set)
    for curve in (curve for group in groups.values() for curve in group):
        of_data[_data(curve.row)].add(curve.row.run)
    named = ", ".join(f"{data} ({len(runs)})" for data, runs in of_data.items() if data != NOTHING)
    others = f"{len(of_data[NOTHING])} other logs" if NOTHING in of_data else ""
    sizes = sorted(len({curve.row.run for curve in group}) for group in groups.values())
    sets = " and ".join(", ".join(map(str, [size for size in sizes[::-1] if size > 1])).rsplit(", ", 1))
    compared = f"sets of {sets} runs compare" if sets else "no two runs compare"
    return f"Runs on {' and '.join(filter(None, [named, others]))}: {compared}, by images, n and alpha."


def _data(row: Row) -> str:
    recipe = row.record.recipe
    return NOTHING if recipe is None else recipe.data


def _agreement(log: Log) -> object:
    """Equal for logs that compare."""
    run, recipe = log.certificates, log.record.recipe
    n = run.max_n or run.fixed_n
    if n is None or run.alpha is None:
        return log
    data = None if recipe is None else recipe.data
    return data, inputs_key(run), n, run.alpha, run.norm, run.value_range


def _facts(curve: Curve, num_test: NumTest) -> dict[str, str]:
    run = curve.row.certificates[0]
    alpha = NOTHING if run.alpha is None else f"{run.alpha:g}"
    return {
        "data set": _data(curve.row), "run": curve.row.run, "vote": curve.protocol, SIGMA: curve.sigma,
        "norm": NORMS[run.norm], "test images": describe_inputs(curve.row, num_test),
        "n": number_of_samples(run) or NOTHING, "alpha": alpha,
    }  # fmt: skip


def describe_inputs(row: Row, num_test: NumTest) -> str:
    """Which test images a row is of: every 20th, 500 images."""
    indices, count = row.certificates[0].indices, row.num_inputs
    total = f"{count:,} image{'s' * (count != 1)}"
    if row.num_wanted > count:
        total = f"{count:,} of {row.num_wanted:,} images"
    if indices is None:
        return total
    ordered = np.sort(indices)
    steps = set(np.diff(ordered).tolist())
    if len(steps) > 1:
        return f"{total}, not evenly spaced"
    step, start = steps.pop() if steps else 1, int(ordered[0])
    first = f" from number {start}" * (start > 0)
    if step > 1:
        return f"every {_ordinal(step)}{first}, {total}"
    recipe = row.record.recipe
    is_all = recipe is not None and start == 0 and count == num_test(recipe.data)
    return f"all {total}" if is_all else f"{total}{first}" if first else f"the first {total}"


def _ordinal(number: int) -> str:
    text = str(number)
    return text + ("th" if text[-2:-1] == "1" else _ENDINGS.get(text[-1], "th"))
