"""A recipe: a named, complete, validated description of an experiment."""

import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from shieldwall.errors import UserError, unknown
from shieldwall.training.schedule import Schedule


@dataclass(frozen=True)
class Certification:
    """Which test inputs to certify, and with how many draws."""

    n0: int = 100
    n: int = 100_000
    alpha: float = 0.001
    every: int = 1
    """Certify every so many inputs: 10 on MNIST and CIFAR-10, as the literature does."""
    limit: int | None = None
    """At most so many of them."""

    def __post_init__(self) -> None:
        from shieldwall.smoothing.bounds import check_draws

        check_draws(self.n0, self.n, self.alpha)
        if self.every < 1:
            raise UserError(f"certification.every must be at least 1; given: {self.every}")
        if self.limit is not None and self.limit < 1:
            raise UserError(f"certification.limit must be at least 1; given: {self.limit}")


@dataclass(frozen=True)
class Recipe:
    name: str
    summary: str
    data: str
    model: str
    sigma: float
    objective: dict[str, Any] = field(default_factory=lambda: {"name": "gaussian"})
    """The training method's name and its own options."""
    members: int = 3
    schedule: Schedule = field(default_factory=Schedule)
    certification: Certification = field(default_factory=Certification)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.sigma < float("inf"):
            raise UserError(f"sigma must be a positive number; given: {self.sigma}")
        if self.members < 1:
            raise UserError(f"members must be at least 1; given: {self.members}")

    def to_yaml(self) -> str:
        return yaml.safe_dump(asdict(self), sort_keys=False, width=110)


def from_mapping(mapping: Mapping[str, Any]) -> Recipe:
    """A recipe from plain data, every key and type checked."""
    recipe = _build(Recipe, mapping, "")
    assert isinstance(recipe, Recipe)
    return recipe


def from_file(path: Path) -> Recipe:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path} is not a readable recipe: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a recipe: it must hold keys such as data, model and sigma")
    return from_mapping(content)


def override(recipe: Recipe, assignments: Iterable[str]) -> Recipe:
    """The recipe with `key=value` assignments applied, keys of inner parts dotted: schedule.lr=0.1."""
    content = asdict(recipe)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise UserError(f"--set takes key=value, such as schedule.epochs=10; given: {assignment!r}")
        *outer, last = key.strip().split(".")
        part: Any = content
        for step in outer:
            part = part.get(step) if isinstance(part, dict) else None
        free = outer == ["objective"]  # its keys depend on the method, which checks them itself
        if not isinstance(part, dict) or (last not in part and not free):
            raise unknown("recipe key", key.strip(), _dotted(asdict(recipe)))
        try:
            part[last] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError(f"--set {key}: {text!r} is not a value") from error
    return from_mapping(content)


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """What differs between two plain descriptions, as `key: ours, not theirs`; empty if nothing does."""
    a, b = _dotted(ours), _dotted(theirs)
    keys = [key for key in {**a, **b} if a.get(key) != b.get(key)]
    return "; ".join(f"{key}: {a.get(key)!r}, not {b.get(key)!r}" for key in keys)


def _dotted(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _build(cls: type[Any], mapping: Mapping[str, Any], prefix: str) -> Any:
    hints = typing.get_type_hints(cls)
    known = {f.name: f for f in fields(cls)}
    for key in mapping:
        if key not in known:
            raise unknown("recipe key", f"{prefix}{key}", [f"{prefix}{name}" for name in known])
    values = {key: _coerce(value, hints[key], f"{prefix}{key}") for key, value in mapping.items()}
    try:
        return cls(**values)
    except TypeError as error:
        missing = str(error).partition("missing ")[2] or str(error)
        raise UserError(f"the recipe is incomplete: missing {missing}") from error


def _coerce(value: Any, kind: Any, key: str) -> Any:
    """`value` as the field's own type; numbers may come as text, which is how YAML reads 1e-4."""
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        kind = next(option for option in kind.__args__ if option is not type(None))
    if is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise UserError(f"recipe key {key} must hold keys of its own; given: {value!r}")
        return _build(kind, value, f"{key}.")  # type: ignore[arg-type]
    origin = typing.get_origin(kind) or kind
    try:
        if origin in (int, float) and isinstance(value, bool):
            raise ValueError
        if origin is int and isinstance(value, int):
            return value  # as it is: a large seed would lose digits as a float
        if origin is int and float(value) != int(float(value)):
            raise ValueError
        if origin in (int, float):
            return origin(float(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"recipe key {key} must be {_NAMES[origin]}; given: {value!r}") from error
    if not isinstance(value, origin):
        raise UserError(f"recipe key {key} must be {_NAMES.get(origin, origin.__name__)}; given: {value!r}")
    return value


_NAMES: dict[type, str] = {int: "a whole number", float: "a number", str: "text", dict: "a set of keys"}
