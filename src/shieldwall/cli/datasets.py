"""`data`: the data sets on this machine, and downloads."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shieldwall.cli.options import DataDir, console

app = typer.Typer(help="List the data sets on this machine, and download missing ones.", no_args_is_help=True)


@app.command("list")
def data_list(data_dir: DataDir = None) -> None:
    """List the data sets and where each was found."""
    from shieldwall.data.datasets import status

    table = Table("data set", "where", "what it is", box=None, header_style="bold")
    for name, place, description in status(data_dir):
        table.add_row(name, str(place or "not found"), description)
    console.print(table)


@app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist or cifar10.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Data folder to write to; by default the first one that is searched.")
    ] = None,
    from_url: Annotated[str | None, typer.Option(help="Another https address with the same files.")] = None,
) -> None:
    """Download a data set over https and check its published lengths and SHA-256 sums.

    Complete files are not downloaded again.
    """
    from shieldwall.console import file_bars
    from shieldwall.data.datasets import fetch

    with file_bars(console) as report:
        folder = fetch(name, data_dir, from_url, report)
    console.print(f"{name}: complete in {folder}", soft_wrap=True)
