"""The tables of certified accuracy: of each log, of each envelope, and beside the paper's rows."""

from collections.abc import Sequence
from typing import NamedTuple

from shieldwall.report.page.curves import MINUS, NOTHING, RHO, SIGMA, Curve
from shieldwall.report.tables import AT_LEAST, Column
from shieldwall.results.certificates import shared
from shieldwall.results.intervals import accuracy, average_radius
from shieldwall.results.metrics import default_radii
from shieldwall.results.paper import PaperRow, counterpart, envelope_counterpart, weights_of_drt
from shieldwall.results.rows import incomparable_settings
from shieldwall.vocabulary import SIGMAS


class Cell(NamedTuple):
    text: str
    ranked: bool = False
    """Whether it competes to be the best of its column."""
    best: bool = False


class Line(NamedTuple):
    """A line of a table; `curve` is the place of its curve among the page's."""

    curve: int
    group: int
    """Lines of one run stand together, or of one method."""
    title: str
    cells: list[Cell]


class PaperPair(NamedTuple):
    """What the paper has for one curve."""

    place: int
    """Of the curve among the page's."""
    curve: Curve
    row: PaperRow


class PaperComparison(NamedTuple):
    """A row of ours, the paper's, and the difference, ours minus theirs."""

    curve: int
    title: str
    source: str
    ours: list[str]
    paper: list[str]
    difference: list[str]


def table_radii(
    curves: Sequence[Curve], pairs: Sequence[PaperPair], chosen: Sequence[float] | None
) -> list[float]:
    """The radii given, or those of the paper's rows, or round ones; 0 is always among them."""
    of_paper = {radius for pair in pairs for radius in pair.row.accuracy}
    radii = chosen or of_paper or default_radii([curve.log.certificates for curve in curves]).tolist()
    return sorted({0.0, *radii})


def log_lines(curves: Sequence[Curve], columns: Sequence[Column], num_radii: int) -> list[Line]:
    """Certified accuracies, ACR, abstentions and inputs of each log, the best of each column marked."""
    runs = list(dict.fromkeys(curve.row.run for curve in curves))
    one_run = len(runs) == 1 and len(curves) > 1
    bounds = any(curve.row.stopped_early for curve in curves)  # ACRs that are lower bounds are not compared
    ranked = 0 if incomparable_settings([curve.row for curve in curves]) else num_radii + (not bounds)
    return [
        Line(
            k,
            runs.index(curve.row.run),
            curve.protocol if one_run else curve.title,
            [Cell(column.cells[k], place < ranked, column.best[k]) for place, column in enumerate(columns)],
        )
        for k, curve in enumerate(curves)
    ]


def envelope_lines(envelopes: Sequence[Curve], radii: Sequence[float], first: int) -> list[Line]:
    """Certified accuracies of each envelope, whose curves count from `first`.

    They are ranked if all are over the same sigmas.
    """
    texts = [[f"{100 * a:.1f}" for a in accuracy(envelope.row, radii)] for envelope in envelopes]
    same_sigmas = shared(envelope.sigma for envelope in envelopes) is not None
    ranked = same_sigmas and not incomparable_settings([envelope.row for envelope in envelopes])
    tops = [max(column, key=float) if len(set(column)) > 1 else None for column in zip(*texts, strict=True)]
    methods = list(dict.fromkeys(envelope.method for envelope in envelopes))
    return [
        Line(
            first + k,
            methods.index(envelope.method),
            f"{envelope.method} {envelope.protocol}" if same_sigmas else envelope.title,
            [Cell(text, ranked, ranked and text == top) for text, top in zip(line, tops, strict=True)],
        )
        for k, (envelope, line) in enumerate(zip(envelopes, texts, strict=True))
    ]


def paper_pairs(curves: Sequence[Curve], envelopes: Sequence[Curve]) -> list[PaperPair]:
    """The paper's rows for the curves of a page, envelopes first; its radii are L2 radii."""
    placed = list(enumerate([*curves, *envelopes]))
    pairs = [PaperPair(place, curve, row) for place, curve in placed if (row := _paper_row(curve))]
    return sorted(pairs, key=lambda pair: not pair.curve.is_envelope)


def _paper_row(curve: Curve) -> PaperRow | None:
    if curve.recipe is None or curve.log.certificates.norm != "l2":
        return None
    if not curve.is_envelope:
        return counterpart(curve.recipe, curve.row.vote)
    same_sigmas = {run.sigma for run in curve.row.certificates} == set(SIGMAS)
    return envelope_counterpart(curve.recipe, curve.row.vote) if same_sigmas else None


def compare_with_paper(pair: PaperPair, radii: Sequence[float]) -> PaperComparison:
    """Percentages at each radius and the ACR; what one of the two does not have is a dash."""
    row, acr = pair.curve.row, average_radius(pair.curve.row)
    cells: list[tuple[float | None, float | None, int]] = [
        (100 * value, pair.row.accuracy.get(radius), 1)
        for radius, value in zip(radii, accuracy(row, radii).tolist(), strict=True)
    ]
    cells.append((None if acr is None else acr.value, pair.row.acr, 3))
    ours = [_text(value, decimals) for value, _, decimals in cells]
    differences = [_difference(*cell) for cell in cells]
    if row.stopped_early:
        for shown in (ours, differences):
            shown[-1] = shown[-1] if shown[-1] == NOTHING else f"{AT_LEAST} {shown[-1]}"
    theirs = [_text(value, decimals) for _, value, decimals in cells]
    return PaperComparison(pair.place, pair.curve.title, source(pair), ours, theirs, differences)


def source(pair: PaperPair) -> str:
    """Where the paper's row stands and what it was made with, and our weights of DRT if they are others."""
    row, recipe = pair.row, None if pair.curve.is_envelope else pair.curve.recipe
    parts = [row.label]
    if row.sigma is not None:
        parts.append(f"{SIGMA} {row.sigma:g}")
    if row.rho is not None:
        ours = weights_of_drt(recipe) if recipe else row.rho
        printed, of_ours = ("{:g}, {:g}".format(*weights) for weights in (row.rho, ours))
        parts.append(f"{RHO} {printed}" if ours == row.rho else f"{RHO} {printed} (ours {of_ours})")
    if row.sigma is None and row.method == "drt":
        parts.append(f"the best over {RHO} too")
    return "; ".join(filter(None, [*parts, f"Table {row.number}", row.note]))


def _text(value: float | None, decimals: int) -> str:
    return NOTHING if value is None else f"{value:.{decimals}f}"


def _difference(ours: float | None, theirs: float | None, decimals: int) -> str:
    if ours is None or theirs is None:
        return NOTHING
    # Of the numbers as shown, so that a reader who subtracts gets the same.
    difference = round(round(ours, decimals) - theirs, decimals)
    return "0" if difference == 0 else f"{difference:+.{decimals}f}".replace("-", MINUS)
