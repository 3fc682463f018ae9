"""One row of a table, one curve of a plot: a vote of a run, or several that are shown as one.

Runs that differ only by seed are averaged. An envelope shows the runs of one method at several sigmas as one
row, A(r) = max over sigma of A_sigma(r), as the main tables of the literature do. Sigma is chosen for each
radius on the test inputs, so A lies a little above that of the sigma that is truly best, and no single
classifier has it; it does not where certificates of held-out images choose.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shieldwall.errors import UserError, unknown_name
from shieldwall.recipes.recipe import dotted
from shieldwall.results.certificates import Certificates, Ints, split_call
from shieldwall.results.record import Log, RunRecord
from shieldwall.vocabulary import vote_title

_STARTS = ("start", "init_from")
NORMS = {"l1": "L1", "l2": "L2", "linf": "L-infinity"}


@dataclass(frozen=True, eq=False)
class Row:
    title: str
    run: str
    by_sigma: tuple[tuple[Log, ...], ...]  #: for each sigma, or run of a choice, the logs that differ by seed
    over: str = "sigma"  #: what the best is chosen over, where there are several
    held_out: tuple[tuple[Log, ...], ...] = ()  #: the same on held-out inputs, where these choose the best

    @property
    def logs(self) -> list[Log]:
        return [log for group in self.by_sigma for log in group]

    @property
    def certificates(self) -> list[Certificates]:
        return [log.certificates for log in self.logs]

    @property
    def num_inputs(self) -> int:
        return len(self.certificates[0])  # the same for all of the row

    @property
    def num_wanted(self) -> int:  # to be certified: more than there are where a certification was interrupted
        return max(log.num_wanted for log in self.logs)

    @property
    def stopped_early(self) -> bool:  # the ACR is then a lower bound
        return any(certificates.stopped_early for certificates in self.certificates)

    @property
    def vote(self) -> str:
        return self.logs[0].vote

    @property
    def record(self) -> RunRecord:
        return self.logs[0].record  # of the first run

    @property
    def recipe(self) -> Mapping[str, Any]:  # of the first run, as it is written; empty where there is none
        return self.record.recipe_content

    @property
    def method(self) -> str:  # the name of the recipe without its sigma, or else of the run
        return method_of(str(self.recipe.get("name", self.run)), self.recipe.get("sigma"))

    @property
    def is_member(self) -> bool:
        return self.logs[0].is_member

    @property
    def is_envelope(self) -> bool:
        return len(self.by_sigma) > 1

    @property
    def seeds(self) -> int:  # how many are averaged, as many at every sigma
        return len(self.by_sigma[0])

    @property
    def combines(self) -> str:
        """What the row shows as one: "best sigma of 3 runs", "3 seeds", both, or nothing."""
        parts = [f"best {self.over} of {len(self.by_sigma)} runs"] * self.is_envelope
        return ", ".join(parts + [f"{self.seeds} seeds"] * (self.seeds > 1))


def rows_of(
    records: Iterable[RunRecord], votes: Collection[str] = (), *, average_seeds: bool = True,
    best_over: Sequence[str] = (), held_out: Iterable[RunRecord] = (),
) -> list[Row]:  # fmt: skip
    """The rows of these runs, for all votes or the named ones, in the order they were read. The best over
    some keys is chosen by `held_out`, the runs' certificates of held-out inputs, if given."""
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
    best = envelope_rows(rows, best_over)
    choosing = {(log.record.home.parent, log.vote): log for record in held_out for log in record.logs}
    return [_chosen(row, choosing) if choosing and row.is_envelope else row for row in best]


def _chosen(row: Row, choosing: Mapping[tuple[Path, str], Log]) -> Row:
    for log in row.logs:
        if (log.record.home, log.vote) not in choosing:
            raise UserError(f"{log.record.home} has no held-out certificates of the vote {log.vote}")
    held_out = tuple(tuple(choosing[log.record.home, log.vote] for log in logs) for logs in row.by_sigma)
    if len({certification_key(log) for logs in held_out for log in logs}) > 1:
        raise UserError(f"{row.title}: the held-out certificates differ in their inputs or settings")
    return replace(row, held_out=held_out)


