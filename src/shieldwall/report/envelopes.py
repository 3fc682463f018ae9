"""Runs of one method at several sigmas, as one: A(r) = max over sigma of A_sigma(r).

So the main tables of the literature are made. Sigma is chosen for each radius, and after seeing the test
inputs: no single classifier has this curve, and it lies a little above that of the sigma that is truly best.
"""

from collections import defaultdict
from collections.abc import Sequence

from shieldwall.errors import UserError
from shieldwall.report.recipes_of_logs import (
    but_for_the_sigma,
    certified_alike,
    method_of,
    recipe_of,
    vote_as_spoken,
)
from shieldwall.report.rows import Row


def over_sigma(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each method and vote that was certified alike at two sigmas or more, one row at each.

    What may change with sigma are a method's numbers, such as its learning rate and weights. Two rows at one
    sigma would make an envelope over more than sigma: there is none.
    """
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        log = row.logs[0]
        recipe = recipe_of(log)
        if recipe is not None:
            groups[but_for_the_sigma(recipe), certified_alike(log)].append(row)
    return [group for group in groups.values() if 1 < len(sigmas_of(group)) == len(group)]


def envelopes(rows: Sequence[Row]) -> list[Row]:
    """The rows, those of one method and vote at several sigmas as one, where the first of them stood."""
    groups = over_sigma(rows)
    if not groups:
        raise UserError(
            "there is no envelope to draw: it takes runs of one method at two sigmas or more, one at each, "
            "certified alike, with recipes of one name but for the sigma"
        )
    kept = {id(row): row for row in rows}
    for group in groups:
        _check_seeds(group)
        kept[id(group[0])] = _together(group)
        for row in group[1:]:
            del kept[id(row)]
    return list(kept.values())


def sigmas_of(rows: Sequence[Row]) -> list[float]:
    return sorted(
        {log.certificates.sigma for row in rows for log in row.logs if log.certificates.sigma is not None}
    )


def _check_seeds(rows: Sequence[Row]) -> None:
    """The best of a mean over three seeds and of a single run would have neither's deviation or interval."""
    if len({row.seeds for row in rows}) > 1:
        counts = [f"{row.seeds} at sigma {row.logs[0].certificates.sigma:g}" for row in rows]
        raise UserError(
            f"{_together(rows).title}: an envelope takes as many seeds at each sigma, but there are "
            f"{', '.join(counts[:-1])} and {counts[-1]}; give as many runs at each"
        )


def _together(rows: Sequence[Row]) -> Row:
    log = rows[0].logs[0]
    recipe = recipe_of(log) or {}
    name = method_of(str(recipe.get("name", rows[0].run)), recipe.get("sigma"))
    return Row(f"{name} {vote_as_spoken(log)}", name, tuple(tuple(row.logs) for row in rows))
