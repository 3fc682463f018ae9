"""What several verbs share: the console, options and their parsing."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option
from typer.core import TyperGroup

from shieldwall.console import PlainConsole

console = PlainConsole()
say = partial(console.print, soft_wrap=True)

#: What help shows in place of a Python type.
_TAKES = {"bool": "", "Path": "PATH", "int": "N", "float": "NUMBER", "str": "TEXT"}


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


def opt(*parts: str, **more: Any) -> Any:
    """An option by its names, if not only the parameter's own, its help, and the default that help shows."""
    own_names = [part for part in parts if part.startswith("-")]
    text, *default = parts[len(own_names) :]
    return Option(*own_names, help=text, show_default=default[0] if default else True, **more)


def arg(text: str, default: str | bool = True) -> Any:
    return Argument(help=text, show_default=default)


# fmt: off
Run = Annotated[Path, arg("A run folder made by `shieldwall train`, or a pretrained name.")]
DataDir = Annotated[Path | None, opt(
    "Data folder to search first, before $SHIELDWALL_DATA and the cache folder.", "only these")]
Device = Annotated[str | None, opt("cpu, cuda, cuda:1, ...; by default a GPU if there is one.")]
On = Annotated[str, opt("Where to work: local (this machine), ray (the Ray cluster of this machine, "
    "or a new one on it) or ray://HOST:PORT.")]
TrustCode = Annotated[bool, opt(
    "--trust-code", "Run code that the recipe names (module:function).", callback=_trust_code)]
Seed = Annotated[int | None, opt("Noise seed; by default the recipe's.")]
# fmt: on
