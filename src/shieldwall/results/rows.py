"""One row of a table, one curve of a plot: a vote of a run, or several that are shown as one.

Runs that differ only by seed are averaged. Under an envelope, the runs of one method at several sigmas are
one row, A(r) = max over sigma of A_sigma(r). So the main tables of the literature are made. Sigma is chosen
for each radius, and after seeing the test inputs: no single classifier has this curve, and it lies a little
above that of the sigma that is truly best.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from shieldwall.errors import UserError, unknown_name
from shieldwall.results.certificates import Certificates, Ints
from shieldwall.results.record import Log, RunRecord
from shieldwall.vocabulary import vote_title

_NORMS = {"l1": "L1", "l2": "L2", "linf": "L-infinity"}


@dataclass(frozen=True, eq=False)
class Row:
    title: str
    run: str
    by_sigma: tuple[tuple[Log, ...], ...]
    """For each sigma, or each run of a choice, the logs that differ by seed, the same number each time."""
    over: str = "sigma"
    """What the best is chosen over, where there are several."""

    @property
    def logs(self) -> list[Log]:
        return [log for group in self.by_sigma for log in group]

    @property
    def certificates(self) -> list[Certificates]:
        return [log.certificates for log in self.logs]

    @property
    def num_inputs(self) -> int:
        """The number of inputs, the same for all certificates of the row."""
        return len(self.certificates[0])

    @property
    def num_wanted(self) -> int:
        """How many were to be certified: more than there are where a certification was interrupted."""
        return max(log.num_wanted for log in self.logs)

    @property
    def stopped_early(self) -> bool:
        """Whether sampling could stop early: the ACR is then a lower bound."""
        return any(certificates.stopped_early for certificates in self.certificates)

    @property
    def vote(self) -> str:
        return self.logs[0].vote

    @property
    def is_member(self) -> bool:
        return self.logs[0].is_member

    @property
    def is_envelope(self) -> bool:
        return len(self.by_sigma) > 1

    @property
    def seeds(self) -> int:
        """The number of seeds that are averaged, the same at every sigma."""
        return len(self.by_sigma[0])

    @property
    def combines(self) -> str:
        """What the row shows as one: "best sigma", "3 seeds", both, or nothing."""
        best = "best sigma" if self.over == "sigma" else f"best {self.over} of {len(self.by_sigma)} runs"
        parts = [best] if self.is_envelope else []
        return ", ".join([*parts, f"{self.seeds} seeds"] if self.seeds > 1 else parts)


def rows_of(
    records: Iterable[RunRecord],
    votes: Collection[str] = (),
    *,
    average_seeds: bool = True,
    best_over: Sequence[str] = (),
) -> list[Row]:
    """The rows of these runs, for all votes or the named ones, in the order they were read."""
    rows = rows_of_logs(select_votes([log for record in records for log in record.logs], votes))
    if average_seeds:
        rows = average_over_seeds(rows)
    return envelope_rows(rows, best_over) if best_over else rows


def select_votes(logs: Sequence[Log], votes: Collection[str]) -> list[Log]:
    """The logs of these votes, or all."""
    known = {log.vote for log in logs}
    for name in sorted(set(votes) - known):
        raise unknown_name("vote", name, known)
    return [log for log in logs if not votes or log.vote in votes]


def rows_of_logs(logs: Iterable[Log]) -> list[Row]:
    """Each log as a row of its own."""
    return [Row(log.title, log.run, ((log,),)) for log in logs]


def average_over_seeds(rows: Sequence[Row]) -> list[Row]:
    """Average the rows of one vote over runs whose recipes differ only by seed.

    They must have been certified with the same settings on the same inputs. If two runs have the same seed,
    none of the group is averaged. An averaged row takes the place of its first run.
    """
    by_settings: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        recipe = _recipe(row)
        if recipe is not None:
            sigma = row.certificates[0].sigma
            by_settings[seed_free_key(recipe), sigma, certification_key(row.logs[0])].append(row)
    samples = [group for group in by_settings.values() if len(group) > 1 and _have_different_seeds(group)]

    places: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for group in samples:
        places[_base(group[0])].add(_places(group))
    kept = {id(row): row for row in rows}
    for group in samples:
        base, logs = _base(group[0]), tuple(row.logs[0] for row in group)
        run = f"{base} ({', '.join(_places(group))})" if len(places[base]) > 1 else base
        kept[id(group[0])] = Row(f"{run} {vote_title(group[0].vote)}", run, (logs,))
        for row in group[1:]:
            del kept[id(row)]
    return list(kept.values())


def envelope_rows(rows: Sequence[Row], over: Sequence[str] = ("sigma",)) -> list[Row]:
    """The same as `best_rows`, of rows of which some can be joined."""
    best = best_rows(rows, over)
    if len(best) < len(rows):
        return best
    option = "--envelope" if tuple(over) == ("sigma",) else f"--best-over {','.join(over)}"
    raise UserError(
        f"{option} needs one method at two or more sigmas, or with other values of that, with one run or the "
        "same number of seeds at each sigma, certified with the same settings"
    )


def best_rows(rows: Sequence[Row], over: Sequence[str]) -> list[Row]:
    """Join the rows of one method and vote that differ in these keys, in the place of the first one.

    `over` are keys of recipes, `rho` both weights of DRT. With sigma, a method's numbers may change with it.
    """
    kept = {id(row): row for row in rows}
    for group in _choices(rows, over):
        if len({row.seeds for row in group}) > 1:
            # The best of a mean over three seeds and of a single run has neither's deviation or interval.
            counts = [f"{row.seeds} at sigma {row.certificates[0].sigma:g}" for row in group]
            raise UserError(
                f"{envelope_row(group).title}: an envelope needs the same number of seeds at each sigma; "
                f"given: {', '.join(counts[:-1])} and {counts[-1]}"
            )
        kept[id(group[0])] = envelope_row(group, ", ".join(over))
        for row in group[1:]:
            del kept[id(row)]
    return list(kept.values())


def _choices(rows: Sequence[Row], over: Sequence[str]) -> list[list[Row]]:
    """Rows by what they have in common beside these keys, where there are several."""
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        recipe = _recipe(row)
        if recipe is not None:
            method = method_key(recipe) if "sigma" in over else _without(recipe, over)
            groups[method, certification_key(row.logs[0])].append(row)
    several = [group for group in groups.values() if len(group) > 1]
    for group in several if "sigma" in over else ():
        for sigma in sigmas_of(group):
            at_sigma = [row for row in group if sigmas_of([row]) == [sigma]]
            if len({_without(_recipe(row) or {}, over) for row in at_sigma}) > 1:
                raise UserError(
                    f"{', '.join(row.run for row in at_sigma)} differ at sigma {sigma:g} in more than "
                    f"{', '.join(over)}: add it, such as --best-over rho,sigma, or show fewer runs"
                )
    return several


def _without(recipe: Mapping[str, Any], over: Sequence[str]) -> str:
    """A recipe, and those it starts from, without these keys and the seed, as text."""
    removed = {f"objective.{weight}" for weight in ("rho_gd", "rho_cm") if "rho" in over} | set(over)

    def kept(part: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        return {
            key: kept(value, f"{prefix}{key}.") if isinstance(value, Mapping) else value
            for key, value in part.items()
            if f"{prefix}{key}" not in removed
        }

    return seed_free_key({**kept(recipe), "name": method_of(str(recipe.get("name")), recipe.get("sigma"))})


def sigma_groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each method and vote with the same settings at two or more sigmas, one row at each.

    The numbers of a method, such as its learning rate and weights, may change with sigma. A method with two
    rows at one sigma has no group: its envelope would be over more than sigma.
    """
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        recipe = _recipe(row)
        if recipe is not None:
            groups[method_key(recipe), certification_key(row.logs[0])].append(row)
    return [group for group in groups.values() if 1 < len(sigmas_of(group)) == len(group)]


