"""The curves of a page: each is a row, with the method, protocol and sigma by which a reader picks it.

A method is a recipe without its sigma: mnist-gaussian-0.25 and mnist-gaussian-1.0 are one at two sigmas.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shieldwall.recipes import Recipe
from shieldwall.report.page.signs import SIGMA
from shieldwall.results.record import Log, RunRecord
from shieldwall.results.rows import Row, envelope_row, method_of, sigma_groups
from shieldwall.vocabulary import VOTE_TITLES, vote_title

UNSTATED = "not stated"
_MANY_CURVES = 12


@dataclass(frozen=True, eq=False)
class Curve:
    """A row of one log, or of one method and protocol at several sigmas."""

    row: Row
    method: str
    protocol: str
    sigma: str
    """Of an envelope all of them."""

    @property
    def log(self) -> Log:
        return self.row.logs[0]

    @property
    def record(self) -> RunRecord:
        """What the run says."""
        return self.log.record or RunRecord(self.log.run, Path(), {})

    @property
    def recipe(self) -> Recipe | None:
        return self.record.recipe

    @property
    def is_member(self) -> bool:
        return self.row.is_member

    @property
    def is_envelope(self) -> bool:
        return self.row.is_envelope

    @property
    def title(self) -> str:
        if not self.is_envelope:
            return self.row.title
        return f"{self.method} {self.protocol}, best of {SIGMA} {self.sigma}"


def log_curves(rows: Sequence[Row]) -> list[Curve]:
    """A curve for each row of one log, in the same order."""
    records = {row.run: row.logs[0].record for row in rows}
    methods = _methods({run: record.recipe if record else None for run, record in records.items()})
    return [Curve(row, methods[row.run], _protocol(row.logs[0]), _sigma(row.logs[0])) for row in rows]


def envelope_curves(curves: Sequence[Curve]) -> list[Curve]:
    """A curve for each method and protocol with more than one sigma, one log at each.

    Runs with another seed count as another method here.
    """
    envelopes: list[Curve] = []
    for method in choices(curves, "method"):
        of_row = {curve.row: curve for curve in curves if curve.method == method}
        for group in sigma_groups([*of_row]):
            parts = [of_row[row] for row in group]
            sigmas = ", ".join(choices(parts, "sigma"))
            envelopes.append(Curve(envelope_row(group), method, parts[0].protocol, sigmas))
    return envelopes


def choices(curves: Sequence[Curve], name: str) -> list[str]:
    """The methods, protocols or sigmas of the curves: ensembles before members, small sigmas before large."""
    values = list(dict.fromkeys(str(getattr(curve, name)) for curve in curves))
    if name == "method":
        return values
    if name == "sigma":
        return sorted(values, key=lambda text: (text == UNSTATED, 0.0 if text == UNSTATED else float(text)))
    members = {curve.protocol for curve in curves if curve.is_member}
    return sorted(values, key=lambda text: (text in members, [*VOTE_TITLES.values(), text].index(text)))


def starts_hidden(curves: Sequence[Curve]) -> set[str]:
    """The protocols whose toggles start unchecked: members and tuned weights, where many curves are left."""
    special = {curve.protocol for curve in curves if curve.is_member or curve.row.vote.startswith("we-")}
    is_crowded = len(curves) > _MANY_CURVES and len(special) < len({curve.protocol for curve in curves})
    return special if is_crowded else set()


def _methods(recipes: dict[str, Recipe | None]) -> dict[str, str]:
    """The method of each run: its recipe's name without the sigma, with the seed where seeds differ. Runs
    that are still equal at a sigma keep the run's own name."""
    names = {
        run: run if recipe is None else method_of(recipe.name, recipe.sigma)
        for run, recipe in recipes.items()
    }
    at = {run: (names[run], recipe and recipe.sigma) for run, recipe in recipes.items()}
    seeded = {run: (*at[run], recipe and recipe.seed) for run, recipe in recipes.items()}
    same_sigma, twins = Counter(at.values()), Counter(seeded.values())
    ambiguous = {names[run] for run in recipes if same_sigma[at[run]] > 1 and twins[seeded[run]] == 1}

    def method(run: str, recipe: Recipe | None) -> str:
        if twins[seeded[run]] > 1:
            return run
        return f"{names[run]}, seed {recipe.seed}" if recipe and names[run] in ambiguous else names[run]

    return {run: method(run, recipe) for run, recipe in recipes.items()}


def _protocol(log: Log) -> str:
    if log.record is None or log.record.is_run:
        return vote_title(log.vote)
    return UNSTATED if log.vote == log.record.base else log.vote


def _sigma(log: Log) -> str:
    sigma = log.certificates.sigma
    if sigma is None and log.record is not None and log.record.recipe is not None:
        sigma = log.record.recipe.sigma
    return UNSTATED if sigma is None else f"{sigma:.4g}"
