"""What several verbs share: the console, options and their parsing."""

from pathlib import Path
from typing import Annotated

import typer

from shieldwall.console import PlainConsole
from shieldwall.errors import UserError

console = PlainConsole()

DataDir = Annotated[
    Path | None,
    typer.Option(help="Data folder to search first, before $SHIELDWALL_DATA and the cache folder."),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; by default a GPU if there is one.")]
RunFolder = Annotated[
    Path, typer.Argument(help="A run folder made by `shieldwall train`, or a pretrained name.")
]
On = Annotated[
    str,
    typer.Option(
        help="Where to work: local (this machine), ray (the Ray cluster of this machine, or a new one on it) "
        "or ray://HOST:PORT."
    ),
]


def _trust_code(given: bool) -> bool:
    if given:
        from shieldwall.models.registry import trust

        trust("all")
    return given


TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        callback=_trust_code,
        help="Run code that the recipe names (module:function).",
    ),
]
NoiseSeed = Annotated[int | None, typer.Option(help="Noise seed; by default the recipe's.")]


def numbers(option: str, text: str) -> list[float]:
    """The numbers in a list such as 0,0.25,0.5."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise UserError(f"{option} takes numbers such as 0,0.25,0.5; given: {text!r}") from error
