"""One row of a table, one curve of a plot: a vote of a run, or several that are shown as one.

Runs that differ only by seed are averaged. An envelope shows the runs of one method at several sigmas as one
row, A(r) = max over sigma of A_sigma(r), as the main tables of the literature do. Sigma is chosen for each
radius on the test inputs: no single classifier has this curve, and it lies a little above that of the sigma
that is truly best. It does not where certificates of held-out images choose.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shieldwall.errors import UserError, unknown_name
from shieldwall.results.certificates import Certificates, Ints
from shieldwall.results.record import Log, RunRecord
from shieldwall.vocabulary import vote_title

_STARTS = ("start", "init_from")
NORMS = {"l1": "L1", "l2": "L2", "linf": "L-infinity"}


@dataclass(frozen=True, eq=False)
class Row:
    title: str
    run: str
    by_sigma: tuple[tuple[Log, ...], ...]
    """For each sigma, or each run of a choice, the logs that differ by seed, the same number each time."""
    over: str = "sigma"
    """What the best is chosen over, where there are several."""
    held_out: tuple[tuple[Log, ...], ...] = ()
    """The same on held-out inputs, where these choose the best."""

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
    def record(self) -> RunRecord:
        """What the row's first run says."""
        return self.logs[0].record

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
        best = f"best {self.over} of {len(self.by_sigma)} runs"
        parts = [best] if self.is_envelope else []
        return ", ".join([*parts, f"{self.seeds} seeds"] if self.seeds > 1 else parts)


def rows_of(
    records: Iterable[RunRecord],
    votes: Collection[str] = (),
    *,
    average_seeds: bool = True,
    best_over: Sequence[str] = (),
    held_out: Iterable[RunRecord] = (),
) -> list[Row]:
    """The rows of these runs, for all votes or the named ones, in the order they were read.

    The best over some keys is chosen by `held_out`, the runs' certificates of held-out inputs, if given.
    """
    logs = [log for record in records for log in record.logs]
    known = {log.vote for log in logs}
    for name in sorted(set(votes) - known):
        raise unknown_name("vote", name, known)
    # A file of another tool does not say its vote, so it is always shown.
    shown = [log for log in logs if not votes or log.vote in votes or not log.record.is_run]
    rows = [Row(log.title, log.run, ((log,),)) for log in shown]
    if average_seeds:
        rows = average_over_seeds(rows)
    if not best_over:
        return rows
    choosing = {(each.home.parent, log.vote): log for each in held_out for log in each.logs}
    best = envelope_rows(rows, best_over)
    return [_chosen(row, choosing) if choosing and row.is_envelope else row for row in best]


def _chosen(row: Row, choosing: Mapping[tuple[Path, str], Log]) -> Row:
    """The row with the certificates that choose its best."""
    for home, vote in ((log.record.home, log.vote) for log in row.logs):
        if (home, vote) not in choosing:
            raise UserError(f"{home} has no held-out certificates of the vote {vote}")
    held_out = tuple(tuple(choosing[log.record.home, log.vote] for log in logs) for logs in row.by_sigma)
    if len({certification_key(log) for logs in held_out for log in logs}) > 1:
        raise UserError(f"{row.title}: the held-out certificates differ in their inputs or settings")
    return replace(row, held_out=held_out)


def average_over_seeds(rows: Sequence[Row]) -> list[Row]:
    """Average the rows of one vote over runs whose recipes differ only by seed.

    They must have been certified with the same settings on the same inputs. If two runs have the same seed,
    none of the group is averaged. An averaged row takes the place of its first run.
    """
    groups = _groups(rows, lambda row: (recipe_key(row), row.certificates[0].sigma))
    samples = [
        group for group in groups if len({str(_recipe(row).get("seed")) for row in group}) == len(group)
    ]
    places: dict[str, set[str]] = defaultdict(set)
    for group in samples:
        places[group[0].record.base].add(_place(group))

    def mean(group: Sequence[Row]) -> Row:
        run = group[0].record.base
        if len(places[run]) > 1:
            run = f"{run} ({_place(group)})"
        return Row(f"{run} {vote_title(group[0].vote)}", run, (tuple(row.logs[0] for row in group),))

    return _joined(rows, samples, mean)


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
    groups = _groups(rows, method_key if "sigma" in over else partial(recipe_key, over=over))
    for group in groups:
        for sigma in sigmas_of(group) if "sigma" in over else ():
            at_sigma = [row for row in group if sigmas_of([row]) == [sigma]]
            if len({recipe_key(row, over) for row in at_sigma}) > 1:
                raise UserError(
                    f"{', '.join(row.run for row in at_sigma)} differ at sigma {sigma:g} in more than "
                    f"{', '.join(over)}: add it, such as --best-over rho,sigma, or show fewer runs"
                )
        if len({row.seeds for row in group}) > 1:
            # A mean over three seeds and a single run have no deviation or interval in common.
            counts = [f"{row.seeds} at sigma {row.certificates[0].sigma:g}" for row in group]
            raise UserError(
                f"{envelope_row(group).title}: an envelope needs the same number of seeds at each sigma; "
                f"given: {', '.join(counts[:-1])} and {counts[-1]}"
            )
    return _joined(rows, groups, partial(envelope_row, over=", ".join(over)))


