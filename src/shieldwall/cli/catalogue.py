"""What there is: `recipes` and `data`."""

from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shieldwall.cli.options import DataDir, PlainGroup, arg, console, opt, say

_HELP = "List the data sets on this machine, and download missing ones."
data_app = typer.Typer(cls=PlainGroup, help=_HELP, no_args_is_help=True)


def recipes_command(
    name: Annotated[str | None, arg("Show this recipe in full, or list the recipes with this text in their "
        "names.", "a list of all")] = None,
) -> None:  # fmt: skip
    """List the recipes, or show one in full.

    Append a sigma to choose it: `mnist-gaussian-1.0`. DRT recipes fine-tune trained members: pass
    `--from RUN` to `shieldwall train`. Example: `shieldwall recipes cifar10`
    """
    from shieldwall import recipes

    listed = {known: family for known, family in recipes.FAMILIES.items() if name is None or name in known}
    if name is not None and (name in listed or not listed):
        console.print(recipes.get(name).to_yaml(), end="", soft_wrap=True)
        return
    table = Table("recipe", "sigma", "also at", "what it does", box=None, header_style="bold", pad_edge=False)
    for _, group in groupby(listed.items(), key=lambda item: recipes.get(item[0]).data):
        if table.row_count:
            table.add_row()
        for known, family in group:
            usual, *others = map(str, family)
            table.add_row(known, usual, " ".join(others), recipes.get(known).summary)
    console.print(table)


@data_app.command("list")
def data_list(data_dir: DataDir = None) -> None:
    """List the data sets and where each was found."""
    from shieldwall.data.datasets import status

    table = Table("data set", "where", "what it is", box=None, header_style="bold")
    for name, place, description in status(data_dir):
        table.add_row(name, str(place or "not found"), description)
    console.print(table)


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, arg("mnist, fashion-mnist or cifar10.")],
    data_dir: Annotated[Path | None, opt("Folder to write; by default the first that is searched.")] = None,
    from_url: Annotated[str | None, opt("Another address with the same files.", "the published one")] = None,
) -> None:  # fmt: skip
    """Download a data set over https and check its published lengths and SHA-256 sums.

    Complete files are not downloaded again.
    """
    from shieldwall.data.datasets import fetch

    folder = fetch(name, data_dir, from_url, console)
    say(f"{name}: complete in {folder}")
