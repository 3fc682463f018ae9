"""What is said below a table: how its numbers were made, and where they do not compare."""

from collections.abc import Callable, Sequence

from shieldwall.report.comparable import what_differs
from shieldwall.report.envelopes import sigmas_of
from shieldwall.report.rows import Row, as_rows
from shieldwall.results.record import Log

STOPPED_EARLY = "sampling stopped early: n draws might certify larger radii, and so a larger ACR"
_NOISE = {"exact-gaussian": "exact Gaussian", "laplace": "Laplace"}
_BOUNDS_OF_MEMBERS = {
    "after-smoothing": "one-sided",
    "after-smoothing-two-sided": "two-sided",
    "after-smoothing-sequential": "sequential",
}
"""Ensemble-after-smoothing bounds every member by itself, in one of these ways."""


def notes(shown: Sequence[Log | Row], *, intervals: bool = False) -> list[str]:
    """What holds for all of the logs, what is meant by a margin, and a warning where they do not compare."""
    rows = as_rows(shown)
    logs = [log for row in rows for log in row.logs]
    said = [", ".join(shared for fact in _FACTS if (shared := _shared([fact(log) for log in logs])))]
    if differing := what_differs(logs):
        *others, last = differing
        named = f"{', '.join(others)} and {last}" if others else last
        verb = "differs" if differing in (["n"], ["alpha"]) else "differ"
        said.append(f"warning: {named} {verb} from log to log, so the rows do not compare")
    if any(log.certificates.max_n is not None for log in logs):
        said.append(STOPPED_EARLY)
    said += [_envelopes([row for row in rows if row.is_envelope])]
    said += [_intervals(rows)] if intervals else [_deviations([row for row in rows if row.seeds > 1])]
    return [line for line in said if line]


def _envelopes(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    found = sigmas_of(rows)
    alike = all(sigmas_of([row]) == found for row in rows)
    of = f"sigma {', '.join(f'{sigma:g}' for sigma in found)}" if alike else "the sigmas that were run"
    what = f"best sigma: at each radius the best of {of}, chosen on these inputs"
    return f"{what}; no one classifier has them all"


def _deviations(rows: Sequence[Row]) -> str:
    return f"mean ± standard deviation over {_seeds(rows)}" if rows else ""


def _intervals(rows: Sequence[Row]) -> str:
    """Which intervals these are: formulas in `report.intervals` and `report.estimates`."""
    averaged = [row for row in rows if row.seeds > 1]
    said = "over inputs (accuracy: Clopper-Pearson, ACR: Student's t)"
    if averaged:
        where = "" if len(averaged) == len(rows) else ", where averaged,"
        said += f" and{where} over {_seeds(averaged)} (Student's t; the squares of both widths add up)"
    at_once = ", for all sigmas at once (Bonferroni)" if any(row.is_envelope for row in rows) else ""
    return f"in brackets: the 95% interval {said}{at_once}"


def _seeds(rows: Sequence[Row]) -> str:
    fewest, most = min(row.seeds for row in rows), max(row.seeds for row in rows)
    return f"{fewest} seeds" if fewest == most else f"{fewest} to {most} seeds"


def _shared(texts: Sequence[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else ""


def _inputs(log: Log) -> str:
    return f"{len(log.certificates):,} inputs"


def _draws(log: Log) -> str:
    if log.certificates.max_n is not None:
        return f"n up to {log.certificates.max_n:,}"
    return "" if log.certificates.fixed_n is None else f"n = {log.certificates.fixed_n:,}"


def _mean_draws(log: Log) -> str:
    vary = log.certificates.max_n is not None or log.certificates.fixed_n is None
    return (
        f"{log.certificates.mean_n:,.0f} draws on average"
        if vary and log.certificates.mean_n is not None
        else ""
    )


def _alpha(log: Log) -> str:
    return "" if log.certificates.alpha is None else f"alpha = {log.certificates.alpha:g}"


def _sigma(log: Log) -> str:
    return "" if log.certificates.sigma is None else f"sigma = {log.certificates.sigma:g}"


def _noise(log: Log) -> str:
    kind = (log.certificates.noise or "gaussian").partition("(")[0]
    if log.certificates.sigma is None and kind != "gaussian":
        return f"noise {log.certificates.noise}"
    return "" if kind == "gaussian" else f"{_NOISE.get(kind, kind)} noise"


def _precision(log: Log) -> str:
    return "" if log.certificates.precision in (None, "float32") else f"{log.certificates.precision}"


def _bound(log: Log) -> str:
    kind = _BOUNDS_OF_MEMBERS.get(log.certificates.bound_kind or "", log.certificates.bound_kind)
    return "" if kind in (None, "one-sided") else f"{kind} bound"


_FACTS: tuple[Callable[[Log], str], ...] = (
    _inputs,
    _draws,
    _mean_draws,
    _alpha,
    _sigma,
    _noise,
    _precision,
    _bound,
)
"""What a log was made with, in words; nothing where the log does not say, or where it is the usual."""
