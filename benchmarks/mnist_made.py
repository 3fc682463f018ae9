"""How the numbers of the MNIST page were made: the protocol, a training step's cost, one line per file."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from mnist_files import HOLD_OUT, SIGMAS, TEST_IMAGES, TRAINING_IMAGES, Measured, Results
from mnist_words import HOURS, NOT_MEASURED
from paper_comparison import DASH, markdown_table

from shieldwall import recipes
from shieldwall.recipes import Recipe

IMAGES = TRAINING_IMAGES - TRAINING_IMAGES // HOLD_OUT
"""Those that a run is trained on."""
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
    if len(ways) == 1:
        return f"{next(iter(ways))}. The same for all {len(results.runs)} files."
    return "\n".join(f"- {way}: {', '.join(names)}" for way, names in ways.items())


def efficiency(results: Results) -> str:
    """Milliseconds of a training step, ours and the paper's, and either relative to DRT's, where measured."""
    measured = results.steps
    if measured is None:
        return ""
    ours: dict[str, float] = measured["milliseconds"]
    lines = []
    for row, label in STEPS.items():
        theirs = PAPER_SECONDS.get(row)
        if row in ours:
            lines.append(
                [
                    label,
                    f"{ours[row]:,.2f}",
                    _ratio(ours[row], ours.get("drt")),
                    DASH if theirs is None else f"{1000 * theirs:,.0f}",
                    _ratio(theirs, PAPER_SECONDS["drt"]),
                ]
            )
    head = ["", "ms per mini-batch", "relative to DRT", "paper, ms", "paper, relative to DRT"]
    return (
        f"{markdown_table(head, lines)}\n\nThe paper's: mini-batches of 256 on one GTX 1080 Ti. "
        f"Ours: {measured['device']}, {measured['date']}, commit {_short(measured['commit'])}."
    )


def not_measured(results: Results) -> str:
    """What is still to be measured, once: its cost, and the command for it."""
    if not results.missing:
        return ""
    times = results.steps or {"milliseconds": {}}
    lines = []
    for row, sigmas in results.missing.items():
        plans = [recipes.get(f"mnist-{row}-{sigma}") for sigma in sigmas]
        steps = [_steps(plan) for plan in plans]
        milliseconds = times["milliseconds"].get(row)
        images = sum(plan.schedule.epochs for plan in plans) * IMAGES
        hours = DASH if milliseconds is None else f"{images / 256 * milliseconds / 3_600_000:.1f}"
        some = "" if len(sigmas) == len(SIGMAS) else f" --sigmas {','.join(map(str, sigmas))}"
        lines.append(
            [
                row,
                " / ".join(f"{sigma:g}" for sigma in sigmas),
                _each([str(plan.schedule.epochs) for plan in plans]),
                _each([str(plan.schedule.batch_size) for plan in plans]),
                _each([f"{count:,}" for count in steps]),
                *([hours] if times["milliseconds"] else []),
                f"`python benchmarks/mnist.py {row}{some}`",
            ]
        )
    head = ["row", "sigma", "epochs", "batch", "steps of training"]
    head += [f"hours of training, {times['device']}"] if times["milliseconds"] else []
    plan = recipes.get(f"mnist-gaussian-{SIGMAS[0]}")
    certified = plan.certification
    passes = TEST_IMAGES // certified.every * (certified.n0 + certified.n) * plan.members
    words = NOT_MEASURED.format(images=f"{IMAGES:,}", passes=f"{passes / 1e6:.0f}")
    words += f"\n{HOURS}" if times["milliseconds"] else ""
    return f"{words}\n\n{markdown_table([*head, 'command'], lines, align=':--')}"


def _each(texts: Sequence[str]) -> str:
    """One for each sigma, or one for all of them where it is the same."""
    return " / ".join(texts if len(set(texts)) > 1 else texts[:1])


def _steps(recipe: Recipe) -> int:
    """Updates in the training of a run with held-out images."""
    return recipe.schedule.epochs * -(-IMAGES // recipe.schedule.batch_size)


def made(results: Results) -> str:
    """One line per file."""
    head = [
        "file", "recipe", "rho_gd, rho_cm", "epochs", "lr", "from", "held out", "seed", "inputs", "n0 + n",
        "trained", "certified", "commit", "device", "weights",
    ]  # fmt: skip
    return markdown_table(head, (_made(run) for run in results.runs.values()), align=":--")


def _made(run: Measured) -> list[str]:
    recipe, settings = run.recipe, run.settings
    rho = [recipe.objective.get(key) for key in ("rho_gd", "rho_cm")]
    start = DASH if recipe.init_from is None else recipe.init_from.rstrip("/").rpartition("/")[2]
    return [
        f"`{run.name}`",
        f"`{recipe.name}`",
        DASH if rho == [None, None] else f"{rho[0]:g}, {rho[1]:g}",
        str(recipe.schedule.epochs),
        f"{recipe.schedule.lr:g}",
        start,
        f"1 in {recipe.holdout_every}" if recipe.holdout_every else DASH,
        str(recipe.seed),
        _inputs(run),
        f"{settings['n0']:,} + {settings['n']:,}",
        *(str(run.environment.get(stage, {}).get("date") or DASH)[:10] for stage in ("train", "certify")),
        _of_stages(run, "commit"),
        _of_stages(run, "device"),
        f"`{str(settings['members_sha256'])[:12]}`",
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


def _ratio(value: float | None, base: float | None) -> str:
    return DASH if value is None or base is None else f"{value / base:.2f}"