def average_over_seeds(rows: Sequence[Row]) -> list[Row]:
    """Average the rows of one vote over runs that differ only by seed, certified in the same way. If two have
    the same seed, none of the group is averaged."""
    groups = _groups(rows, lambda row: (recipe_key(row), row.certificates[0].sigma))
    samples = [group for group in groups if len({str(row.recipe.get("seed")) for row in group}) == len(group)]
    places = {(group[0].record.base, _place(group)) for group in samples}
    bases = Counter(base for base, _ in places)

    def mean(group: Sequence[Row]) -> Row:
        base = group[0].record.base
        run = f"{base} ({_place(group)})" if bases[base] > 1 else base
        return Row(f"{run} {vote_title(group[0].vote)}", run, (tuple(row.logs[0] for row in group),))

    return _joined(rows, samples, mean)


def envelope_rows(rows: Sequence[Row], over: Sequence[str] = ("sigma",)) -> list[Row]:
    """`best_rows` of rows of which some can be joined."""
    if len(best := best_rows(rows, over)) == len(rows):
        option = "--envelope" if tuple(over) == ("sigma",) else f"--best-over {','.join(over)}"
        rule = "with one run or the same number of seeds at each sigma, certified with the same settings"
        raise UserError(f"{option} needs one method at two or more sigmas, or other values of that, {rule}")
    return best


def best_rows(rows: Sequence[Row], over: Sequence[str]) -> list[Row]:
    """Join the rows of one method and vote that differ in these keys, in the place of the first one: keys of
    recipes, `rho` both weights of DRT. With sigma, a method's numbers may change with it."""
    groups = _groups(rows, method_key if "sigma" in over else partial(recipe_key, over=over))
    for group in groups:
        for sigma in sigmas_of(group) if "sigma" in over else ():
            at_sigma = [row for row in group if sigmas_of([row]) == [sigma]]
            if len({recipe_key(row, over) for row in at_sigma}) > 1:
                what = f"{', '.join(row.run for row in at_sigma)} differ at sigma {sigma:g} in more than"
                advice = "add it, such as --best-over rho,sigma, or show fewer runs"
                raise UserError(f"{what} {', '.join(over)}: {advice}")
        if len({row.seeds for row in group}) > 1:
            # A mean over three seeds and a single run have no deviation or interval in common.
            counts = [f"{row.seeds} at sigma {row.certificates[0].sigma:g}" for row in group]
            rule = f"{envelope_row(group).title}: an envelope needs the same number of seeds at each sigma"
            raise UserError(f"{rule}; given: {', '.join(counts[:-1])} and {counts[-1]}")
    return _joined(rows, groups, partial(envelope_row, over=", ".join(over)))


