"""`report`: what was certified, shown."""

from pathlib import Path
from typing import Annotated

import typer

from shieldwall.cli.options import console, numbers


def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders, certificate folders, or tab-separated logs of other tools."),
    ],
    radii: Annotated[str, typer.Option(help="Radii of the table, such as 0,0.25,0.5.")] = "",
    plot: Annotated[
        list[Path] | None,
        typer.Option(
            help="Where to draw the curves (.png or .pdf), once per file; by default in the first folder."
        ),
    ] = None,
) -> None:
    """Show certified accuracy by radius, clean accuracy, ACR and abstentions, and draw the curves."""
    from shieldwall.report import plot_certified_accuracy, table
    from shieldwall.results.logs import read_logs

    logs = read_logs(runs)
    console.print(table(logs, numbers("--radii", radii) or None), crop=False)
    home = runs[0] if runs[0].is_dir() else runs[0].parent
    plots = plot or [home / "certified-accuracy.png", home / "certified-accuracy.pdf"]
    plot_certified_accuracy(logs, plots)
    console.print(f"plot: {', '.join(map(str, plots))}", soft_wrap=True)