def envelope_row(rows: Sequence[Row], over: str = "sigma") -> Row:
    """Rows at several sigmas, or of several runs, as one."""
    recipe = _recipe(rows[0]) or {}
    name = method_of(str(recipe.get("name", rows[0].run)), recipe.get("sigma"))
    return Row(f"{name} {vote_title(rows[0].vote)}", name, tuple(tuple(row.logs) for row in rows), over)


def titles(rows: Sequence[Row]) -> list[str]:
    """The title of each row, with what it combines if the rows differ in that."""
    if len({row.combines for row in rows}) == 1:
        return [row.title for row in rows]
    return [f"{row.title} ({row.combines})" if row.combines else row.title for row in rows]


def sigmas_of(rows: Sequence[Row]) -> list[float]:
    sigmas = (certificates.sigma for row in rows for certificates in row.certificates)
    return sorted({sigma for sigma in sigmas if sigma is not None})


def shared_norm(rows: Sequence[Row]) -> str:
    """The norm in words; radii of different norms are refused."""
    if not rows:
        raise UserError("there are no logs to show")
    logs = [log for row in rows for log in row.logs]
    norm = logs[0].certificates.norm
    for log in logs:
        if log.certificates.norm != norm:
            raise UserError(
                f"radii of different norms cannot be compared: {logs[0].title} has {_NORMS[norm]} radii, "
                f"{log.title} has {_NORMS[log.certificates.norm]} radii; show one norm at a time"
            )
    return _NORMS[norm]