def sigma_groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each method and vote with the same settings at two or more sigmas, one row at each."""
    return [group for group in _groups(rows, method_key) if len(sigmas_of(group)) == len(group)]


def _groups(rows: Sequence[Row], key: Callable[[Row], object]) -> list[list[Row]]:
    """The rows with equal keys that were certified in the same way, where there are several."""
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        if row.recipe:
            groups[key(row), certification_key(row.logs[0])].append(row)
    return [group for group in groups.values() if len(group) > 1]


def _joined(rows: Sequence[Row], groups: Sequence[list[Row]], join: Callable[[list[Row]], Row]) -> list[Row]:
    """The rows with each group as one, in the place of its first."""
    first = {group[0]: join(group) for group in groups}
    others = {row for group in groups for row in group[1:]}
    return [first.get(row, row) for row in rows if row not in others]


def envelope_row(rows: Sequence[Row], over: str = "sigma") -> Row:
    """Rows at several sigmas, or of several runs, as one."""
    method, by_sigma = rows[0].method, tuple(tuple(row.logs) for row in rows)
    return Row(f"{method} {vote_title(rows[0].vote)}", method, by_sigma, over)


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
            radii = f"{first.title} has {norm} radii, {log.title} has {other} radii"
            raise UserError(f"radii of different norms cannot be compared: {radii}; show one norm at a time")
        if log.certificates.value_range != first.certificates.value_range:
            what = "have radii for pixels in different ranges; show those of certificates.in_unit_range()"
            raise UserError(f"{first.title} and {log.title} {what}")
    return norm


def scale_key(row: Row) -> str:  # equal where rows can stand in one table
    return f"{row.certificates[0].norm} {row.certificates[0].value_range}"


def incomparable_settings(rows: Sequence[Row]) -> list[str]:
    """The settings in which rows differ, so that they cannot be compared; unknown ones count as equal."""
    certificates = [certificates for row in rows for certificates in row.certificates]
    n, alpha = ({run.max_n or run.fixed_n for run in certificates}, {run.alpha for run in certificates})
    values = ("the inputs", {inputs_key(run) for run in certificates}), ("n", n), ("alpha", alpha)
    return [name for name, different in values if len(different - {None}) > 1]


def method_of(name: str, sigma: object) -> str:  # mnist-drt for mnist-drt-0.25
    return name.removesuffix(f"-{sigma}")


def is_drt(row: Row) -> bool:
    objective = row.recipe.get("objective")
    return isinstance(objective, Mapping) and objective.get("name") == "drt"


def recipe_key(row: Row, over: Sequence[str] = ()) -> str:
    """The row's recipe without its seed and the keys in `over`, as text that is equal for equal recipes.
    Those of the members that its run started from count too, or else the folder of these."""
    weights = ("objective.rho_gd", "objective.rho_cm") if "rho" in over else ()
    without = tuple(f"{key}." for key in ("seed", "name", *_STARTS, *over, *weights))
    parts = (row.recipe, *row.record.origins)
    folder = None if len(parts) > 1 else next((row.recipe[key] for key in _STARTS if key in row.recipe), None)
    names = [method_of(str(part.get("name")), part.get("sigma")) for part in parts]
    kept = [{k: v for k, v in dotted(part).items() if not f"{k}.".startswith(without)} for part in parts]
    return repr([folder, names, [sorted(values.items()) for values in kept]])


def method_key(row: Row) -> str:
    """The method that a recipe names and runs, on what: of the objective's numbers, only which are 0."""
    on = [row.recipe.get(key) for key in ("data", "model", "noise", "members")]
    objective = dotted({"objective": row.recipe.get("objective")})
    values = {key: bool(part) if isinstance(part, int | float) else part for key, part in objective.items()}
    return repr([row.method, on, sorted(values.items())])


def certification_key(log: Log) -> tuple[object, ...]:
    """How a log was certified, sigma aside: equal where two logs can be shown as one."""
    run = log.certificates
    kind = split_call(run.noise)[0]
    how = (run.norm, run.fixed_n, run.max_n, run.alpha, run.precision, run.bound_kind, kind)
    return (log.vote, *how, inputs_key(run))


def inputs_key(certificates: Certificates) -> object:
    """The inputs and their right classes, equal for the same ones in any order."""
    order = by_number(certificates)
    arrays = (certificates.indices, certificates.truth)
    return tuple(None if array is None else array[order].tobytes() for array in arrays)


def by_number(certificates: Certificates) -> Ints:
    """Places of the inputs by their numbers."""
    indices = certificates.indices
    return np.arange(len(certificates)) if indices is None else np.argsort(indices, kind="stable")


def _place(rows: Sequence[Row]) -> str:
    """What differs between runs with the same name: a, b for "digits (a)" and "digits (b)"."""
    if varied := rows[0].record.varied:
        return ", ".join(f"{key} {value}" for key, value in varied.items() if key != "seed")
    return ", ".join(row.record.place for row in rows)
