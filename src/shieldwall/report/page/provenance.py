"""The origin of each number: recipe, commit, device, seed, n, alpha."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shieldwall.report.page.curves import NOTHING, SIGMA, Curve

_SHORT_COMMIT = 10


class Provenance(NamedTuple):
    """Facts that hold for every number as (name, fact); those that differ as a table, a line for each run."""

    shared: list[tuple[str, str]]
    headings: list[str]
    lines: list[list[str]]


def made_with(curves: Sequence[Curve]) -> Provenance:
    """A line for each run, or for each of its certifications where they differ."""
    votes: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for curve in curves:
        votes.setdefault(tuple(_facts(curve).items()), []).append(curve.protocol)
    lines = [{**dict(facts), "votes": ", ".join(of)} for facts, of in votes.items()]
    same = {name: fact for name, fact in lines[0].items() if all(line[name] == fact for line in lines)}
    different = [name for name in lines[0] if name not in same]
    return Provenance(
        [(name, fact) for name, fact in same.items() if fact != NOTHING],
        different,
        [[line[name] for name in different] for line in lines],
    )


def _facts(curve: Curve) -> dict[str, str]:
    run, recipe, stages = curve.row.certificates[0], curve.row.record.recipe, curve.row.record.environment
    n = f"up to {run.max_n:,}" if run.max_n else "" if run.fixed_n is None else f"{run.fixed_n:,}"
    if run.fixed_n is None and run.mean_n is not None:
        n = f"{n + ', ' if n else ''}{run.mean_n:,.0f} on average"
    done, wanted = len(run), curve.row.num_wanted
    (trained_at, trained_on), (certified_at, certified_on) = (
        _where(stages.get(stage, {})) for stage in ("train", "certify")
    )
    facts: dict[str, object] = {
        "run": curve.row.run, "votes": None, "recipe": recipe and recipe.name, "data": recipe and recipe.data,
        "model": recipe and recipe.model, SIGMA: curve.sigma, "members": recipe and recipe.members,
        "training seed": recipe and recipe.seed, "trained at commit": trained_at, "trained on": trained_on,
        "noise": run.noise, "n0": run.n0, "n": n, "alpha": None if run.alpha is None else f"{run.alpha:g}",
        "bound": run.bound_kind, "precision": run.precision, "certification seed": run.seed,
        "certified at commit": certified_at, "certified on": certified_on,
        "inputs": f"{done:,}" if done == wanted else f"{done:,} of {wanted:,}",
        "seconds per input": None if run.seconds is None else f"{run.seconds.mean():.3g}",
    }  # fmt: skip
    return {name: NOTHING if fact in (None, "") else str(fact) for name, fact in facts.items()}


def _where(stage: Mapping[str, Any]) -> tuple[str, str]:
    """The commit, shortened but for the mark of a changed checkout, and the device."""
    commit, _, changed = str(stage.get("commit") or "").partition(" ")
    return " ".join(filter(None, [commit[:_SHORT_COMMIT], changed])), str(stage.get("device") or "")
