"""A recipe: a named, complete, validated description of an experiment."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from shieldwall.coercion import build
from shieldwall.errors import UserError, unknown
from shieldwall.training.schedule import Schedule

JOINT = ("drt", "adp", "gal")
"""Methods that compare members, so that all must see the same batches. With the others each member has its
own order and noise: sharing them cost an ensemble of LeNets .006 of its .036 in ACR (MNIST, sigma 1)."""


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
    """The noise's standard deviation."""
    noise: str = "gaussian"
    objective: dict[str, Any] = field(default_factory=lambda: {"name": "gaussian"})
    """The training method's name and its own options."""
    members: int = 3
    independent: bool = False
    """Train each member on an order and noise of its own, instead of all on the same batches."""
    start: str | None = None
    """The run folder whose trained members to start from; None for random weights."""
    hold_out: int = 0
    """Keep every so many-th training image from training, for tuning the vote's weights; 0 for none."""
    schedule: Schedule = field(default_factory=Schedule)
    certification: Certification = field(default_factory=Certification)
    seed: int = 0

    def __post_init__(self) -> None:
        from shieldwall.smoothing.noise import named

        if not 0 < self.sigma < float("inf"):
            raise UserError(f"sigma must be a positive number; given: {self.sigma}")
        named(self.noise, self.sigma)
        if self.hold_out < 0 or self.hold_out == 1:
            raise UserError(f"hold_out must be 0 for none, or at least 2; given: {self.hold_out}")
        if self.members < 1:
            raise UserError(f"members must be at least 1; given: {self.members}")

    def to_yaml(self) -> str:
        return yaml.safe_dump(asdict(self), sort_keys=False, width=110)


def from_mapping(mapping: Mapping[str, Any]) -> Recipe:
    """A recipe from plain data, every key and type checked."""
    recipe: Recipe = build(Recipe, mapping)
    return recipe


def from_file(path: Path) -> Recipe:
    try:
        content = yaml.safe_load(path.read_text())
    except FileNotFoundError as error:
        raise UserError(
            f"the recipe file {path} does not exist; `shieldwall recipes` lists those by name"
        ) from error
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
        free = outer[:1] == ["objective"]  # its keys depend on the method, which checks them itself
        if not isinstance(part, dict) or (last not in part and not free):
            raise unknown("recipe key", key.strip(), _dotted(asdict(recipe)))
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError(f"--set {key}: {text!r} is not a value") from error
        if free and last == "name" and part.get("name") != value:
            part.clear()  # another method has other options
            content["independent"] = value not in JOINT
        part[last] = value
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
