"""The page's tables: certified accuracy of each log and envelope, beside the paper's, and how it was made."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from shieldwall.report.page.curves import MINUS, NOTHING, RHO, SIGMA, Curve
from shieldwall.report.tables import AT_LEAST, Column, accuracy_table, is_out_of_reach
from shieldwall.results.certificates import Certificates, shared
from shieldwall.results.intervals import accuracy, average_radius
from shieldwall.results.paper import PaperRow, counterpart
from shieldwall.results.rows import incomparable_settings, shared_norm
from shieldwall.vocabulary import SIGMAS

_SHORT_COMMIT = 10


class CurveTable(NamedTuple):
    """A line for each curve, from the one at the place `first` on."""

    columns: Sequence[Column]
    first: int
    titles: list[str]
    groups: list[str]  #: lines of one run stand together, or of one method


class PaperPair(NamedTuple):
    """One of the page's curves, its place among them, and what the paper has for it."""

    place: int
    curve: Curve
    row: PaperRow


class PaperComparison(NamedTuple):
    """A row of ours, the paper's, and the difference, ours minus theirs."""

    curve: int
    title: str
    source: str
    lines: list[tuple[str, tuple[str, ...]]]


def log_table(curves: Sequence[Curve], columns: Sequence[Column]) -> CurveTable:
    """Certified accuracies, ACR, abstentions and inputs of each log."""
    groups = [curve.row.run for curve in curves]
    one_run = len(set(groups)) == 1 and len(curves) > 1
    return CurveTable(columns, 0, [curve.protocol if one_run else curve.title for curve in curves], groups)


def envelope_table(envelopes: Sequence[Curve], radii: Sequence[float], first: int) -> CurveTable:
    """Certified accuracies of each envelope, ranked if all are over the same sigmas."""
    columns = accuracy_table([curve.row for curve in envelopes], radii).columns[: len(radii)]
    titles = [f"{curve.method} {curve.protocol}" for curve in envelopes]
    if shared(curve.sigma for curve in envelopes) is None:
        columns = [replace(column, is_ranked=False) for column in columns]
        titles = [curve.title for curve in envelopes]
    return CurveTable(columns, first, titles, [curve.method for curve in envelopes])


def conclusion(curves: Sequence[Curve], hidden: Container[str], radii: Sequence[float]) -> str:
    """A sentence on the curves in view, at the largest radius where their mean is half of that at 0."""
    rows = [curve.row for curve in curves if curve.protocol not in hidden]
    shares = 100 * np.array([accuracy(row, radii) for row in rows])
    means = shares.mean(axis=0)
    k = int(np.flatnonzero(means >= means[0] / 2)[-1])
    best, *others = sorted(range(len(rows)), key=lambda place: -shares[place, k])
    norm, inputs = shared_norm(rows), f"{rows[best].num_inputs:,} test images"
    if not others:
        right = f"{rows[0].title} is right on {shares[0, 0]:.1f}% of {inputs}"
        return f"{right}; on {shares[0, k]:.1f}% no change of {norm} norm below {radii[k]:g} can change that."
    if differing := incomparable_settings(rows):
        return f"{len(rows)} rows that differ in {' and '.join(differing)}: none of them is the best."
    (first, most), (second, next_most) = ((rows[p].title, f"{shares[p, k]:.1f}%") for p in (best, others[0]))
    said = f"{first} with {most} of {inputs}, then {second} with {next_most}"
    if most == next_most:
        said = f"shared by {first} and {second}, with {most} of {inputs} each"
    return f"At {norm} radius {radii[k]:g} the best is {said}."


def paper_pairs(curves: Sequence[Curve]) -> list[PaperPair]:
    """The paper's rows for the curves of a page, envelopes first; its radii are L2 radii."""
    pairs = [PaperPair(k, curve, row) for k, curve in enumerate(curves) if (row := _paper_row(curve))]
    return sorted(pairs, key=lambda pair: not pair.curve.row.is_envelope)


def _paper_row(curve: Curve) -> PaperRow | None:
    row, recipe = curve.row, curve.row.record.recipe
    if recipe is None or row.certificates[0].norm != "l2":
        return None
    if not row.is_envelope:
        return counterpart(recipe, row.vote, recipe.sigma)
    of_paper = {0.5, 1.0} if recipe.data == "imagenet" else set(SIGMAS)
    same_sigmas = {run.sigma for run in row.certificates} == of_paper
    return counterpart(recipe, row.vote, None) if same_sigmas else None


