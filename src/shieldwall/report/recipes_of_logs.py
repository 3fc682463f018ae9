"""What tells two logs apart: the recipe of the run that each is of, and how it was certified."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from shieldwall.results.certificates import Ints
from shieldwall.results.record import Log


def recipe_of(log: Log) -> Mapping[str, Any] | None:
    """The recipe of the log's run as it is written there; None for a log that stands alone.

    Where the run says by which recipes its first members were made, `start` holds these, not a folder.
    """
    if log.record is None or log.record.recipe_content is None:
        return None
    origins = list(log.record.origins)
    return {**log.record.recipe_content, "start": origins} if origins else log.record.recipe_content


def method_of(name: str, sigma: object) -> str:
    """The name of a recipe without its sigma: mnist-drt for mnist-drt-0.25."""
    return name.removesuffix(f"-{sigma}")


def but_for_the_seed(recipe: Mapping[str, Any]) -> str:
    """Everything that a recipe says except its seed, in words that equal those of another seed's.

    Runs that start from members of other seeds are alike, if these were made by recipes that are alike; where
    it is not known how they were made, only if they start from the same folder.
    """
    start = recipe.get("start")
    before = [_seedless(one) for one in start] if isinstance(start, list) else start
    return repr([_seedless(recipe), before])


def but_for_the_sigma(recipe: Mapping[str, Any]) -> str:
    """The method that a recipe names and runs, on what: of the objective's numbers, only which are 0."""
    name = method_of(str(recipe.get("name")), recipe.get("sigma"))
    on = [recipe.get(key) for key in ("data", "model", "noise", "members")]
    return repr([name, on, _in_order(recipe.get("objective"), numbers=False)])


def certified_alike(log: Log) -> tuple[object, ...]:
    """How a log was certified, sigma aside: equal where two logs can be shown as one."""
    kind = (log.certificates.noise or "").partition("(")[0]
    how = (
        log.certificates.norm,
        log.certificates.fixed_n,
        log.certificates.max_n,
        log.certificates.alpha,
        log.certificates.precision,
        log.certificates.bound_kind,
        kind,
    )
    return (log.vote, *how, inputs_of(log))


def inputs_of(log: Log) -> object:
    """The inputs of a log and their labels, equal for the same ones in any order."""
    order, certificates = by_number(log), log.certificates
    assert certificates.indices is not None
    assert certificates.truth is not None
    return certificates.indices[order].tobytes(), certificates.truth[order].tobytes()


def by_number(log: Log) -> Ints:
    """Places of the inputs by their numbers."""
    indices = log.certificates.indices
    return np.arange(len(log.certificates)) if indices is None else np.argsort(indices, kind="stable")


def vote_as_spoken(log: Log) -> str:
    """The title without the run: "WE", "member 1"."""
    return log.title.removeprefix(log.run).strip()


def _seedless(recipe: Mapping[str, Any]) -> object:
    return _in_order({key: value for key, value in recipe.items() if key not in ("seed", "start")})


def _in_order(part: Any, numbers: bool = True) -> object:
    """The same for the same keys and values, whatever their order; without numbers, only which are 0."""
    if isinstance(part, Mapping):
        return sorted((str(key), repr(_in_order(value, numbers))) for key, value in part.items())
    return bool(part) if isinstance(part, int | float) and not numbers else part
