"""The origin of each number: recipe, commit, device, seed, n, alpha."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shieldwall.report.page.curves import NOTHING, SIGMA, Curve

HEADINGS = (
    "run", "votes", "recipe", "data", "model", SIGMA, "members", "training seed", "trained at commit",
    "trained on", "noise", "n0", "n", "alpha", "bound", "precision", "certification seed",
    "certified at commit", "certified on", "inputs", "seconds per input",
)  # fmt: skip
_SHORT_COMMIT = 10


class Provenance(NamedTuple):
    """Facts that hold for every number as (name, fact); those that differ as a table, a line for each run."""

    shared: list[tuple[str, str]]
    headings: list[str]
    lines: list[list[str]]


def made_with(curves: Sequence[Curve]) -> Provenance:
    """A line for each run, or for each of its certifications where they differ."""
    votes: dict[tuple[str, ...], list[str]] = {}
    for curve in curves:
        votes.setdefault((curve.row.run, *_facts(curve)), []).append(curve.protocol)
    lines = [[run, ", ".join(of), *facts] for (run, *facts), of in votes.items()]
    shared = [len(set(column)) == 1 for column in zip(*lines, strict=True)]
    named = list(zip(HEADINGS, lines[0], shared, strict=True))
    return Provenance(
        [(name, fact) for name, fact, same in named if same and fact != NOTHING],
        [name for name, _, same in named if not same],
        [[fact for fact, same in zip(line, shared, strict=True) if not same] for line in lines],
    )


def _facts(curve: Curve) -> list[str]:
    certificates, recipe, stages = (
        curve.row.certificates[0],
        curve.row.record.recipe,
        curve.row.record.environment,
    )
    max_n, fixed_n, mean_n = certificates.max_n, certificates.fixed_n, certificates.mean_n
    n = f"up to {max_n:,}" if max_n else "" if fixed_n is None else f"{fixed_n:,}"
    if fixed_n is None and mean_n is not None:
        n = f"{n + ', ' if n else ''}{mean_n:,.0f} on average"
    seconds = None if certificates.seconds is None else f"{certificates.seconds.mean():.3g}"
    alpha = None if certificates.alpha is None else f"{certificates.alpha:g}"
    done, wanted = len(certificates), curve.row.num_wanted
    facts: list[object] = [
        recipe and recipe.name, recipe and recipe.data, recipe and recipe.model, curve.sigma,
        recipe and recipe.members, recipe and recipe.seed, *_where(stages.get("train", {})),
        certificates.noise, certificates.n0, n, alpha, certificates.bound_kind, certificates.precision,
        certificates.seed, *_where(stages.get("certify", {})),
        f"{done:,}" if done == wanted else f"{done:,} of {wanted:,}", seconds,
    ]  # fmt: skip
    return [NOTHING if fact in (None, "") else str(fact) for fact in facts]


def _where(stage: Mapping[str, Any]) -> tuple[str, str]:
    """The commit, shortened but for the mark of a changed checkout, and the device."""
    commit, _, changed = str(stage.get("commit") or "").partition(" ")
    return " ".join(filter(None, [commit[:_SHORT_COMMIT], changed])), str(stage.get("device") or "")
