"""Runs that differ only by seed, as one row."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from shieldwall.report.recipes_of_logs import but_for_the_seed, certified_alike, recipe_of, vote_as_spoken
from shieldwall.report.rows import Row, as_rows
from shieldwall.results.record import Log


class _Seeded(NamedTuple):
    """A log of a run, the run's name before others of that name were told apart, and its seed."""

    log: Log
    name: str
    seed: str


def average_over_seeds(logs: Sequence[Log]) -> list[Row]:
    """A row for each log, but one for the same vote of runs whose recipes differ only by seed.

    They must have been certified alike, on the same inputs. Two runs of the same seed are no sample of seeds:
    where there are two, all stay apart. A row stands where the first of its logs stood.
    """
    alike: dict[object, list[_Seeded]] = defaultdict(list)
    for log in logs:
        recipe = recipe_of(log)
        if recipe is not None:
            seeded = _Seeded(log, str(recipe.get("name", log.run)), str(recipe.get("seed")))
            alike[but_for_the_seed(recipe), log.certificates.sigma, certified_alike(log)].append(seeded)
    samples = [group for group in alike.values() if len({one.seed for one in group}) == len(group) > 1]

    folders: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for group in samples:
        folders[group[0].name].add(_folders(group))
    rows = {id(log): row for log, row in zip(logs, as_rows(logs), strict=True)}
    for group in samples:
        row = _averaged(group, told_apart=len(folders[group[0].name]) > 1)
        rows[id(group[0].log)] = row
        for one in group[1:]:
            del rows[id(one.log)]
    return list(rows.values())


def _averaged(group: Sequence[_Seeded], told_apart: bool) -> Row:
    run = f"{group[0].name} ({', '.join(_folders(group))})" if told_apart else group[0].name
    return Row(f"{run} {vote_as_spoken(group[0].log)}", run, (tuple(one.log for one in group),))


def _folders(group: Sequence[_Seeded]) -> tuple[str, ...]:
    """What runs of one name were told apart by: a and b for "digits (a)" and "digits (b)"."""
    return tuple(one.log.run.removeprefix(one.name).strip(" ()") for one in group)