def sigma_groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each method and vote with the same settings at two or more sigmas, one row at each.

    The numbers of a method, such as its learning rate and weights, may change with sigma. A method with two
    rows at one sigma has no group: its envelope would be over more than sigma.
    """
    return [group for group in _groups(rows, method_key) if len(sigmas_of(group)) == len(group)]


def _groups(rows: Sequence[Row], key: Callable[[Row], object]) -> list[list[Row]]:
    """The rows with equal keys that were certified in the same way, where there are several."""
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        if _recipe(row):
            groups[key(row), certification_key(row.logs[0])].append(row)
    return [group for group in groups.values() if len(group) > 1]


def _joined(
    rows: Sequence[Row], groups: Sequence[Sequence[Row]], join: Callable[[Sequence[Row]], Row]
) -> list[Row]:
    """The rows with each group as one, in the place of its first."""
    first = {group[0]: join(group) for group in groups}
    others = {row for group in groups for row in group[1:]}
    return [first.get(row, row) for row in rows if row not in others]


def envelope_row(rows: Sequence[Row], over: str = "sigma") -> Row:
    """Rows at several sigmas, or of several runs, as one."""
    name = _method({"name": rows[0].run, **_recipe(rows[0])})
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
    first, *logs = [log for row in rows for log in row.logs]
    norm = NORMS[first.certificates.norm]
    for log in logs:
        if (other := NORMS[log.certificates.norm]) != norm:
            raise UserError(
                f"radii of different norms cannot be compared: {first.title} has {norm} radii, "
                f"{log.title} has {other} radii; show one norm at a time"
            )
        if log.certificates.value_range != first.certificates.value_range:
            raise UserError(
                f"{first.title} and {log.title} have radii for pixels in different ranges; show those of "
                "certificates.in_unit_range()"
            )
    return norm


def scale_key(row: Row) -> str:
    """The norm of the radii and the range of pixels: equal where rows can stand in one table."""
    return f"{row.certificates[0].norm} {row.certificates[0].value_range}"


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


def _recipe(row: Row) -> Mapping[str, Any]:
    """The recipe of the row's first run as it is written; empty for a log that stands alone."""
    return row.record.recipe_content or {}


def is_drt(row: Row) -> bool:
    """Whether its members were trained by DRT."""
    objective = _recipe(row).get("objective")
    return isinstance(objective, Mapping) and objective.get("name") == "drt"


def recipe_key(row: Row, over: Sequence[str] = ()) -> str:
    """The row's recipe without its seed and the keys in `over`, as text that is equal for equal recipes.

    The recipes of the members that its run started from count too, without the same keys; where they are not
    known, the folder that it started from counts.
    """
    weights = ("objective.rho_gd", "objective.rho_cm") if "rho" in over else ()
    without = {"seed", "name", *_STARTS, *over, *weights}
    recipe, origins = _recipe(row), row.record.origins
    folder = None if origins else next((recipe[key] for key in _STARTS if key in recipe), None)
    return repr([folder, *((_method(part), _in_order(part, without)) for part in (recipe, *origins))])


def method_key(row: Row) -> str:
    """The method that a recipe names and runs, on what: of the objective's numbers, only which are 0."""
    recipe = _recipe(row)
    on = [recipe.get(key) for key in ("data", "model", "noise", "members")]
    return repr([_method(recipe), on, _in_order(recipe.get("objective"), numbers=False)])


def _method(recipe: Mapping[str, Any]) -> str:
    return method_of(str(recipe.get("name")), recipe.get("sigma"))


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


def _place(rows: Sequence[Row]) -> str:
    """What differs between runs with the same name: a, b for "digits (a)" and "digits (b)"."""
    if varied := rows[0].record.varied:
        return ", ".join(f"{key} {value}" for key, value in varied.items() if key != "seed")
    return ", ".join(row.record.place for row in rows)


def _in_order(part: Any, without: Set[str] = frozenset(), prefix: str = "", *, numbers: bool = True) -> str:
    """A part of a recipe as text, whatever the order of its keys; without numbers, only which are 0."""
    if isinstance(part, Mapping):
        named = {f"{prefix}{key}": value for key, value in part.items()}
        kept = sorted(named.keys() - without)
        return repr([(key, _in_order(named[key], without, f"{key}.", numbers=numbers)) for key in kept])
    return repr(bool(part) if isinstance(part, int | float) and not numbers else part)
