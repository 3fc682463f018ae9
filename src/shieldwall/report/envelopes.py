"""Runs of one method at several sigmas, as one row: at each radius the best of them.

So the main tables of the literature are made. Sigma is chosen for each radius, and after seeing the test
inputs: no single classifier has this curve, and it lies a little above that of the sigma that is truly best.
"""

from collections import defaultdict
from collections.abc import Sequence

from shieldwall.errors import UserError
from shieldwall.report.recipes_of_logs import but_for_the_sigma, certified_alike, recipe_of, vote_as_spoken
from shieldwall.report.rows import Row


def envelopes(rows: Sequence[Row]) -> list[Row]:
    """The rows, those of one method and vote at several sigmas as one, where the first of them stood."""
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        log = row.logs[0]
        recipe = recipe_of(log)
        groups[id(row) if recipe is None else (but_for_the_sigma(recipe), certified_alike(log))].append(row)
    if all(len(sigmas_of(group)) < 2 for group in groups.values()):
        raise UserError(
            "there is no envelope to draw: it takes runs of one method at two sigmas or more, certified alike"
        )
    kept = {id(row): row for row in rows}
    for group in groups.values():
        if len(sigmas_of(group)) > 1:
            kept[id(group[0])] = _together(group)
            for row in group[1:]:
                del kept[id(row)]
    return list(kept.values())


def sigmas_of(rows: Sequence[Row]) -> list[float]:
    return sorted({log.sigma for row in rows for log in row.logs if log.sigma is not None})


def _together(rows: Sequence[Row]) -> Row:
    names = {_method(row) for row in rows}
    name = names.pop() if len(names) == 1 else " / ".join(sorted(names))
    title = f"{name} {vote_as_spoken(rows[0].logs[0])}"
    return Row(title, name, tuple(tuple(row.logs) for row in rows))


def _method(row: Row) -> str:
    """The recipe's name without its sigma: mnist-drt for mnist-drt-0.25."""
    recipe = recipe_of(row.logs[0]) or {}
    return str(recipe.get("name", row.run)).removesuffix(f"-{recipe.get('sigma')}")
