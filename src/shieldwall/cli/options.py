"""What several verbs share: the console, options and their parsing."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from shieldwall.console import PlainConsole
from shieldwall.errors import UserError

console = PlainConsole()
say = partial(console.print, soft_wrap=True)


def _trust_code(given: bool) -> bool:
    if given:
        from shieldwall.models.registry import trust

        trust("all")
    return given


Run = Annotated[Path, Argument(help="A run folder made by `shieldwall train`, or a pretrained name.")]
DataDir = Annotated[Path | None, Option(
    help="Data folder to search first, before $SHIELDWALL_DATA and the cache folder.")]  # fmt: skip
Device = Annotated[str | None, Option(help="cpu, cuda, cuda:1, ...; by default a GPU if there is one.")]
On = Annotated[str, Option(help="Where to work: local (this machine), ray (the Ray cluster of this machine, "
    "or a new one on it) or ray://HOST:PORT.")]  # fmt: skip
TrustCode = Annotated[bool, Option("--trust-code", callback=_trust_code,
    help="Run code that the recipe names (module:function).")]  # fmt: skip
Seed = Annotated[int | None, Option(help="Noise seed; by default the recipe's.")]


def names(text: str) -> list[str]:
    """The parts of a list such as we,mme."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(option: str, text: str) -> list[float]:
    """The numbers in a list such as 0,0.25,0.5."""
    try:
        return [float(part) for part in names(text)]
    except ValueError as error:
        raise UserError(f"{option} takes numbers such as 0,0.25,0.5; given: {text!r}") from error
