"""The error for a user's mistake, and checks that raise it."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from numbers import Integral, Real

EXTRAS = {
    "report": ("matplotlib", "jinja2"),
    "serve": ("anyio", "starlette", "uvicorn", "websockets", "jinja2"),
    "cluster": ("ray",),
    "tensorboard": ("tensorboard",),
    "hub": ("transformers", "huggingface_hub"),
}
"""The modules each extra of this package brings, which only some commands need."""


class UserError(ValueError):
    """A mistake in what was asked for: what was given, what was expected, what to do.

    The command line prints the message alone and exits with 2; a library caller sees an
    ordinary `ValueError`.
    """


class LockedError(UserError):
    """Another process works on the same folder."""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    known = sorted(known)
    near = get_close_matches(str(given), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"
    return UserError(f"unknown {kind} {given!r}; {hint}")


def describe(given: object) -> str:
    """A plain value as it is written, anything else by its kind."""
    if isinstance(given, type):
        return f"the class {given.__name__} itself"
    return repr(given) if given is None or isinstance(given, (Real, str)) else type(given).__name__


def check(holds: object, rule: str, given: object) -> None:
    """Raise an error that says the rule and what was given, unless the rule holds."""
    if not holds:
        raise UserError(f"{rule}; given: {given}")


def check_int(name: str, given: object) -> None:
    if not isinstance(given, Integral):
        hint = f"; write {given:.0f}" if isinstance(given, float) and given.is_integer() else ""
        raise UserError(f"{name} must be a whole number; given: {describe(given)}{hint}")


def check_number(name: str, given: object) -> None:
    check(isinstance(given, Real), f"{name} must be a number", describe(given))


def missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if find_spec(module) is None]


def require(extra: str, purpose: str) -> None:
    """Raise an error that says what to install if `purpose` needs a missing package."""
    if modules := missing(extra):
        raise UserError(f"{purpose} needs {', '.join(modules)}; run: pip install 'shieldwall[{extra}]'")
