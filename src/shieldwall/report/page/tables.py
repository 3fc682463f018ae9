"""The tables of certified accuracy: of each log, of each envelope, and beside the paper's rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from shieldwall.report.page.entries import Entry
from shieldwall.report.page.envelope import Envelope
from shieldwall.report.page.signs import MINUS, NOTHING, RHO, SIGMA
from shieldwall.report.tables import accuracy_table
from shieldwall.results.metrics import average_certified_radius, certified_accuracy, default_radii
from shieldwall.results.paper import PaperRow, counterpart, envelope_counterpart, weights_of_drt
from shieldwall.results.rows import incomparable_settings, rows_of_logs
from shieldwall.vocabulary import SIGMAS


@dataclass(frozen=True)
class Cell:
    text: str
    ranked: bool = False
    """Whether it competes to be the best of its column."""
    best: bool = False


@dataclass(frozen=True)
class Row:
    """A line of a table; `curve` is the place of its curve among the page's."""

    curve: int
    group: int
    """Rows of one run stand together, or of one method."""
    title: str
    cells: list[Cell]


@dataclass(frozen=True)
class Beside:
    """A row of ours, the paper's, and the difference, ours minus theirs."""

    curve: int
    title: str
    source: str
    ours: list[str]
    paper: list[str]
    difference: list[str]


@dataclass(frozen=True)
class Counterpart:
    """What the paper has for one curve."""

    curve: int
    of: Entry | Envelope
    row: PaperRow


def radii_shown(
    entries: Sequence[Entry], paper: Sequence[Counterpart], given: Sequence[float] | None
) -> list[float]:
    """The radii given, or those of the paper's rows, or round ones; 0 is always among them."""
    theirs = {radius for found in paper for radius in found.row.accuracy}
    chosen = given or theirs or default_radii([entry.log.certificates for entry in entries]).tolist()
    return sorted({0.0, *chosen})


def headings(entries: Sequence[Entry], radii: Sequence[float]) -> list[tuple[str, str]]:
    return [
        column.heading
        for column in accuracy_table(rows_of_logs(entry.log for entry in entries), radii).columns
    ]


def log_rows(entries: Sequence[Entry], radii: Sequence[float]) -> list[Row]:
    """Certified accuracies, ACR, abstentions and inputs of each log, the best of each column marked."""
    shown = accuracy_table(rows_of_logs(entry.log for entry in entries), radii).columns
    runs = list(dict.fromkeys(entry.log.run for entry in entries))
    one_run = len(runs) == 1 and len(entries) > 1
    ranked = 0 if incomparable_settings(rows_of_logs(entry.log for entry in entries)) else len(radii) + 1
    return [
        Row(
            k,
            runs.index(entry.log.run),
            entry.log.title.removeprefix(f"{entry.log.run} ") if one_run else entry.log.title,
            [Cell(column.cells[k], place < ranked, column.best[k]) for place, column in enumerate(shown)],
        )
        for k, entry in enumerate(entries)
    ]


def envelope_rows(found: Sequence[Envelope], radii: Sequence[float], first: int) -> list[Row]:
    """Certified accuracies of each envelope, whose curves count from `first`.

    They are ranked if all are over the same sigmas.
    """
    texts = [[f"{100 * a:.1f}" for a in envelope.accuracy(radii)] for envelope in found]
    differing = incomparable_settings(rows_of_logs(entry.log for one in found for entry in one.of))
    ranked = bool(sigmas_shared(found)) and not differing
    tops = [max(column, key=float) if len(set(column)) > 1 else None for column in zip(*texts, strict=True)]
    methods = list(dict.fromkeys(envelope.method for envelope in found))
    return [
        Row(
            first + k,
            methods.index(found[k].method),
            f"{found[k].method} {found[k].protocol}" if sigmas_shared(found) else found[k].title,
            [Cell(text, ranked, ranked and text == top) for text, top in zip(line, tops, strict=True)],
        )
        for k, line in enumerate(texts)
    ]


def sigmas_shared(found: Sequence[Envelope]) -> str:
    """The sigmas that all envelopes are over, or nothing where they are over different ones."""
    every = {", ".join(envelope.sigmas) for envelope in found}
    return every.pop() if len(every) == 1 else ""


def counterparts(entries: Sequence[Entry], found: Sequence[Envelope]) -> list[Counterpart]:
    """The paper's rows for the curves of a page, envelopes first; its radii are L2 radii."""
    pairs: list[Counterpart] = []
    for k, envelope in enumerate(found, start=len(entries)):
        recipe, log = envelope.of[0].recipe, envelope.of[0].log
        alike = log.certificates.norm == "l2" and {
            entry.log.certificates.sigma for entry in envelope.of
        } == set(SIGMAS)
        row = envelope_counterpart(recipe, log.vote) if recipe and alike else None
        pairs += [Counterpart(k, envelope, row)] if row else []
    for k, entry in enumerate(entries):
        row = (
            counterpart(entry.recipe, entry.log.vote)
            if entry.recipe and entry.log.certificates.norm == "l2"
            else None
        )
        pairs += [Counterpart(k, entry, row)] if row else []
    return pairs


def beside_paper(pairs: Sequence[Counterpart], radii: Sequence[float]) -> list[Beside]:
    """Percentages at each radius and the ACR; what one of the two does not have is a dash."""
    return [_beside(pair, radii) for pair in pairs]


def _beside(pair: Counterpart, radii: Sequence[float]) -> Beside:
    if isinstance(pair.of, Envelope):
        title, accuracy, acr = pair.of.title, pair.of.accuracy(radii), None
    else:
        log = pair.of.log
        title, accuracy, acr = (
            log.title,
            certified_accuracy(log.certificates, radii),
            average_certified_radius(log.certificates),
        )
    percents = {radius: 100 * float(a) for radius, a in zip(radii, accuracy, strict=True)}
    paper = {radius: pair.row.accuracy.get(radius) for radius in radii}
    both = [(percents[radius], paper[radius], 1) for radius in radii] + [(acr, pair.row.acr, 3)]
    return Beside(
        pair.curve,
        title,
        source(pair),
        [_text(ours, decimals) for ours, _, decimals in both],
        [_text(theirs, decimals) for _, theirs, decimals in both],
        [_difference(ours, theirs, decimals) for ours, theirs, decimals in both],
    )


def source(pair: Counterpart) -> str:
    """Where the paper's row stands and what it was made with, and our weights of DRT if they are others."""
    row, recipe = pair.row, pair.of.recipe if isinstance(pair.of, Entry) else None
    said = [row.label]
    if row.sigma is not None:
        said.append(f"{SIGMA} {row.sigma:g}")
    if row.rho is not None:
        ours = weights_of_drt(recipe) if recipe else row.rho
        said.append(f"{RHO} {_pair(row.rho)}{'' if ours == row.rho else f' (ours {_pair(ours)})'}")
    if row.sigma is None and row.method == "drt":
        said.append(f"the best over {RHO} too")
    return "; ".join([*said, f"Table {row.number}", *([row.note] if row.note else [])])


def _pair(weights: tuple[float, float]) -> str:
    return f"{weights[0]:g}, {weights[1]:g}"


def _text(value: float | None, decimals: int) -> str:
    return NOTHING if value is None else f"{value:.{decimals}f}"


def _difference(ours: float | None, theirs: float | None, decimals: int) -> str:
    if ours is None or theirs is None:
        return NOTHING
    # Of the numbers as shown, so that a reader who subtracts gets the same.
    found = round(round(ours, decimals) - theirs, decimals)
    return "0" if found == 0 else f"{found:+.{decimals}f}".replace("-", MINUS)
