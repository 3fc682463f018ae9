"""How the numbers of the MNIST page were made: the protocol, a training step's cost, one line per file."""

from collections import defaultdict
from typing import Any

from mnist_files import Measured, Results

from shieldwall.report.comparison import DASH, NOT_MEASURED, markdown_table

PAPER_SECONDS = {"drt": 1.04, "smoothadv": 1.86, "drt-smoothadv": 2.52}
"""Per mini-batch of 256 on a GTX 1080 Ti, adx-subsec:mnist."""
STEPS = {
    "gaussian": "Gaussian", "drt": "DRT (Gaussian)",
    "smoothadv": "SmoothAdv", "drt-smoothadv": "DRT (SmoothAdv)",
}  # fmt: skip


def protocol(results: Results) -> str:
    """How the files were certified, as they say themselves; where they disagree, each way with its files."""
    ways: dict[str, list[str]] = defaultdict(list)
    for run in results.runs.values():
        ways[_way(run)].append(run.name)
    if not ways:
        return "No run is measured yet."
    if len(ways) == 1:
        return f"{next(iter(ways))}. The same for all {len(results.runs)} files."
    return "\n".join(f"- {way}: {', '.join(names)}" for way, names in ways.items())


def efficiency(results: Results) -> str:
    """Milliseconds of a training step, ours and the paper's, and either relative to DRT's."""
    measured = results.steps
    ours: dict[str, float] = measured["milliseconds"] if measured else {}
    lines = []
    for row, label in STEPS.items():
        theirs = PAPER_SECONDS.get(row)
        lines.append(
            [
                label if row in ours else f"{label}: {NOT_MEASURED}",
                _number(ours.get(row), 2),
                _ratio(ours.get(row), ours.get("drt")),
                _number(None if theirs is None else 1000 * theirs, 0),
                _ratio(theirs, PAPER_SECONDS["drt"]),
            ]
        )
    head = ["", "ms per mini-batch", "relative to DRT", "paper, ms", "paper, relative to DRT"]
    table = f"{markdown_table(head, lines)}\n\nThe paper's: mini-batches of 256 on one GTX 1080 Ti."
    if measured is None:
        return table
    return f"{table} Ours: {measured['device']}, {measured['date']}, commit {_short(measured['commit'])}."


def made(results: Results) -> str:
    """One line per file."""
    head = [
        "file", "recipe", "rho_gd, rho_cm", "epochs", "lr", "from", "held out", "seed", "inputs", "n0 + n",
        "trained", "certified", "commit", "device", "weights",
    ]  # fmt: skip
    if not results.runs:
        return "No run is measured yet."
    return markdown_table(head, (_made(run) for run in results.runs.values()), align=":--")


def _made(run: Measured) -> list[str]:
    recipe, settings = run.recipe, run.settings
    rho = [recipe.objective.get(key) for key in ("rho_gd", "rho_cm")]
    start = DASH if recipe.start is None else recipe.start.rstrip("/").rpartition("/")[2]
    return [
        f"`{run.name}`",
        f"`{recipe.name}`",
        DASH if rho == [None, None] else f"{rho[0]:g}, {rho[1]:g}",
        str(recipe.schedule.epochs),
        f"{recipe.schedule.lr:g}",
        start,
        f"1 in {recipe.hold_out}" if recipe.hold_out else DASH,
        str(recipe.seed),
        _inputs(run),
        f"{settings['n0']:,} + {settings['n']:,}",
        *(str(run.environment.get(stage, {}).get("date") or DASH)[:10] for stage in ("train", "certify")),
        _of_stages(run, "commit"),
        _of_stages(run, "device"),
        f"`{str(settings['weights'])[:12]}`",
    ]


def _way(run: Measured) -> str:
    settings = run.settings
    every = settings["every"]
    images = "Every test image" if every == 1 else f"Every {every}th test image"
    return (
        f"{images} ({_inputs(run)}), n0 = {settings['n0']:,}, n = {settings['n']:,}, "
        f"alpha = {settings['alpha']:g}, {settings['bound']} bound, "
        f"{settings['norm'].upper()} radii, {settings['precision']}"
    )


def _inputs(run: Measured) -> str:
    log = next((log for vote in ("we", "member-1") if (log := run.log(vote)) is not None), None)
    return DASH if log is None else f"{len(log.certificates):,}"


def _of_stages(run: Measured, key: str) -> str:
    """What training and certification were made with, once where it is the same."""
    found = [run.environment.get(stage, {}).get(key) for stage in ("train", "certify")]
    texts = [_short(text) if key == "commit" else str(text) for text in found if text is not None]
    return ", then ".join(dict.fromkeys(texts)) or DASH


def _short(commit: Any) -> str:
    name, _, changed = str(commit).partition(" ")
    return f"{name[:7]} {changed}".strip()


def _number(value: float | None, decimals: int) -> str:
    return DASH if value is None else f"{value:,.{decimals}f}"


def _ratio(value: float | None, base: float | None) -> str:
    return DASH if value is None or base is None else f"{value / base:.2f}"
