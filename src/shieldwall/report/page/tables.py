"""The tables of certified accuracy: of each log, of each envelope, and beside the paper's rows."""

from collections.abc import Sequence
from typing import NamedTuple

from shieldwall.report.page.curves import MINUS, NOTHING, RHO, SIGMA, Curve
from shieldwall.report.tables import AT_LEAST, Column, accuracy_table
from shieldwall.results.certificates import shared
from shieldwall.results.intervals import accuracy, average_radius
from shieldwall.results.metrics import default_radii
from shieldwall.results.paper import PaperRow, counterpart, envelope_counterpart, sigmas_of, weights_of_drt
from shieldwall.results.rows import incomparable_settings


class CurveTable(NamedTuple):
    """A line for each curve, from the one at the place `first` on; the first `ranked` columns have a best."""

    columns: Sequence[Column]
    ranked: int
    first: int
    titles: list[str]
    groups: list[str]
    """Lines of one run stand together, or of one method."""


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
    radii = chosen or of_paper or default_radii([curve.row.certificates[0] for curve in curves]).tolist()
    return sorted({0.0, *radii})


def log_table(curves: Sequence[Curve], columns: Sequence[Column], num_radii: int) -> CurveTable:
    """Certified accuracies, ACR, abstentions and inputs of each log."""
    groups = [curve.row.run for curve in curves]
    one_run = len(set(groups)) == 1 and len(curves) > 1
    bounds = any(curve.row.stopped_early for curve in curves)  # ACRs that are lower bounds are not compared
    ranked = 0 if incomparable_settings([curve.row for curve in curves]) else num_radii + (not bounds)
    titles = [curve.protocol if one_run else curve.title for curve in curves]
    return CurveTable(columns, ranked, 0, titles, groups)


def envelope_table(envelopes: Sequence[Curve], radii: Sequence[float], first: int) -> CurveTable:
    """Certified accuracies of each envelope, ranked if all are over the same sigmas."""
    rows = [envelope.row for envelope in envelopes]
    same_sigmas = shared(envelope.sigma for envelope in envelopes) is not None
    ranked = len(radii) if same_sigmas and not incomparable_settings(rows) else 0
    titles = [f"{curve.method} {curve.protocol}" if same_sigmas else curve.title for curve in envelopes]
    columns = accuracy_table(rows, radii).columns[: len(radii)]
    return CurveTable(columns, ranked, first, titles, [curve.method for curve in envelopes])


def paper_pairs(curves: Sequence[Curve], envelopes: Sequence[Curve]) -> list[PaperPair]:
    """The paper's rows for the curves of a page, envelopes first; its radii are L2 radii."""
    placed = list(enumerate([*curves, *envelopes]))
    pairs = [PaperPair(place, curve, row) for place, curve in placed if (row := _paper_row(curve))]
    return sorted(pairs, key=lambda pair: not pair.curve.row.is_envelope)


def _paper_row(curve: Curve) -> PaperRow | None:
    if curve.row.record.recipe is None or curve.row.certificates[0].norm != "l2":
        return None
    recipe, sigmas = curve.row.record.recipe, {run.sigma for run in curve.row.certificates}
    if not curve.row.is_envelope:
        return counterpart(recipe, curve.row.vote)
    return envelope_counterpart(recipe, curve.row.vote) if sigmas == sigmas_of(recipe) else None


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
    row, recipe = pair.row, None if pair.curve.row.is_envelope else pair.curve.row.record.recipe
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
