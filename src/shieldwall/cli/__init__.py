"""The command line: verbs over the library, no science."""

import io
import os
import re
import sys
import time
from typing import Annotated, NoReturn

import typer

import shieldwall
from shieldwall.cli import catalogue, report, run, study
from shieldwall.cli.options import PlainGroup, console
from shieldwall.console import PlainConsole
from shieldwall.errors import UserError

__all__ = ["app", "console", "main"]

STOPPED = 130  # the exit code after Ctrl-C, as shells give it


def _show_version(asked: bool) -> None:
    if asked:
        console.print(f"shieldwall {shieldwall.__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=PlainGroup,
    help="Train ensembles, certify their robustness by randomized smoothing, and report the results.\n\n"
    "First steps: `shieldwall demo`, or `shieldwall train digits-gaussian`, then `shieldwall certify` and "
    "`shieldwall report` on the run folder that it prints.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback()
def of_every_verb(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
) -> None:
    pass


app.command("train")(run.train_command)
app.command("certify")(run.certify_command)
app.command("tune-weights")(run.tune_weights_command)
app.command("predict")(run.predict_command)
app.command("merge")(run.merge_command)
app.command("report")(report.report_command)
app.command("verify")(report.verify_command)
app.command("attack")(report.attack_command)
app.command("gate")(report.gate_command)
app.command("serve")(report.serve_command)
app.command("recipes")(catalogue.recipes_command)
app.command("demo")(run.demo_command)
app.add_typer(study.study_app, name="study")
app.add_typer(catalogue.data_app, name="data")
app.add_typer(report.theory_app, name="theory")


def main() -> None:
    """Run the command line: a user's mistake is one line and exit code 2, never a traceback."""
    _tidy_surroundings()
    try:
        app()
    except UserError as error:
        _fail(str(error))
    except (RuntimeError, MemoryError) as error:
        if not (isinstance(error, MemoryError) or "can't allocate memory" in str(error)):
            raise
        _fail("there is not enough memory for this; take fewer or smaller members, samples or batches")
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != STOPPED:  # typer turns Ctrl-C into an exit
            raise
        if os.environ.get("RANK", "0") == "0":
            PlainConsole(stderr=True).print("interrupted; run the same command to resume")
        sys.exit(STOPPED)


def _tidy_surroundings() -> None:
    """Terminals without a width have one of 80, and those without a character show its escape."""
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:  # MKL would end the process without a word of ours
        _fail("the folder that you are in is gone; change to another one")
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        if not re.fullmatch("0*[1-9][0-9]{0,3}", os.environ.get(name, "1")):
            del os.environ[name]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(message: str) -> NoReturn:
    if os.environ.get("RANK", "0") != "0" and "WORLD_SIZE" in os.environ:
        # A mistake seen by all processes is told by the first alone: when it ends, torchrun ends the others.
        time.sleep(10)
    line = " ".join(message.splitlines())
    PlainConsole(stderr=True).print(f"error: {line}", style="red", soft_wrap=True)
    sys.exit(2)
