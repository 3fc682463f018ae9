"""Studies: `study list`, `study show`, `study run` and `study report`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from shieldwall.cli.options import DataDir, Device, On, PlainGroup, TrustCode, arg, console, opt, say
from shieldwall.cli.report import write_page
from shieldwall.errors import require
from shieldwall.texts import numbers

if TYPE_CHECKING:
    from shieldwall.studies.steps import Places
    from shieldwall.studies.study import Study

_HELP = "Sets of runs: every table and figure of the paper, or a YAML file of your own."
study_app = typer.Typer(cls=PlainGroup, help=_HELP, no_args_is_help=True)
Name = Annotated[str, arg("A study's name (`shieldwall study list`) or a YAML file.")]
Rows = Annotated[str, opt("Only the rows that match, such as 'drt*', and what they start from.")]
Sigma = Annotated[str, opt("Only these sigmas, such as 0.5,1.0.", "all")]
Scale = Annotated[str, opt("A share of epochs, inputs and noise samples, such as 0.1; `tiny` to try it out.")]
Runs = Annotated[list[Path] | None, opt("--runs",
    "Folder with runs, made by a study or by hand; new ones go to the first.", "runs")]  # fmt: skip


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
    name: Name, rows: Rows = "*", sigma: Sigma = "", scale: Scale = "1", runs: Runs = None,
    cost: Annotated[bool, opt("--cost/--no-cost", "Time one step of each kind, once.")] = True,
    data_dir: DataDir = None, device: Device = None,
) -> None:  # fmt: skip
    """Show a study's rows and steps: done, running, failed or missing, and what is left to pay."""
    from shieldwall.studies.engine import unit_seconds
    from shieldwall.studies.steps import KINDS, hours, steps_of, to_do

    study, places = _opened(name, rows, sigma, scale, runs, data_dir)
    left = to_do(steps := steps_of(study), places)
    seconds, _ = unit_seconds(left, places, device, console if cost else None)
    table = Table("", *KINDS, "hours left", box=None, header_style="bold", pad_edge=False)
    for run in study.runs:
        own = {step.kind: step for step in steps if step.run is run}
        states = [places.state(own[kind]) if kind in own else "-" for kind in KINDS]
        due = [step for step in left if step.run is run]
        price = hours(due, places, seconds)
        table.add_row(str(run), *states, f"{price:.2f}" if due and not math.isnan(price) else "")
    say(study.title)
    say(table, crop=False)
    for run in study.runs:
        if error := places.failure(run).get("error"):
            say(f"{places.folder(run)}: failed: {error}")
    if left and not math.isnan(price := hours(left, places, seconds)):
        say(f"left: {price:.1f} hours of one core or GPU, by the time of one step of each kind")
    say(f"next: shieldwall study run {study.command}")


@study_app.command("run")
def run_command(
    name: Name, rows: Rows = "*", sigma: Sigma = "", scale: Scale = "1", on: On = "local",
    jobs: Annotated[int | None, opt("Workers; by default one for each GPU, or for each core.")] = None,
    minutes: Annotated[float | None, opt("Stop after so long; the same command resumes.", "no limit")] = None,
    runs: Runs = None, data_dir: DataDir = None, device: Device = None, trust_code: TrustCode = False,
) -> None:  # fmt: skip
    """Train, tune, certify and pack all runs of a study, or what is missing of them.

    A run that several rows or studies need is made once. A failed row does not stop the others.
    Example: `shieldwall study run tab:mnisttable --scale tiny`
    """
    from shieldwall.studies.engine import run_steps
    from shieldwall.studies.steps import steps_of

    study, places = _opened(name, rows, sigma, scale, runs, data_dir)
    say(study.title)
    steps = steps_of(study)
    left, failed = run_steps(steps, places, console, on=on, jobs=jobs, minutes=minutes, device=device)
    if failed:
        say(f"failed steps: {len(failed)}; steps that need them, or are left: {len(left) - len(failed)}")
        raise typer.Exit(1)
    if left:
        say(f"{len(left)} steps are left; run the same command to resume")
    else:
        say(f"next: shieldwall study report {study.command}")


@study_app.command("report")
def report_command(
    name: Name, rows: Rows = "*", sigma: Sigma = "", scale: Scale = "1", runs: Runs = None,
    to: Annotated[list[Path] | None, opt("Write a file: .md or .html (everything), .tex (the tables), .png, "
        ".pdf or .svg (the curves, a file for each panel). Repeat it for more files.",
        "no file")] = None,
    data_dir: DataDir = None, device: Device = None,
) -> None:  # fmt: skip
    """Show a study's results: the paper's tables with ours beside them, and what is not measured yet."""
    from shieldwall.files import write_output
    from shieldwall.report.formats import to_latex, to_terminal
    from shieldwall.report.plots import accuracy_figure, check_figure_path, describe_figure, figure_bytes
    from shieldwall.results.record import RunRecord, read_runs
    from shieldwall.results.rows import rows_of
    from shieldwall.studies import report
    from shieldwall.studies.engine import unit_seconds
    from shieldwall.studies.steps import steps_of, to_do

    study, places = _opened(name, rows, sigma, scale, runs, data_dir)
    records: list[RunRecord] = []
    left: list[str] = []
    if study.seconds:
        training = [step for step in steps_of(study) if step.kind == "train"]
        seconds, machine = unit_seconds(training, places, device, console)
        tables = [report.seconds_table(study, training, places, seconds)]
    else:
        records = read_runs(path for run in study.shown if (path := places.readable(run)))
        steps = to_do(steps_of(study), places)
        seconds, machine = unit_seconds(steps, places, device, None)
        tables, left = report.tables_of(study, records), report.not_measured(study, steps, places, seconds)
    say(study.title)
    for table in tables:
        console.print(to_terminal(table), crop=False)
    for path in to or ():
        if path.suffix == ".md":
            write_output(path, report.page(study, tables, records, left, machine).encode())
        elif path.suffix == ".tex":
            write_output(path, "\n".join(to_latex(table, path.stem) for table in tables).encode())
        elif path.suffix == ".html":
            require("report", f"--to {path}")
            write_page(path, rows_of(records, average_seeds=False), None, data_dir)
        else:
            check_figure_path(path)
            require("report", f"--to {path}")
            for panel, drawn in report.figures_of(study, records).items():
                file = path.with_name(f"{path.stem}-{panel}{path.suffix}") if panel else path
                write_output(file, figure_bytes(accuracy_figure(drawn), file, describe_figure(drawn)))
    for line in left:
        say(f"not measured yet: {line}")


def _opened(
    name: str, rows: str, sigma: str, scale: str, runs: list[Path] | None, data_dir: Path | None
) -> "tuple[Study, Places]":
    from shieldwall.studies import study
    from shieldwall.studies.steps import Places

    chosen = study.get(name, only=rows, sigmas=numbers("--sigma", sigma), scale=scale)
    return chosen, Places(runs or [Path("runs")], data_dir)
