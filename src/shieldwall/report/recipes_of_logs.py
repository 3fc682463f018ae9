"""What tells two logs apart: the recipe of the run that each is of, and how it was certified."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from shieldwall.results.logs import Log


def run_folder(log: Log) -> Path | None:
    """The run folder that a log lies in, or None where it stands alone."""
    folder = log.path.parent.resolve()
    return next((one for one in (folder.parent, folder) if (one / "recipe.yaml").is_file()), None)


def recipe_of(log: Log) -> Mapping[str, Any] | None:
    """The recipe of the log's run as it is written there; None for a log that stands alone.

    Where the run says by which recipes its first members were made, `start` holds these, not a folder.
    """
    folder = run_folder(log)
    written = _recipes_in(folder / "recipe.yaml") if folder else []
    if folder is None or not written:
        return None
    starts = _recipes_in(folder / "start.yaml")
    return {**written[0], "start": starts} if starts else written[0]


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
    kind = (log.noise or "").partition("(")[0]
    how = (log.norm, log.n, log.most_draws, log.alpha, log.precision, log.bound, kind)
    return (log.vote, *how, inputs_of(log))


def inputs_of(log: Log) -> object:
    """The inputs of a log and their labels, equal for the same ones in any order."""
    order = np.argsort(log.idx)
    return log.idx[order].tobytes(), log.label[order].tobytes()


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


def _recipes_in(path: Path) -> list[Mapping[str, Any]]:
    """None of them where one cannot be read: reading the logs has told of those that matter."""
    if not path.is_file():
        return []
    try:
        content = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    return content if all(isinstance(one, Mapping) for one in content) else []
