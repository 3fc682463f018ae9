"""Arguments of the wrong kind, refused in words before they fail somewhere inside."""

from numbers import Integral, Real

from shieldwall.errors import UserError


def described(given: object) -> str:
    """A plain value as it is written, anything else by its kind."""
    if isinstance(given, type):
        return f"the class {given.__name__} itself"
    return repr(given) if given is None or isinstance(given, (Real, str)) else type(given).__name__


def check_whole(name: str, given: object) -> None:
    if not isinstance(given, Integral):
        hint = f"; write {given:.0f}" if isinstance(given, float) and given.is_integer() else ""
        raise UserError(f"{name} must be a whole number; given: {described(given)}{hint}")


def check_number(name: str, given: object) -> None:
    if not isinstance(given, Real):
        raise UserError(f"{name} must be a number; given: {described(given)}")
