"""What each number was made with: recipe, commit, device, seed, n, alpha."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shieldwall.report.page.entries import Entry
from shieldwall.report.page.extras import Extras
from shieldwall.report.page.signs import NOTHING, SIGMA

HEADINGS = (
    "run", "votes", "recipe", "data", "model", SIGMA, "members", "training seed", "trained at commit",
    "trained on", "noise", "n0", "n", "alpha", "bound", "precision", "certification seed",
    "certified at commit", "certified on", "inputs", "seconds per input",
)  # fmt: skip
_SHORT_COMMIT = 10


@dataclass(frozen=True)
class Provenance:
    """Facts that hold for every number as (name, fact); those that differ as a table, a line for each run."""

    shared: list[tuple[str, str]]
    headings: list[str]
    lines: list[list[str]]


@dataclass(frozen=True)
class Source:
    """A run's recipe and environment, whole."""

    run: str
    recipe: str
    environment: str


def made_with(entries: Sequence[Entry], extras: Sequence[Extras]) -> Provenance:
    """A line for each run, or for each of its certifications where they differ."""
    votes: dict[tuple[str, ...], list[str]] = {}
    for entry, extra in zip(entries, extras, strict=True):
        votes.setdefault((entry.log.run, *_facts(entry, extra)), []).append(entry.protocol)
    lines = [[run, ", ".join(of), *facts] for (run, *facts), of in votes.items()]
    alike = [len(set(column)) == 1 for column in zip(*lines, strict=True)]
    named = list(zip(HEADINGS, lines[0], alike, strict=True))
    return Provenance(
        [(name, fact) for name, fact, same in named if same and fact != NOTHING],
        [name for name, _, same in named if not same],
        [[fact for fact, same in zip(line, alike, strict=True) if not same] for line in lines],
    )


def sources(entries: Sequence[Entry]) -> list[Source]:
    """The recipe and the environment of each run that has them."""
    folders = {entry.log.run: entry.folder for entry in entries if entry.folder}
    return [
        Source(
            run, (folder / "recipe.yaml").read_text(encoding="utf-8", errors="replace"), _environment(folder)
        )
        for run, folder in folders.items()
    ]


def _facts(entry: Entry, extra: Extras) -> list[str]:
    log, recipe, stages = entry.log, entry.recipe, _stages(entry)
    n = f"up to {log.most_draws:,}" if log.most_draws else "" if log.n is None else f"{log.n:,}"
    if log.n is None and log.mean_draws is not None:
        n = f"{n + ', ' if n else ''}{log.mean_draws:,.0f} on average"
    facts: list[object] = [
        recipe and recipe.name, recipe and recipe.data, recipe and recipe.model, entry.sigma,
        recipe and recipe.members, recipe and str(recipe.seed), *_where(stages.get("train")),
        log.noise, extra.n0, n, None if log.alpha is None else f"{log.alpha:g}", log.bound, log.precision,
        extra.seed, *_where(stages.get("certify")), f"{len(log.idx):,}",
        None if extra.seconds is None else f"{extra.seconds:.3g}",
    ]  # fmt: skip
    return [str(fact) if fact else NOTHING for fact in facts]


def _where(stage: Any) -> tuple[str | None, str | None]:
    """The commit, shortened but for the mark of a changed checkout, and the device."""
    if not isinstance(stage, dict):
        return None, None
    commit, _, changed = str(stage.get("commit") or "").partition(" ")
    return " ".join(filter(None, [commit[:_SHORT_COMMIT], changed])), str(stage.get("device") or "")


def _stages(entry: Entry) -> dict[str, Any]:
    path = entry.folder / "environment.json" if entry.folder else None
    if path is None or not path.is_file():
        return {}
    try:
        stages = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return stages if isinstance(stages, dict) else {}


def _environment(folder: Path) -> str:
    path = folder / "environment.json"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
