"""`shieldwall theory ...`: the paper's theory on a trained run, and its figures; verbs only, no science."""

from pathlib import Path
from typing import Annotated

import typer

from shieldwall.cli.options import DataDir, Device, NoiseSeed, RunFolder, console

app = typer.Typer(
    help="What the paper's theory says: of a trained run, of one input, and in its own figures.",
    no_args_is_help=True,
)

Radius = Annotated[
    float | None, typer.Option("--radius", help="Ask about robustness within this; by default sigma.")
]
Draws = Annotated[
    int | None, typer.Option(help="Draws of a certificate; by default the recipe's, 10,000 at most.")
]


@app.command("diagnose")
def diagnose_command(
    run: RunFolder,
    radius: Radius = None,
    attack: Annotated[
        float | None, typer.Option(help="Length of the attacks whose transfer is tried; by default 2 sigma.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws of gradients at each input.")] = 200,
    n: Draws = None,
    every: Annotated[
        int | None, typer.Option(help="Every so many test inputs; by default about 100, spread evenly.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many inputs.")] = None,
    seed: NoiseSeed = None,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Margins, gradients, ERI, transferability, and WE or MME, for a trained run.

    Every number goes to `theory/diagnosis.tsv` in the run folder, and figures beside it. The theory is of
    Gaussian noise and L2 radii.
    """
    from shieldwall.extras import require
    from shieldwall.report.diagnosis import advice, measured, shown
    from shieldwall.report.diagnosis_plots import plot_diagnosis
    from shieldwall.runs.pretrained import resolve_run
    from shieldwall.stages.diagnose import FILE, FOLDER, diagnose_run

    run = resolve_run(run, to_write=True)
    require("report", "theory diagnose")
    found = diagnose_run(
        run, r=radius, attack=attack, draws=draws, n=n, every=every, limit=limit, seed=seed,
        data_dir=data_dir, device=device, console=console,
    )  # fmt: skip
    for part in shown(found):
        console.print(part, crop=False)
    said = advice(found.inputs)
    console.print(f"\nrecommended by the theory: {said.vote}. {said.reason}.")
    console.print(f"measured: {measured(found)}.")
    plots = plot_diagnosis(found, run / FOLDER)
    console.print(f"in full: {run / FOLDER / FILE}", soft_wrap=True)
    console.print(f"figures: {', '.join(map(str, plots))}", soft_wrap=True)


@app.command("explain")
def explain_command(
    run: RunFolder,
    index: Annotated[int, typer.Option(help="The number of a test input.")],
    radius: Radius = None,
    draws: Annotated[int, typer.Option(help="Draws of gradients.")] = 2_000,
    n: Draws = None,
    seed: NoiseSeed = None,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Is the ensemble robust at this input, why, and would WE or MME serve better?

    Example: `shieldwall theory explain runs/demo --index 7`
    """
    from shieldwall.report.explanation import explanation
    from shieldwall.runs.pretrained import resolve_run
    from shieldwall.stages.diagnose import explain_run

    found = explain_run(
        resolve_run(run), index, r=radius, draws=draws, n=n, seed=seed, data_dir=data_dir, device=device
    )
    for part in explanation(found):
        console.print(part, crop=False)


@app.command("figures")
def figures_command(
    out: Annotated[Path, typer.Option(help="The folder to draw into.")] = Path("theory"),
    seed: Annotated[int, typer.Option(help="Fixes what is drawn at random.")] = 0,
) -> None:
    """Draw the paper's numerical experiments, with its settings: in under a minute on two cores.

    The ROC curve needs trained members: `shieldwall theory diagnose RUN` draws it.
    """
    from shieldwall.extras import require

    require("report", "theory figures")
    from shieldwall.theory.figures import draw_relation, draw_transferability
    from shieldwall.theory.simulate import relation, transferability

    relations, transfers = out / "relation-ensemble-robustness-params.png", out / "transferability.png"
    draw_relation(relation(), relations)
    console.print(f"fig:relation-ensemble-robustness-params: {relations}", soft_wrap=True)
    draw_transferability(transferability(seed=seed), transfers)
    console.print(f"fig:transferability: {transfers}", soft_wrap=True)
