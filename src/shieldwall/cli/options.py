"""What several verbs share: the console, options and their parsing."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option
from typer.core import TyperGroup

from shieldwall.console import PlainConsole
from shieldwall.errors import UserError

console = PlainConsole()
say = partial(console.print, soft_wrap=True)


_TAKES = {"bool": "", "Path": "PATH", "int": "N", "float": "NUMBER", "str": "TEXT"}
"""What help shows in place of a Python type."""


class PlainGroup(TyperGroup):
    """Commands whose help says what an option takes, in words."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command: Any = super().get_command(ctx, cmd_name)
        types = dict(getattr(command and command.callback, "__annotations__", {}))
        for param in command.get_params(ctx) if command else ():
            takes = next(text for kind, text in _TAKES.items() if kind in str(types.get(param.name, "bool")))
            if param.param_type_name == "argument":
                vars(param)["display_type_rich"] = lambda ctx: None
            elif param.metavar is None:
                param.metavar = takes
        return command

    def get_params(self, ctx: Any) -> Any:
        for param in (params := super().get_params(ctx)):
            param.metavar = ""
        return params


def _trust_code(given: bool) -> bool:
    if given:
        from shieldwall.models.registry import trust

        trust("all")
    return given


Run = Annotated[Path, Argument(help="A run folder made by `shieldwall train`, or a pretrained name.")]
DataDir = Annotated[Path | None, Option(
    show_default="only these",
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
