"""`train` and `tune-weights`: members and their weights."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shieldwall.cli.options import DataDir, Device, RunFolder, console
from shieldwall.errors import UserError

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a key of the recipe, such as schedule.epochs=10."
    ),
]
Seed = Annotated[
    int | None, typer.Option(help="Seed of the initial weights, batches and noise; by default the recipe's.")
]


def train_command(
    recipe: Annotated[str, typer.Argument(help="A recipe's name (`shieldwall recipes`) or a YAML file.")],
    out: Annotated[Path | None, typer.Option(help="The run folder; by default runs/RECIPE.")] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", help="Start from the members of this trained run or pretrained name."),
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

    An interrupted run resumes at the last epoch and reaches the same losses.
    Example: `shieldwall train mnist-gaussian --set sigma=1.0 --out runs/mnist-1.0`; then, with diversity
    regularisation, `shieldwall train mnist-drt-1.0 --from runs/mnist-1.0`.
    """
    from shieldwall import recipes
    from shieldwall.runs.pretrained import resolve_run
    from shieldwall.runs.train import train_run

    resolved = recipes.override(recipes.get(recipe), assignments or [])
    if seed is not None:
        resolved = replace(resolved, seed=seed)
    if start is not None:
        resolved = replace(resolved, init_from=str(start))
    if resolved.init_from is not None:
        resolved = replace(resolved, init_from=str(resolve_run(resolved.init_from, to_write=True)))
    folder = out if out is not None else Path("runs") / resolved.name
    run = train_run(
        resolved, folder, data_dir=data_dir, device=device, tensorboard=tensorboard, console=console
    )
    console.print(f"run folder: {run.path}", soft_wrap=True)
    if tensorboard:
        console.print(f"curves: tensorboard --logdir {run.path}", soft_wrap=True)
    console.print(f"next: shieldwall certify {run.path}", soft_wrap=True)


def tune_weights_command(
    run: RunFolder,
    method: Annotated[
        str, typer.Option(help="sween (learned) or grid (searched in steps of 0.1).")
    ] = "sween",
    objective: Annotated[
        str,
        typer.Option(
            help="What the grid search maximises: accuracy (under noise) or certified (accuracy at --radius)."
        ),
    ] = "accuracy",
    radius: Annotated[
        float | None, typer.Option(help="The radius at which to maximise certified accuracy.")
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option(help="Noisy copies of each held-out image; by default 10, or 100 for certified."),
    ] = None,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Tune the weights of the weighted vote on images held out from training.

    The run must have been trained with `--set holdout_every=10` or similar. Certification then has one more
    vote: `we-sween`, `we-grid`, or `we-grid-0.5` for certified accuracy at radius 0.5.
    """
    from shieldwall.runs.pretrained import resolve_run
    from shieldwall.runs.tune_weights import tune_weights_run

    run = resolve_run(run, to_write=True)
    results = tune_weights_run(
        run, method, objective=objective, radius=radius, copies=copies, data_dir=data_dir, device=device
    )
    table = Table("held-out images:", "weights", "accuracy under noise", box=None, header_style="bold")
    if radius is not None:
        table.add_column(f"certified at {radius:g} (estimate)")
    for tuned in results:
        shares = [tuned.accuracy, *([] if tuned.certified is None else [tuned.certified])]
        weights = " ".join(f"{weight:.3f}" for weight in tuned.weights)
        table.add_row(tuned.name, weights, *(f"{100 * share:.2f}%" for share in shares))
    console.print(table)


ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def weigh_command(context: typer.Context) -> None:
    """The former name of `tune-weights`."""
    command = " ".join(["shieldwall tune-weights", *context.args])
    raise UserError(f"`weigh` is now called `tune-weights`; run: {command}")
