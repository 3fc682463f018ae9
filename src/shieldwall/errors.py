"""The error for a user's mistake, and checks that raise it."""

import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from importlib.util import find_spec
from numbers import Integral, Real
from typing import Any, TypeVar

EXTRAS = {  # the modules that each extra of this package brings, which only some commands need
    "report": ("matplotlib", "jinja2"),
    "serve": ("anyio", "starlette", "uvicorn", "websockets", "jinja2"),
    "cluster": ("ray",),
    "tensorboard": ("tensorboard",),
    "hub": ("transformers", "huggingface_hub"),
}


class UserError(ValueError):
    """A mistake in what was asked for: what was given, what was expected, what to do. The command line prints
    the message alone and exits with 2."""


class LockedError(UserError):
    """Another process works on the same folder."""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    near = get_close_matches(str(given), known := sorted(known), n=1, cutoff=0.5)
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
    if not isinstance(given, Integral) or isinstance(given, bool):
        hint = f"; write {given:.0f}" if isinstance(given, float) and given.is_integer() else ""
        raise UserError(f"{name} must be a whole number; given: {describe(given)}{hint}")


def check_number(name: str, given: object) -> None:
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    check(is_number, f"{name} must be a number", describe(given))


def check_numbers(name: str, given: object) -> None:
    try:
        for number in given:  # type: ignore[attr-defined]
            check_number(name, number.item() if hasattr(number, "item") else number)
    except TypeError:
        raise UserError(f"{name} must be numbers, such as [0.25, 0.5]; given: {describe(given)}") from None


def check_text(name: str, given: object) -> None:
    check(isinstance(given, str), f"{name} must be a text", describe(given))


_CHECKS: dict[str, Callable[[str, object], None]] = {
    "int": check_int, "float": check_number, "str": check_text, "Sequence[float]": check_numbers,
}  # fmt: skip
F = TypeVar("F", bound=Callable[..., Any])


def checked(function: F) -> F:
    """A function, or a class, whose whole numbers, numbers and texts are checked by their annotations."""
    call: Callable[..., Any] = function.__init__ if inspect.isclass(function) else function
    signature = inspect.signature(call)
    checks: dict[str, tuple[Callable[[str, object], None], bool]] = {}
    for name, parameter in signature.parameters.items():
        words = inspect.formatannotation(parameter.annotation).strip("'").replace("collections.abc.", "")
        kind = words.removesuffix(" | None")
        if kind in _CHECKS and name != "num_noise":  # training.objective explains it
            checks[name] = _CHECKS[kind], kind != words

    @wraps(call)
    def run(*positional: Any, **named: Any) -> Any:
        try:
            given = signature.bind(*positional, **named).arguments
        except TypeError:  # Python's own message says which arguments there are
            return call(*positional, **named)
        for name, (check_kind, may_be_none) in checks.items():
            if name in given and not (may_be_none and given[name] is None):
                check_kind(name, given[name])
        return call(*positional, **named)

    if inspect.isclass(function):
        setattr(function, "__init__", run)  # noqa: B010
        return function
    return run  # type: ignore[return-value]


def missing(extra: str) -> list[str]:
    return [module for module in EXTRAS[extra] if find_spec(module) is None]


def require(extra: str, purpose: str) -> None:
    """Raise an error that says what to install if `purpose` needs a missing package."""
    if modules := missing(extra):
        raise UserError(f"{purpose} needs {', '.join(modules)}; run: pip install 'shieldwall[{extra}]'")


def check_name(kind: str, given: str, known: Iterable[str]) -> None:
    """Refuse a name that does not exist."""
    if given not in known:
        raise unknown_name(kind, given, known)
