"""A diagnosis as tables for a terminal of 80 columns, as a ROC curve, and as a file of every number."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from shieldwall.report.formats import PlainTable
from shieldwall.report.plots import COLOURS, empty_figure, figure_bytes, plain_axes
from shieldwall.results.certificates import Floats
from shieldwall.theory.diagnosis import EQUAL, Diagnosis
from shieldwall.theory.statistical import Roc
from shieldwall.theory.strategies import PREMISES_FAIL, VERDICTS
from shieldwall.vocabulary import MME, WE, vote_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "theory"  #: where in a run folder a diagnosis is kept
PAPERS_AREA = 0.66


def diagnosis_files(diagnosis: Diagnosis) -> dict[str, bytes]:
    """The files of a diagnosis by name: the numbers, tab-separated, and the ROC curve if there is one.

    A line of numbers is an input, at full precision; the last columns are the settings.
    """
    rows = [{**row, "r": diagnosis.r, **diagnosis.settings} for row in diagnosis.rows]
    lines = [list(rows[0]), *(map(str, row.values()) for row in rows)]
    files = {"diagnosis.tsv": "".join("\t".join(line) + "\n" for line in lines).encode()}
    if diagnosis.curve is not None:
        files["roc.png"] = figure_bytes(roc_figure(diagnosis.curve), Path("roc.png"))
    return files


def diagnosis_tables(diagnosis: Diagnosis) -> Iterator[Table | str]:
    """What a terminal shows: tables, each below its title and above its notes."""
    n, draws = (int(str(diagnosis.settings.get(name, 0))) for name in ("n", "draws"))
    inputs = f"{len(diagnosis.rows):,} input{'s' * (len(diagnosis.rows) > 1)}"
    yield f"unsmoothed members: ERI = slope - margin / r, r = {diagnosis.r:g}; means over {inputs}"
    yield _table(_plain_lines(diagnosis))
    yield f"\nsoft-smoothed members, from {draws:,} noise samples per input"
    yield _table(_soft_lines(diagnosis))
    beta = 2 / diagnosis.sigma**2
    yield f"radius: sufficient for beta = 2/sigma^2 = {beta:.3g}; sharp: for the least valid beta"
    yield f"certified: radius of the smoothed vote around the true class, n = {n:,}"
    yield "\ncosine of two members' gradients against the strongest rival of WE"
    yield _table(_cosine_lines(diagnosis))
    yield "\nMME of two members smoothed (EBS), or both smoothed first (EAS): larger radius"
    yield _table(_pair_lines(diagnosis))
    yield "estimated from frequencies, without a guarantee; means over the inputs"
    yield "\nWE or MME: the larger radius"
    yield _table(_winner_lines(diagnosis))
    yield from _comparison_notes(diagnosis, inputs)


def _table(lines: Iterator[list[str]]) -> PlainTable:
    """The first line has the headings; numbers to the right, names, which have no heading, to the left."""
    table = PlainTable()
    for heading in next(lines):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    return table


def _plain_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    yield ["", "correct %", "margin", "slope", "ERI", "ERI < 0 %"]
    for vote in diagnosis.votes:
        correct = diagnosis.column(f"{vote}_answer") == diagnosis.column("truth")
        margin, slope, eri = (diagnosis.column(f"{vote}_plain_{name}") for name in ("margin", "slope", "eri"))
        cells = [_mean(margin), _mean(slope), _mean(eri), _percent(eri < 0)]
        yield [vote_title(vote), _percent(correct), *(_known(eri, cell) for cell in cells)]


def _soft_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    yield ["", "margin", "slope", "ERI", "+-", "radius", "sharp", "certified"]
    names = ("margin", "slope", "eri", "eri_error", "certified_radius", "certified_radius_sharp")
    for vote in diagnosis.votes:
        margin, slope, eri, error, *radii = (diagnosis.column(f"{vote}_soft_{name}") for name in names)
        mean_error = f"{np.sqrt((error**2).sum()) / len(error):.3f}"
        cells = (_known(eri, cell) for cell in (_mean(margin), _mean(slope), _mean(eri), mean_error))
        yield [vote_title(vote), *cells, *map(_mean, (*radii, diagnosis.radii_around_truth(vote)))]


def _cosine_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    yield ["pair", "mean", "> 0.5 %", "soft-smoothed", "> 0.5 %"]
    for pair in diagnosis.pairs:
        both = (diagnosis.column(f"{kind}_{pair}") for kind in ("cosine", "soft_cosine"))
        yield [pair, *(cell for of in both for cell in (_known_mean(of), _percent(of > 0.5)))]


def _pair_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    yield ["pair", "p_a", "p_b", "p_ab", "p", *VERDICTS]
    for pair in diagnosis.pairs:
        first, second = pair.split("-")
        shares = map(diagnosis.column, (f"p_{first}", f"p_{second}", f"p_ab_{pair}", f"p_{pair}"))
        yield [pair, *map(_known_mean, shares), *_counts(diagnosis, f"verdict_{pair}", VERDICTS)]


def _winner_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    yield ["", "WE", "MME", "neither"]
    yield ["the corollary predicts", *_counts(diagnosis, "predicted_winner", (WE, MME, PREMISES_FAIL))]
    yield ["measured", *_counts(diagnosis, "measured_winner", (WE, MME, EQUAL))]


def _counts(diagnosis: Diagnosis, column: str, values: Sequence[str]) -> list[str]:
    counts = Counter(row[column] for row in diagnosis.rows)
    return [str(counts[value]) for value in values]


def _comparison_notes(diagnosis: Diagnosis, inputs: str) -> Iterator[str]:
    we, mme = (_mean(diagnosis.radii_around_truth(vote)) for vote in (WE, MME))
    yield f"mean certified radius around the true class: WE {we}, MME {mme}"
    one, two = (diagnosis.column(name) for name in ("lambda_1", "lambda_2"))
    yield f"means: lambda_1 {_mean(one)}, lambda_2 {_mean(two)}, lambda_1/lambda_2 {_mean(one / two)}"
    both = diagnosis.with_both_winners()
    agreeing = sum(row["predicted_winner"] == row["measured_winner"] for row in both)
    yield f"prediction and measurement agree at {agreeing} of the {len(both)} inputs where both prefer one"
    assumed = int((diagnosis.column("s_f") < diagnosis.column("s")).sum())
    yield f"s_f < s, which holds for independent members, holds at {assumed} of {inputs}"
    if diagnosis.curve is not None:
        area, error = diagnosis.curve.area, diagnosis.curve.error
        yield f"area under the ROC curve: {area:.2f} +- {error:.2f} (paper: {PAPERS_AREA})"


def roc_figure(curve: Roc) -> "Figure":
    """fig:roc: does X predict at which inputs MME has the larger certified radius?"""
    figure = empty_figure(4.2, 4.0)
    axes = plain_axes(figure.add_subplot(facecolor="white"))
    label = f"area {curve.area:.2f} $\\pm$ {curve.error:.2f} (paper: {PAPERS_AREA})"
    axes.plot(curve.false_positive, curve.true_positive, color=COLOURS[0], linewidth=2.1, label=label)
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=0.9, dashes=(4, 1.5), label="chance")
    axes.set(
        xlim=(0, 1), ylim=(0, 1.01), xlabel="share of inputs where WE has the larger radius",
        ylabel="share of inputs where MME has", aspect="equal",
    )  # fmt: skip
    axes.legend(fontsize="small", frameon=False, loc="lower right")
    return figure


def _mean(values: Floats) -> str:
    return f"{values.mean():.3f}"


def _known_mean(values: Floats) -> str:
    known = values[~np.isnan(values)]
    return _mean(known) if len(known) else "-"


def _known(values: Floats, cell: str) -> str:
    return "-" if np.isnan(values).any() else cell


def _percent(holds: NDArray[np.bool_]) -> str:
    return f"{100 * holds.mean():.1f}"
