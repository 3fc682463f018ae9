"""Studies: `study list`, `study show`, `study run` and `study report`."""

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from shieldwall.cli.options import DataDir, Device, console, numbers

if TYPE_CHECKING:
    from shieldwall.studies.steps import Places, Step
    from shieldwall.studies.study import Study

study_app = typer.Typer(
    help="Sets of runs: every table and figure of the paper, or a YAML file of your own.",
    no_args_is_help=True,
)
Name = Annotated[str, typer.Argument(help="A study's name (`shieldwall study list`) or a YAML file.")]
Rows = Annotated[
    str, typer.Option(help="Only the rows that match, such as 'drt*', and what they start from.")
]
Sigma = Annotated[str, typer.Option(help="Only these sigmas, such as 0.5,1.0.")]
Scale = Annotated[
    str, typer.Option(help="A share of the epochs, inputs and draws, such as 0.1; `tiny` to try it out.")
]
Runs = Annotated[
    list[Path] | None,
    typer.Option("--runs", help="Folder with runs, made by a study or by hand; new ones go to the first."),
]


@study_app.command("list")
def list_command() -> None:
    """List the studies."""
    from shieldwall.studies import study

    table = Table("study", "runs", "what it is", box=None, header_style="bold", pad_edge=False)
    for name in study.names():
        known = study.get(name)
        table.add_row(name, str(len(known.runs)), known.summary)
    console.print(table)


@study_app.command("show")
def show_command(
    name: Name,
    rows: Rows = "*",
    sigma: Sigma = "",
    scale: Scale = "1",
    runs: Runs = None,
    cost: Annotated[
        bool, typer.Option("--cost/--no-cost", help="Time one step of each kind on this machine, once.")
    ] = True,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Show a study's rows and steps: done, running, failed or missing, and what is left to pay."""
    from shieldwall.studies.local import to_do
    from shieldwall.studies.steps import KINDS, steps_of

    study, places = _opened(name, rows, sigma, scale, runs, data_dir)
    steps = steps_of(study)
    hours = hours_of(to_do(steps, places), places, device) if cost else {}
    of_run: dict[str, dict[str, Step]] = {}
    for step in steps:
        of_run.setdefault(step.run.key, {})[step.kind] = step
    table = Table("", *KINDS, "hours left", box=None, header_style="bold", pad_edge=False)
    for run in study.runs:
        own = of_run[run.key]
        states = [places.state(own[kind]) if kind in own else "-" for kind in KINDS]
        left = [hours[step.name] for step in own.values() if step.name in hours]
        table.add_row(str(run), *states, f"{sum(left):.2f}" if left else "")
    console.print(study.title, soft_wrap=True)
    console.print(table, crop=False, soft_wrap=True)
    for run in study.runs:
        if error := places.failure(run).get("error"):
            console.print(f"{places.folder(run)}: failed: {error}", soft_wrap=True)
    if hours:
        console.print(
            f"left: {sum(hours.values()):.1f} hours of one core or GPU, by the time of one step of each kind",
            soft_wrap=True,
        )
    console.print(f"next: shieldwall study run {name}", soft_wrap=True)


@study_app.command("run")
def run_command(
    name: Name,
    rows: Rows = "*",
    sigma: Sigma = "",
    scale: Scale = "1",
    jobs: Annotated[
        int | None, typer.Option(help="Number of processes; by default one for each GPU, or for each core.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Stop after this time; the same command resumes.")
    ] = None,
    runs: Runs = None,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Train, tune, certify and pack all runs of a study, or what is missing of them.

    A run that several rows or studies need is made once. A failed row does not stop the others.
    Example: `shieldwall study run tab:mnisttable --scale tiny`
    """
    from shieldwall.studies.local import default_jobs, run_steps
    from shieldwall.studies.steps import steps_of

    study, places = _opened(name, rows, sigma, scale, runs, data_dir)
    console.print(study.title, soft_wrap=True)
    outcome = run_steps(
        steps_of(study), places, jobs=default_jobs() if jobs is None else jobs, minutes=minutes,
        device=device, console=console,
    )  # fmt: skip
    if not outcome.left:
        console.print(f"next: shieldwall study report {name}", soft_wrap=True)
    elif not outcome.failed:
        console.print(f"{len(outcome.left)} steps are left; run the same command to resume", soft_wrap=True)
    else:
        blocked = len(outcome.left) - len(outcome.failed)
        console.print(
            f"{len(outcome.failed)} steps failed, {blocked} wait for them or are left", soft_wrap=True
        )
        raise typer.Exit(1)


def hours_of(steps: "list[Step]", places: "Places", device: str | None) -> dict[str, float]:
    """The hours of each step on this machine, from the time of a unit of its kind, which is measured once."""
    import json

    from shieldwall.files import write_output
    from shieldwall.studies.local import measure
    from shieldwall.studies.steps import cost, task

    file, machine = places.roots[0] / "step-seconds.json", f"{platform.node()} {device or ''}".strip()
    known: dict[str, dict[str, float]] = json.loads(file.read_text()) if file.is_file() else {}
    units = {step.name: cost(step, places) for step in steps}
    missing: dict[str, dict[str, Any]] = {}
    for step in steps:
        kind, count = units[step.name]
        if count and kind not in known.get(machine, {}):
            missing[kind] = {**task(step, places), "kind": f"time {json.loads(kind)[0]}"}
    if missing:
        console.print(f"timing {len(missing)} kinds of steps on this machine", soft_wrap=True)
        known.setdefault(machine, {}).update(measure(missing, device, console))
        write_output(file, (json.dumps(known, indent=2) + "\n").encode())
    seconds = known.get(machine, {})
    return {name: count * seconds.get(kind, 0.0) / 3600 for name, (kind, count) in units.items()}


def _opened(
    name: str, rows: str, sigma: str, scale: str, runs: list[Path] | None, data_dir: Path | None
) -> "tuple[Study, Places]":
    from shieldwall.studies import study
    from shieldwall.studies.steps import Places

    chosen = study.get(name, only=rows, sigmas=numbers("--sigma", sigma), scale=scale)
    return chosen, Places(runs or [Path("runs")], data_dir)