def compare_with_paper(pair: PaperPair, radii: Sequence[float]) -> PaperComparison:
    """Percentages at each radius and the ACR; what one of the two does not have is a dash."""
    row, acr = pair.curve.row, average_radius(pair.curve.row)
    mark = f"{AT_LEAST} " if row.stopped_early else ""
    cells = []
    for radius, share in zip(radii, accuracy(row, radii).tolist(), strict=True):
        ours = None if is_out_of_reach(row, radius) else 100 * share
        cells.append(_cell(ours, pair.row.accuracy.get(radius), 1))
    cells.append(_cell(None if acr is None else acr.value, pair.row.acr, 3, mark))
    lines = list(zip(("ours", "paper", "difference"), zip(*cells, strict=True), strict=True))
    return PaperComparison(pair.place, pair.curve.title, _source(pair.row), lines)


def _source(row: PaperRow) -> str:
    """Where the paper's row stands and what it was made with."""
    parts = [row.label, "" if row.sigma is None else f"{SIGMA} {row.sigma:g}"]
    if row.rho is not None:
        parts.append("{} {:g}, {:g}".format(RHO, *row.rho))
    if row.sigma is None and row.method == "drt":
        parts.append(f"the best over {RHO} too")
    return "; ".join(filter(None, [*parts, f"Table {row.number}", row.note]))


def _cell(ours: float | None, theirs: float | None, decimals: int, mark: str = "") -> tuple[str, str, str]:
    """Ours, the paper's and the difference of both as shown; `mark` says that ours is a lower bound."""
    known = [NOTHING if value is None else f"{value:.{decimals}f}" for value in (ours, theirs)]
    if ours is None:
        return NOTHING, known[1], NOTHING
    if theirs is None:
        return mark + known[0], NOTHING, NOTHING
    difference = round(round(ours, decimals) - theirs, decimals)
    text = f"{difference:+.{decimals}f}".replace("-", MINUS) if difference else "0"
    return mark + known[0], known[1], mark + text


class Provenance(NamedTuple):
    shared: list[tuple[str, str]]  #: facts that hold for every number
    headings: list[str]  #: those that differ, as a table with a line for each run
    lines: list[list[str]]


def made_with(curves: Sequence[Curve]) -> Provenance:
    """A line for each run, or for each of its certifications where they differ."""
    votes: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for curve in curves:
        votes.setdefault(tuple(_facts(curve).items()), []).append(curve.protocol)
    lines = [{**dict(facts), "votes": ", ".join(of)} for facts, of in votes.items()]
    same = {name: fact for name, fact in lines[0].items() if all(line[name] == fact for line in lines)}
    different = [name for name in lines[0] if name not in same]
    known = [(name, fact) for name, fact in same.items() if fact != NOTHING]
    return Provenance(known, different, [[line[name] for name in different] for line in lines])


def _facts(curve: Curve) -> dict[str, str]:
    run, recipe, stages = curve.row.certificates[0], curve.row.record.recipe, curve.row.record.environment
    done, wanted = len(run), curve.row.num_wanted
    trained_at, trained_on = _where(stages.get("train", {}))
    certified_at, certified_on = _where(stages.get("certify", {}))
    facts: dict[str, object] = {
        "run": curve.row.run, "votes": None, "recipe": recipe and recipe.name, "data": recipe and recipe.data,
        "model": recipe and recipe.model, SIGMA: curve.sigma, "members": recipe and recipe.members,
        "training seed": recipe and recipe.seed, "trained at commit": trained_at, "trained on": trained_on,
        "noise": run.noise, "n0": run.n0, "n": number_of_samples(run),
        "alpha": None if run.alpha is None else f"{run.alpha:g}",
        "bound": run.bound_kind, "precision": run.precision, "certification seed": run.seed,
        "certified at commit": certified_at, "certified on": certified_on,
        "inputs": f"{done:,}" if done == wanted else f"{done:,} of {wanted:,}",
        "seconds per input": None if run.seconds is None else f"{run.seconds.mean():.3g}",
    }  # fmt: skip
    return {name: NOTHING if fact in (None, "") else str(fact) for name, fact in facts.items()}


def number_of_samples(run: Certificates) -> str:
    """n, in words where it differs between inputs; empty where it is not known."""
    n = f"up to {run.max_n:,}" if run.max_n else "" if run.fixed_n is None else f"{run.fixed_n:,}"
    if run.fixed_n is None and run.mean_n is not None:
        n = f"{n + ', ' if n else ''}{run.mean_n:,.0f} on average"
    return n


def _where(stage: Mapping[str, Any]) -> tuple[str, str]:
    """The commit, shortened but for the mark of a changed checkout, and the device."""
    commit, _, changed = str(stage.get("commit") or "").partition(" ")
    return " ".join(filter(None, [commit[:_SHORT_COMMIT], changed])), str(stage.get("device") or "")
