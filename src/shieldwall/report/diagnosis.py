"""A diagnosis as tables for a terminal of 80 columns, as figures, and as a file of every number."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from shieldwall.report.formats import PlainTable
from shieldwall.report.plots import COLOURS, empty_figure, figure_bytes
from shieldwall.theory.diagnosis import EQUAL, AtInput, Diagnosis
from shieldwall.theory.strategies import PREMISES_FAIL, VERDICTS
from shieldwall.vocabulary import MME, WE, vote_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
FOLDER = "theory"
"""Where in a run folder a diagnosis is kept."""
FILE = "diagnosis.tsv"
PAPERS_AREA = 0.66
_BLUE, _RED, _GREY = COLOURS[0], COLOURS[1], "0.6"


def diagnosis_files(diagnosis: Diagnosis) -> dict[str, bytes]:
    """The files of a diagnosis by name: first the numbers, then the figures."""
    figures = {"eri.png": indicator_figure(diagnosis), "we-or-mme.png": difference_figure(diagnosis)}
    if diagnosis.curve is not None:
        figures["roc.png"] = roc_figure(diagnosis)
    drawn = {name: figure_bytes(figure, Path(name)) for name, figure in figures.items()}
    return {FILE: to_tsv(diagnosis).encode(), **drawn}


def diagnosis_tables(diagnosis: Diagnosis) -> Iterator[Table | str]:
    """What a terminal shows: tables, each below its title and above its notes."""
    n, draws = (int(str(diagnosis.settings.get(name, 0))) for name in ("n", "draws"))
    inputs = f"{len(diagnosis.inputs):,} input{'s' * (len(diagnosis.inputs) > 1)}"
    yield f"unsmoothed members: ERI = slope - margin / r, r = {diagnosis.r:g}; means over {inputs}"
    yield _table(_plain_lines(diagnosis))
    yield f"\nsoft-smoothed members, from {draws:,} noise samples per input"
    yield _table(_soft_lines(diagnosis))
    beta = 2 / diagnosis.sigma**2
    yield f"radius: sufficient for beta = 2/sigma^2 = {beta:.3g}; sharp: for the least valid beta"
    yield f"certified: radius of the smoothed vote around the true class, n = {n:,}"
    yield "\ncosine of two members' gradients against the strongest rival of WE"
    yield _table(_cosine_lines(diagnosis))
    yield f"\nattacks of length {diagnosis.attack:g} on each member: how many succeed, % that fool others too"
    yield _table(_transfer_lines(diagnosis))
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


def to_tsv(diagnosis: Diagnosis) -> str:
    """Tab-separated, a line per input, numbers at full precision; the last columns are the settings."""
    lines = [_cells(diagnosis, at_input) for at_input in diagnosis.inputs]
    rows = [list(lines[0]), *([str(value) for value in cells.values()] for cells in lines)]
    return "".join("\t".join(row) + "\n" for row in rows)


def _cells(diagnosis: Diagnosis, at_input: AtInput) -> dict[str, object]:
    cells: dict[str, object] = {"idx": at_input.idx, "truth": at_input.truth}
    for vote in diagnosis.votes:
        cells |= {f"{vote}_answer": at_input.answers[vote], f"{vote}_predict": at_input.predicted[vote]}
        cells |= {f"{vote}_radius": at_input.radii[vote]}
        cells |= {f"{vote}_plain_{name}": value for name, value in vars(at_input.plain[vote]).items()}
        cells |= {f"{vote}_soft_{name}": value for name, value in vars(at_input.soft[vote]).items()}
    cells |= {f"cosine_{pair}": value for pair, value in at_input.cosines.items()}
    cells |= {f"soft_cosine_{pair}": value for pair, value in at_input.soft_cosines.items()}
    for pair, wins in at_input.pairs.items():
        first, second = pair.split("-")
        cells |= {f"p_{first}": wins.p_a, f"p_{second}": wins.p_b}
        cells |= {f"p_ab_{pair}": wins.p_ab, f"p_{pair}": wins.p}
    cells |= {**vars(at_input.proxies), "x": at_input.proxies.x, "measured_winner": at_input.measured_winner}
    return cells | {"r": diagnosis.r, "attack": diagnosis.attack, **diagnosis.settings}


def _plain_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    yield ["", "correct %", "margin", "slope", "ERI", "ERI < 0 %"]
    for vote in diagnosis.votes:
        correct = np.array([at_input.answers[vote] == at_input.truth for at_input in diagnosis.inputs])
        margin, slope, eri = (diagnosis.values("plain", vote, name) for name in ("margin", "slope", "eri"))
        cells = [_mean(margin), _mean(slope), _mean(eri), _percent(eri < 0)]
        yield [vote_title(vote), _percent(correct), *(_known(eri, cell) for cell in cells)]


def _soft_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    yield ["", "margin", "slope", "ERI", "+-", "radius", "sharp", "certified"]
    names = ("margin", "slope", "eri", "eri_error", "certified_radius", "certified_radius_sharp")
    for vote in diagnosis.votes:
        margin, slope, eri, error, *radii = (diagnosis.values("soft", vote, name) for name in names)
        mean_error = f"{np.sqrt((error**2).sum()) / len(error):.3f}"
        cells = (_known(eri, cell) for cell in (_mean(margin), _mean(slope), _mean(eri), mean_error))
        yield [vote_title(vote), *cells, *map(_mean, (*radii, diagnosis.radii_around_truth(vote)))]


def _cosine_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    yield ["pair", "mean", "> 0.5 %", "soft-smoothed", "> 0.5 %"]
    for pair in diagnosis.inputs[0].cosines:
        line = [pair]
        for kind in ("cosines", "soft_cosines"):
            cosines = np.array([getattr(at_input, kind)[pair] for at_input in diagnosis.inputs])
            line += [_known_mean(cosines), _percent(cosines > 0.5)]
        yield line


def _transfer_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    transfer, members = diagnosis.transfer, len(diagnosis.transfer.tried)
    yield ["attacked", "succeed", *(f"to {k + 1}" for k in range(members)), "to WE", "to MME"]
    for k, rates in enumerate(transfer.rates):
        cells = ["-" if np.isnan(rate) else f"{100 * rate:.0f}" for rate in rates]
        cells[k] = ""
        yield [f"member {k + 1}", f"{transfer.fooled[k, k]} of {len(diagnosis.inputs)}", *cells]


def _pair_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    yield ["pair", "p_a", "p_b", "p_ab", "p", *VERDICTS]
    for pair in diagnosis.inputs[0].pairs:
        wins = [at_input.pairs[pair] for at_input in diagnosis.inputs]
        probabilities = np.array([(w.p_a, w.p_b, w.p_ab, w.p) for w in wins]).T
        verdicts = Counter(w.verdict for w in wins)
        yield [pair, *map(_known_mean, probabilities), *(str(verdicts[kind]) for kind in VERDICTS)]


def _winner_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    yield ["", "WE", "MME", "neither"]
    predicted = Counter(at_input.predicted_winner for at_input in diagnosis.inputs)
    measured = Counter(at_input.measured_winner for at_input in diagnosis.inputs)
    yield ["the corollary predicts", *(str(predicted[vote]) for vote in (WE, MME, PREMISES_FAIL))]
    yield ["measured", *(str(measured[vote]) for vote in (WE, MME, EQUAL))]


def _comparison_notes(diagnosis: Diagnosis, inputs: str) -> Iterator[str]:
    we, mme = (_mean(diagnosis.radii_around_truth(vote)) for vote in (WE, MME))
    yield f"mean certified radius around the true class: WE {we}, MME {mme}"
    lambda_1, lambda_2, ratio = (_mean(diagnosis.proxy(name)) for name in ("lambda_1", "lambda_2", "ratio"))
    yield f"means: lambda_1 {lambda_1}, lambda_2 {lambda_2}, lambda_1/lambda_2 {ratio}"
    both = diagnosis.with_both_winners()
    agreeing = sum(at_input.predicted_winner == at_input.measured_winner for at_input in both)
    yield f"prediction and measurement agree at {agreeing} of the {len(both)} inputs where both prefer one"
    assumed = int((diagnosis.proxy("s_f") < diagnosis.proxy("s")).sum())
    yield f"s_f < s, which holds for independent members, holds at {assumed} of {inputs}"
    if diagnosis.curve is not None:
        area, error = diagnosis.curve.area, diagnosis.curve.error
        yield f"area under the ROC curve: {area:.2f} +- {error:.2f} (paper: {PAPERS_AREA})"


def roc_figure(diagnosis: Diagnosis) -> "Figure":
    """fig:roc: does X predict at which inputs MME has the larger certified radius?"""
    assert diagnosis.curve is not None
    figure, axes = empty_figure(4.2, 4.0)
    curve = diagnosis.curve
    label = f"area {curve.area:.2f} $\\pm$ {curve.error:.2f} (paper: {PAPERS_AREA})"
    axes.plot(curve.false_positive, curve.true_positive, color=_BLUE, linewidth=2.1, label=label)
    axes.plot([0, 1], [0, 1], color=_GREY, linewidth=0.9, dashes=(4, 1.5), label="chance")
    axes.set(
        xlim=(0, 1), ylim=(0, 1.01), xlabel="share of inputs where WE has the larger radius",
        ylabel="share of inputs where MME has", aspect="equal",
    )  # fmt: skip
    axes.legend(fontsize="small", frameon=False, loc="lower right")
    return figure


def indicator_figure(diagnosis: Diagnosis) -> "Figure":
    """Certified radius around the truth against the soft-smoothed ERI, for WE and the members."""
    figure, axes = empty_figure(6.4, 4.0)
    for vote in diagnosis.votes:
        if vote == MME:
            continue
        eri, error = diagnosis.values("soft", vote, "eri"), diagnosis.values("soft", vote, "eri_error")
        is_we = vote == WE
        axes.errorbar(
            eri, diagnosis.radii_around_truth(vote), xerr=error, fmt="o", markersize=4.5 if is_we else 2.5,
            linewidth=0, elinewidth=0.8, color=_BLUE if is_we else _GREY, zorder=3 if is_we else 2,
            label=vote_title(vote) if is_we or vote == diagnosis.votes[0] else None,
        )  # fmt: skip
    handles, _ = axes.get_legend_handles_labels()
    names = [f"members 1 to {len(diagnosis.votes) - 2}", "WE"][: len(handles)]
    axes.legend(handles, names, fontsize="small", frameon=False, loc="upper right")
    xlabel = f"soft-smoothed ERI at r = {diagnosis.r:g}, with standard errors"
    axes.set(xlabel=xlabel, ylabel="certified radius (L2)")
    return figure


def difference_figure(diagnosis: Diagnosis) -> "Figure":
    """The radius of MME less that of WE against lambda_1 / lambda_2, as in fig:transferability."""
    figure, axes = empty_figure(6.4, 4.0)
    ratio = diagnosis.proxy("ratio")
    difference = diagnosis.radii_around_truth(MME) - diagnosis.radii_around_truth(WE)
    for chosen, colour, label in ((difference > 0, _RED, "MME larger"), (difference < 0, _BLUE, "WE larger")):
        axes.scatter(ratio[chosen], difference[chosen], s=12, color=colour, label=f"{label}: {chosen.sum()}")
    axes.axhline(0.0, color="0.4", linewidth=0.8, label=f"equal: {(difference == 0).sum()}")
    axes.set(xlabel="$\\lambda_1 / \\lambda_2$", ylabel="radius of MME - radius of WE")
    axes.legend(fontsize="small", frameon=False)
    return figure


def _mean(values: Floats) -> str:
    return f"{values.mean():.3f}"


def _known_mean(values: Floats) -> str:
    known = values[~np.isnan(values)]
    return f"{known.mean():.3f}" if len(known) else "-"


def _known(values: Floats, cell: str) -> str:
    return "-" if np.isnan(values).any() else cell


def _percent(holds: NDArray[np.bool_]) -> str:
    return f"{100 * holds.mean():.1f}"
