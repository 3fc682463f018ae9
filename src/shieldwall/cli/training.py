"""`train` and `weigh`: members and their weights."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shieldwall.cli.options import DataDir, Device, RunFolder, console

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe's key, such as schedule.epochs=10."),
]
Seed = Annotated[int | None, typer.Option(help="Fixes initial weights, batches and noise.")]


def train_command(
    recipe: Annotated[str, typer.Argument(help="A recipe's name (`shieldwall recipes`) or a YAML file.")],
    out: Annotated[Path | None, typer.Option(help="The run folder; by default runs/RECIPE.")] = None,
    start: Annotated[
        Path | None, typer.Option("--from", help="Start from the trained members of this run folder.")
    ] = None,
    assignments: Set = None,
    seed: Seed = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard event files into the run folder.")
    ] = False,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Train a recipe's members into a run folder.

    Called again after an interruption, it goes on from the last epoch, to the same losses.
    Example: `shieldwall train mnist-gaussian --set sigma=1.0 --out runs/mnist-1.0`; then, with diversity
    regularisation, `shieldwall train mnist-drt-1.0 --from runs/mnist-1.0`.
    """
    from shieldwall import recipes
    from shieldwall.stages.train import train_run

    resolved = recipes.override(recipes.get(recipe), assignments or [])
    if seed is not None:
        resolved = replace(resolved, seed=seed)
    if start is not None:
        resolved = replace(resolved, start=str(start))
    folder = out if out is not None else Path("runs") / resolved.name
    run = train_run(
        resolved, folder, data_dir=data_dir, device=device, tensorboard=tensorboard, console=console
    )
    console.print(f"run folder: {run.path}", soft_wrap=True)
    if tensorboard:
        console.print(f"curves: tensorboard --logdir {run.path}", soft_wrap=True)
    console.print(f"next: shieldwall certify {run.path}", soft_wrap=True)


def weigh_command(
    run: RunFolder,
    method: Annotated[str, typer.Option(help="sween (learned) or grid (searched, step 0.1).")] = "sween",
    copies: Annotated[int, typer.Option(help="Noisy copies of each held-out image.")] = 10,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Tune the weights of the weighted vote on images kept from training.

    The run must have been trained with `--set hold_out=10` or so. Members run once; certification then
    has one more vote, `we-sween` or `we-grid`.
    """
    from shieldwall.stages.weigh import weigh_run

    table = Table("weights", "", "held-out accuracy under noise", box=None, header_style="bold")
    found = weigh_run(run, method, copies=copies, data_dir=data_dir, device=device)
    for name, (weights, accuracy) in found.items():
        table.add_row(name, " ".join(f"{weight:.3f}" for weight in weights), f"{100 * accuracy:.2f}%")
    console.print(table)
