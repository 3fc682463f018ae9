"""`shieldwall theory ...`: the paper's theory on a trained run; verbs only, no science."""

from typing import Annotated

import typer

from shieldwall.cli.options import DataDir, Device, NoiseSeed, RunFolder, console

app = typer.Typer(help="What the paper's theory says about a trained run.", no_args_is_help=True)


@app.callback()
def theory() -> None:
    """What the paper's theory says about a trained run."""


@app.command("diagnose")
def diagnose_command(
    run: RunFolder,
    radius: Annotated[
        float | None, typer.Option("--radius", help="Radius r of the indicator ERI; by default sigma.")
    ] = None,
    attack: Annotated[
        float | None,
        typer.Option(help="L2 length of the attacks tried on other members; by default 2 sigma."),
    ] = None,
    draws: Annotated[int, typer.Option(help="Noise samples for the gradients at each input.")] = 200,
    n: Annotated[
        int | None,
        typer.Option(help="Noise samples of a certificate; by default the recipe's, at most 10,000."),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(help="Diagnose every N-th test input; by default about 100, spread evenly."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Diagnose at most N inputs.")] = None,
    seed: NoiseSeed = None,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Measure margins, gradients, ERI, transferability, and what the paper's corollaries predict.

    All numbers are written to `theory/diagnosis.tsv` in the run folder, and figures beside them. Only for
    runs with Gaussian noise.
    """
    from shieldwall.extras import require
    from shieldwall.files import disk_errors, write_atomic
    from shieldwall.report.diagnosis import FOLDER, diagnosis_files, diagnosis_tables
    from shieldwall.runs.diagnose import diagnose_run
    from shieldwall.runs.pretrained import resolve_run

    require("report", "theory diagnose")
    run = resolve_run(run, to_write=True)
    diagnosis = diagnose_run(
        run, r=radius, attack=attack, draws=draws, n=n, every=every, limit=limit, seed=seed,
        data_dir=data_dir, device=device, console=console,
    )  # fmt: skip
    folder, files = run / FOLDER, diagnosis_files(diagnosis)
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content)
    numbers, *figures = (folder / name for name in files)
    for part in diagnosis_tables(diagnosis):
        console.print(part, crop=False)
    console.print(f"\nall numbers: {numbers}", soft_wrap=True)
    console.print(f"figures: {', '.join(map(str, figures))}", soft_wrap=True)
