"""The logs on a page, each with its method, its protocol and its sigma, by which a reader picks them.

A method is a recipe without its sigma: mnist-gaussian-0.25 and mnist-gaussian-1.0 are one at two sigmas.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shieldwall.recipes import Recipe
from shieldwall.results.record import Log, RunRecord
from shieldwall.results.rows import method_of
from shieldwall.vocabulary import vote_title

UNSTATED = "not stated"
_ENSEMBLES = ("WE", "MME", "EAS")


@dataclass(frozen=True, eq=False)
class Entry:
    """One log, and what is known of the run that it is of."""

    log: Log
    recipe: Recipe | None
    method: str
    protocol: str
    sigma: str

    @property
    def record(self) -> RunRecord:
        """What the run says."""
        return self.log.record or RunRecord(self.log.run, Path(), {})

    @property
    def is_member(self) -> bool:
        return self.log.is_member


def entries(logs: Sequence[Log]) -> list[Entry]:
    """An entry for each log, in the same order."""
    recipes = {log.run: log.record.recipe if log.record else None for log in logs}
    methods = _methods(recipes)

    def entry(log: Log) -> Entry:
        recipe = recipes[log.run]
        return Entry(
            log,
            recipe,
            methods[log.run],
            protocol=_protocol(log),
            sigma=_sigma(log, recipe),
        )

    return [entry(log) for log in logs]


def choices(found: Sequence[Entry], name: str) -> list[str]:
    """The methods, protocols or sigmas there are: ensembles before members, small sigmas before large."""
    values = list(dict.fromkeys(str(getattr(entry, name)) for entry in found))
    if name == "method":
        return values
    if name == "sigma":
        return sorted(values, key=lambda text: (text == UNSTATED, 0.0 if text == UNSTATED else float(text)))
    members = {entry.protocol for entry in found if entry.is_member}
    return sorted(values, key=lambda text: (text in members, [*_ENSEMBLES, text].index(text)))


def _methods(recipes: dict[str, Recipe | None]) -> dict[str, str]:
    """The method of each run: its recipe's name without the sigma, with the seed where seeds differ, and for
    runs that even this does not tell apart at their sigma, the run's own name."""
    names = {
        run: run if recipe is None else method_of(recipe.name, recipe.sigma)
        for run, recipe in recipes.items()
    }
    at = {run: (names[run], recipe and recipe.sigma) for run, recipe in recipes.items()}
    seeded = {run: (*at[run], recipe and recipe.seed) for run, recipe in recipes.items()}
    alike, twins = Counter(at.values()), Counter(seeded.values())
    ambiguous = {names[run] for run in recipes if alike[at[run]] > 1 and twins[seeded[run]] == 1}

    def method(run: str, recipe: Recipe | None) -> str:
        if twins[seeded[run]] > 1:
            return run
        return f"{names[run]}, seed {recipe.seed}" if recipe and names[run] in ambiguous else names[run]

    return {run: method(run, recipe) for run, recipe in recipes.items()}


def _protocol(log: Log) -> str:
    if log.record is None or log.record.is_run:
        return vote_title(log.vote)
    return UNSTATED if log.vote == log.record.base else log.vote


def _sigma(log: Log, recipe: Recipe | None) -> str:
    sigma = log.certificates.sigma if log.certificates.sigma is not None or recipe is None else recipe.sigma
    return UNSTATED if sigma is None else f"{sigma:.4g}"