def incomparable_settings(rows: Sequence[Row]) -> list[str]:
    """The settings in which rows differ, so that they cannot be compared; unknown ones count as equal."""
    certificates = [certificates for row in rows for certificates in row.certificates]
    values: dict[str, Set[object]] = {
        "the inputs": {inputs_key(run) for run in certificates},
        "n": {run.max_n or run.fixed_n for run in certificates} - {None},
        "alpha": {run.alpha for run in certificates} - {None},
    }
    return [name for name, different in values.items() if len(different) > 1]


def method_of(name: str, sigma: object) -> str:
    """The name of a recipe without its sigma: mnist-drt for mnist-drt-0.25."""
    return name.removesuffix(f"-{sigma}")


def seed_free_key(recipe: Mapping[str, Any]) -> str:
    """A recipe without its seed, as text that is equal for recipes that differ only by seed.

    The recipes of the members that a run starts from count too, without their seeds; where they are not
    known, the folder that it starts from counts.
    """
    start = next((recipe[key] for key in _STARTS if key in recipe), None)
    before = [_seedless(origin) for origin in start] if isinstance(start, list) else start
    return repr([_seedless(recipe), before])


def method_key(recipe: Mapping[str, Any]) -> str:
    """The method that a recipe names and runs, on what: of the objective's numbers, only which are 0."""
    name = method_of(str(recipe.get("name")), recipe.get("sigma"))
    on = [recipe.get(key) for key in ("data", "model", "noise", "members")]
    return repr([name, on, _in_order(recipe.get("objective"), numbers=False)])


def certification_key(log: Log) -> tuple[object, ...]:
    """How a log was certified, sigma aside: equal where two logs can be shown as one."""
    run = log.certificates
    kind = (run.noise or "").partition("(")[0]
    how = (run.norm, run.fixed_n, run.max_n, run.alpha, run.precision, run.bound_kind, kind)
    return (log.vote, *how, inputs_key(run))


def inputs_key(certificates: Certificates) -> object:
    """The inputs and their right classes, equal for the same ones in any order."""
    order = by_number(certificates)
    arrays = (certificates.indices, certificates.truth)
    return tuple(None if array is None else array[order].tobytes() for array in arrays)


def by_number(certificates: Certificates) -> Ints:
    """Places of the inputs by their numbers."""
    if certificates.indices is None:
        return np.arange(len(certificates))
    return np.argsort(certificates.indices, kind="stable")


_STARTS = ("start", "init_from")


def _recipe(row: Row) -> Mapping[str, Any] | None:
    """The recipe of the row's first run as it is written; None for a log that stands alone.

    Where the run says by which recipes its first members were made, `start` holds these, not a folder.
    """
    record = row.logs[0].record
    if record is None or record.recipe_content is None:
        return None
    origins = {"start": list(record.origins)} if record.origins else {}
    return {**record.recipe_content, **origins}


def _base(row: Row) -> str:
    record = row.logs[0].record
    return row.run if record is None else record.base


def _places(rows: Sequence[Row]) -> tuple[str, ...]:
    """What differs between runs with the same name: a and b for "digits (a)" and "digits (b)"."""
    record = rows[0].logs[0].record
    if record is not None and record.varied:
        return tuple(f"{key} {value}" for key, value in record.varied.items() if key != "seed")
    return tuple(row.logs[0].record.place if row.logs[0].record else "" for row in rows)


def _have_different_seeds(rows: Sequence[Row]) -> bool:
    seeds = {str((_recipe(row) or {}).get("seed")) for row in rows}
    return len(seeds) == len(rows)


def _seedless(recipe: Mapping[str, Any]) -> object:
    return _in_order({key: value for key, value in recipe.items() if key not in ("seed", *_STARTS)})


def _in_order(part: Any, numbers: bool = True) -> object:
    """The same for the same keys and values, whatever their order; without numbers, only which are 0."""
    if isinstance(part, Mapping):
        return sorted((str(key), repr(_in_order(value, numbers))) for key, value in part.items())
    return bool(part) if isinstance(part, int | float) and not numbers else part
