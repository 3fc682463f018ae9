"""`demo`: train, certify and report on handwritten digits."""

from pathlib import Path
from typing import Annotated

import typer

from shieldwall.cli.options import Device, console
from shieldwall.cli.reports import report_command


def demo_command(
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("runs/demo"), device: Device = None
) -> None:
    """Train, certify and report three members on handwritten digits, with no download.

    It takes a minute or two on two cores. An interrupted demo resumes.
    """
    from shieldwall import recipes
    from shieldwall.extras import is_installed
    from shieldwall.runs.certify import certify_run
    from shieldwall.runs.train import train_run

    train_run(recipes.get("digits-gaussian"), out, device=device, console=console)
    certify_run(out, device=device, console=console)
    plot = [out / "certified-accuracy.png"] if is_installed("report") else None
    report_command([out], plot=plot)
