"""`recipes`: the list of recipes, or one in full."""

from typing import Annotated

import typer
from rich.table import Table

from shieldwall.cli.options import console


def recipes_command(
    name: Annotated[
        str | None,
        typer.Argument(help="Show this recipe in full, or list the recipes with this text in their names."),
    ] = None,
) -> None:
    """List the recipes, or show one in full.

    Append a sigma to choose it: `mnist-gaussian-1.0`. DRT recipes fine-tune trained members: pass
    `--from RUN` to `shieldwall train`. Example: `shieldwall recipes cifar10`
    """
    from itertools import groupby

    from shieldwall import recipes

    listed = {known: family for known, family in recipes.FAMILIES.items() if name is None or name in known}
    if name is not None and (name in listed or not listed):
        console.print(recipes.get(name).to_yaml(), end="", soft_wrap=True)
        return
    headings = ("recipe", "sigma", "also at", "what it does")
    table = Table(*headings, box=None, header_style="bold", pad_edge=False)
    for _, group in groupby(listed.items(), key=lambda item: item[1].usual().data):
        if table.row_count:
            table.add_row()
        for known, family in group:
            usual, *others = map(str, family.sigmas)
            table.add_row(known, usual, " ".join(others), family.usual().summary)
    console.print(table)
