"""A recipe: a named, complete, validated description of an experiment."""

import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from shieldwall.binomial import check_draws
from shieldwall.errors import UserError, check, check_int, check_number, describe, unknown_name
from shieldwall.texts import is_folder_name, read_yaml, title, yaml_documents
from shieldwall.vocabulary import BOUNDS, NOISES, NORMS, PRECISIONS

_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false", dict: "a set of keys"}
_CHOICES = {"curve": ("step", "cosine"), "precision": ("float32", "bfloat16")}  # of a schedule
_WHOLE = ("epochs", "batch_size", "decay_every", "warmup")
FORMER_KEYS = {"start": "init_from", "hold_out": "holdout_every"}  # of the recipes of some published runs
MOST_MEMBERS = 1_000
_HUGE = 1e30  # numbers must fit into float32
JOINT = ("drt", "adp", "gal")
"""Methods that compare members, so that all must see the same batches. With the others each member has its
own order and noise: sharing them cost an ensemble of LeNets .006 of its .036 in ACR (MNIST, sigma 1)."""


@dataclass(frozen=True)
class Schedule:
    """SGD with momentum. With t the number of updates made, of T in all, and w = warmup, the learning rate is

    step      lr * min(1, (t + 1) / w) * decay^(epoch // decay_every)
    cosine    lr * min(1, (t + 1) / w) * (1 + cos(pi t / T)) / 2
    """

    epochs: int = 90
    batch_size: int = 256  #: images per step, before noisy copies are made of them
    lr: float = 0.01  #: the highest learning rate
    momentum: float = 0.9
    weight_decay: float = 1e-4  #: the L2 penalty on all parameters
    curve: str = "step"  #: how the learning rate falls: in steps, or as half a cosine
    decay_every: int = 30  #: epochs between two steps
    decay: float = 0.1  #: what the learning rate is multiplied by at each step
    warmup: int = 0  #: updates over which the learning rate grows linearly at the start
    clip: float | None = None  #: the largest L2 norm of a member's gradient: a longer one is scaled down
    precision: str = "float32"  #: bfloat16 for forward passes in it; weights and losses stay in float32

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            key = f"schedule.{name}"
            if choices := _CHOICES.get(name):
                check(value in choices, f"{key} must be one of {', '.join(choices)}", repr(value))
            elif name != "clip" or value is not None:
                (check_int if name in _WHOLE else check_number)(key, value)
                if name == "momentum":
                    check(0 <= value < 1, f"{key} must lie in [0, 1)", value)
                elif name in ("warmup", "weight_decay"):
                    check(0 <= value < _HUGE, f"{key} must not be negative, and below 1e30", value)
                else:
                    check(0 < value < _HUGE, f"{key} must be positive, and below 1e30", value)

    def lr_at(self, update: int, updates_per_epoch: int) -> float:
        """The learning rate of an update, counted from 0."""
        rise = min(1.0, (update + 1) / self.warmup) if self.warmup else 1.0
        if self.curve == "cosine":
            return rise * self.lr * (1 + math.cos(math.pi * update / (self.epochs * updates_per_epoch))) / 2
        return rise * (self.lr * self.decay ** (update // updates_per_epoch // self.decay_every))

    def __str__(self) -> str:
        return ", ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))


@dataclass(frozen=True)
class Certification:
    """The settings of certificates (except the model and the seed), and which test inputs are certified."""

    n0: int = 100  # noise samples that select the class
    n: int = 100_000  # noise samples that bound its probability; the maximum where sampling may stop early
    alpha: float = 0.001  # the failure probability of each certificate
    every: int = 1  # certify every N-th input: 10 on MNIST and CIFAR-10, as the literature does
    limit: int | None = None  # certify at most this many inputs
    bound: str = "one-sided"
    radii: tuple[float, ...] = ()  # stop an input once each is decided; empty for n samples at every input
    norm: str | None = None  # the norm of the radii; None for the norm of the noise
    precision: str = "float32"
    exact_noise: bool = False  # integer noise on the 1/255 grid: no guarantee rests on floating-point noise

    def __post_init__(self) -> None:
        if self.bound not in BOUNDS:
            raise unknown_name("bound", self.bound, BOUNDS)
        check_draws(self.n0, self.n, self.alpha, share=0.95 if self.bound == "two-sided" else 1.0)
        if self.radii and self.bound != "one-sided":
            raise UserError(f"bound={self.bound!r} needs a fixed number of samples; remove radii")
        check(self.norm in (None, *NORMS), f"norm must be one of {', '.join(NORMS)}", repr(self.norm))
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", self.precision, PRECISIONS)
        check(self.every >= 1, "certification.every must be at least 1", self.every)
        check(self.limit is None or self.limit >= 1, "certification.limit must be at least 1", self.limit)

    def changed(self, **changes: Any) -> "Certification":
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def inputs(self, available: int) -> range:
        return range(0, available, self.every)[: self.limit]


@dataclass(frozen=True)
class Recipe:
    name: str
    summary: str
    data: str
    model: str  # one for all members, or one for each, separated by commas
    sigma: float  # the noise's standard deviation
    noise: str = "gaussian"
    # The training method's name and its own options.
    objective: dict[str, Any] = field(default_factory=lambda: {"name": "gaussian"})
    members: int = 3
    independent: bool = False  # each member has its own order of images and noise, instead of shared batches
    # Run folders whose members to start from, or files of weights, by commas; None for random weights.
    init_from: str | None = None
    holdout_every: int = 0  # hold out every N-th training image, for tuning the vote's weights; 0 for none
    schedule: Schedule = field(default_factory=Schedule)
    certification: Certification = field(default_factory=Certification)
    seed: int = 0

    def __post_init__(self) -> None:
        check(is_folder_name(self.name), "name must be usable as the name of a folder", repr(self.name))
        check(0 < self.sigma < math.inf, "sigma must be a positive number", self.sigma)
        if self.noise not in NOISES:
            raise unknown_name("noise", self.noise, NOISES)
        every, members = self.holdout_every, self.members
        check(every == 0 or every >= 2, "holdout_every must be 0 for none, or at least 2", every)
        check(1 <= members <= MOST_MEMBERS, f"members must be at least 1, at most {MOST_MEMBERS}", members)

    def to_yaml(self) -> str:
        return yaml.safe_dump(asdict(self), sort_keys=False, width=110)


def build(cls: type[Any], mapping: Mapping[str, Any], prefix: str = "", **given: Any) -> Any:
    """An instance of a dataclass from plain data, every key and type checked. Fields that are `given`, or
    whose metadata say `option: False`, are no keys of the mapping."""
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


def from_mapping(mapping: Mapping[str, Any]) -> Recipe:
    """A recipe from plain data, every key and type checked; former names of keys are understood."""
    if not isinstance(mapping, Mapping):
        raise UserError(f"a recipe has keys, such as data, model and sigma; given: {describe(mapping)}")
    recipe: Recipe = build(Recipe, {FORMER_KEYS.get(key, key): value for key, value in mapping.items()})
    return recipe


def from_file(path: Path) -> Recipe:
    return from_mapping(read_mapping(path, "recipe", "data, model and sigma"))


def read_mapping(path: Path, kind: str, keys: str) -> dict[str, Any]:
    """The keys of a YAML file, a recipe or a study, which must have keys such as these."""
    if not path.exists():
        verb = "recipes" if kind == "recipe" else "study list"
        raise UserError(f"the {kind} file {path} does not exist; `shieldwall {verb}` lists those by name")
    documents = read_yaml(path)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise UserError(f"{path} is not a {kind}: it must hold keys such as {keys}")
    return documents[0]


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
            raise unknown_name("recipe key", key.strip(), dotted(asdict(recipe)))
        value, *more = yaml_documents(text, f"--set {assignment[:100]}") or [None]
        if more:
            raise UserError(f"--set {key} takes one value; given: {text!r}")
        if free and last == "name" and part.get("name") != value:
            part.clear()  # another method has other options
            content["independent"] = value not in JOINT
        part[last] = value
    return from_mapping(content)


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """What differs between two plain descriptions, as `key: ours, not theirs`; empty if nothing does."""
    a, b = dotted(ours), dotted(theirs)
    keys = [key for key in a | b if a.get(key) != b.get(key)]
    return "; ".join(f"{key}: {a.get(key)!r}, not {b.get(key)!r}" for key in keys)


def distinctions(contents: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """What each of several recipes has in the keys in which they differ, by short names: names, paths and
    certification aside. `rho` stands for DRT's two weights, `N` for the members."""
    flat = [dotted(content) for content in contents]
    keys = [key for key in flat[0] if all(key in other for other in flat)]
    keys = [key for key in keys if any(other[key] != flat[0][key] for other in flat)]
    named: dict[str, list[str]] = {}
    for key in keys:
        last = key.rpartition(".")[2]
        if last in ("rho_gd", "rho_cm"):
            named["rho"] = [key.replace(last, weight) for weight in ("rho_gd", "rho_cm")]
        elif key not in ("name", "summary", "init_from", "start") and not key.startswith("certification."):
            named["N" if key == "members" else last] = [key]
    return [{name: spoken([each.get(key) for key in of]) for name, of in named.items()} for each in flat]


def spoken(value: Any) -> str:
    """A value of a recipe as tables and file names show it."""
    if isinstance(value, list | tuple):
        return ", ".join(map(spoken, value))
    return f"{value:g}" if isinstance(value, float) else title(value)


def dotted(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values by their keys' whole names, such as schedule.lr."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
