"""Plain data to typed fields: what recipes, option by option, are checked with."""

import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

from shieldwall.errors import UserError, check, unknown_name

_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false", dict: "a set of keys"}


def build(cls: type[Any], mapping: Mapping[str, Any], prefix: str = "", **given: Any) -> Any:
    """An instance of a dataclass from plain data, every key and type checked.

    `given` are fields that the caller sets; they, and fields whose metadata say `option: False`, are no
    keys of the mapping.
    """
    hints = typing.get_type_hints(cls)
    options = [field for field in fields(cls) if field.metadata.get("option", True)]
    known = [option.name for option in options if option.name not in given]
    for key in mapping:
        if key not in known:
            raise unknown_name("recipe key", f"{prefix}{key}", [f"{prefix}{name}" for name in known])
    values = {key: coerce(value, hints[key], f"{prefix}{key}") for key, value in mapping.items()}
    try:
        return cls(**values, **given)
    except TypeError as error:
        missing = str(error).partition("missing ")[2] or str(error)
        raise UserError(f"the recipe is incomplete: {prefix.rstrip('.') or 'it'} misses {missing}") from error


def coerce(value: Any, kind: Any, key: str) -> Any:
    """`value` as the field's own type; numbers may come as text, which is how YAML reads 1e-4."""
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        kind = next(option for option in kind.__args__ if option is not type(None))
    if is_dataclass(kind):
        check(isinstance(value, Mapping), f"recipe key {key} must hold keys of its own", repr(value))
        return build(kind, value, f"{key}.")  # type: ignore[arg-type]
    origin = typing.get_origin(kind) or kind
    if origin is tuple:
        check(isinstance(value, (list, tuple)), f"recipe key {key} must be a list", repr(value))
        return tuple(coerce(item, typing.get_args(kind)[0], key) for item in value)
    made = value
    if origin in (int, float) and not isinstance(value, (bool, origin)):
        with suppress(TypeError, ValueError, OverflowError):
            made = float(value)
            made = int(made) if origin is int and made == int(made) else made
    fits = isinstance(made, origin) and (origin is bool or not isinstance(made, bool))
    check(fits, f"recipe key {key} must be {_NAMES.get(origin, origin.__name__)}", repr(value))
    return made
