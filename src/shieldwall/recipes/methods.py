"""The training methods, and their recipes on each data set.

A data set is a `Benchmark`, read from numbers.yaml: its model, its schedule, and the numbers that methods
take there. A `Method`, read from methods.yaml, describes its objective from these at one sigma.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shieldwall.recipes.recipe import JOINT, Certification, Recipe, Schedule, build
from shieldwall.texts import read_yaml
from shieldwall.vocabulary import SIGMAS

Numbers = Mapping[str, Any]  # options by name; a list holds one value for each of SIGMAS


@dataclass(frozen=True)
class Method:
    """A training method; `options` hold on every data set without its own, `fixed` on all."""

    summary: str
    name: str  # the objective's
    options: Numbers = field(default_factory=dict)
    base: "Method | None" = None  # the method that DRT wraps
    fixed: Numbers = field(default_factory=dict)


@dataclass(frozen=True)
class Benchmark:
    name: str  # the first part of its recipes' names
    data: str
    model: str
    sigma: float  # the usual one
    schedule: Schedule  # that of Gaussian augmentation
    certification: Certification
    numbers: Mapping[str, Numbers]  # what methods take here, by method
    # How their schedules differ from `schedule`, by method; `drt` stands for all methods of that prefix.
    schedules: Mapping[str, Numbers] = field(default_factory=dict)
    methods: tuple[str, ...] = ()  # those that have recipes here; empty for all

    def objective(self, method: Method, sigma: float, weights: str) -> dict[str, Any]:
        """A method's objective at one sigma; DRT's weights are those that the data set has for `weights`."""
        of_data = {**self.numbers.get(method.name, {}), **self.numbers.get(weights, {})}
        base = {} if method.base is None else {"base": self.objective(method.base, sigma, method.base.name)}
        return {"name": method.name, **base, **_at(sigma, {**method.options, **of_data, **method.fixed})}

    def recipe(self, name: str, sigma: float) -> Recipe:
        method = METHODS[name]
        schedule = _at(sigma, self.schedules.get("drt" if method.name == "drt" else name, {}))
        return Recipe(
            f"{self.name}-{name}", method.summary, self.data, self.model, sigma,
            objective=self.objective(method, sigma, name), independent=method.name not in JOINT,
            schedule=replace(self.schedule, **schedule), certification=self.certification,
        )  # fmt: skip


def _at(sigma: float, numbers: Numbers) -> dict[str, Any]:
    column = SIGMAS.index(sigma)
    return {key: number[column] if isinstance(number, list) else number for key, number in numbers.items()}


def _table(file: str) -> dict[str, Any]:
    (content,) = read_yaml(Path(__file__).with_name(file))
    return dict(content)


METHODS: dict[str, Method] = {name: build(Method, each) for name, each in _table("methods.yaml").items()}
BENCHMARKS: dict[str, Benchmark] = {
    name: build(Benchmark, each, name=name) for name, each in _table("numbers.yaml").items()
}
_PARTS = {f"{name}-{m}": (b, m) for name, b in BENCHMARKS.items() for m in b.methods or METHODS}
FAMILIES: dict[str, tuple[float, ...]] = {"smoke": (0.25,)}  # the sigmas of each recipe, the usual one first
FAMILIES |= {name: tuple(dict.fromkeys((b.sigma, *SIGMAS))) for name, (b, _) in _PARTS.items()}


def recipe_at(family: str, sigma: float) -> Recipe:
    if family != "smoke":
        benchmark, method = _PARTS[family]
        return benchmark.recipe(method, sigma)
    # The smallest run that goes through every stage; its losses are pinned by a test.
    return replace(
        BENCHMARKS["digits"].recipe("gaussian", sigma),
        name="smoke", summary="the whole pipeline in seconds", members=2,
        schedule=Schedule(epochs=3, batch_size=64, lr=0.1, decay_every=2, decay=0.2),
        certification=Certification(n=1_000, every=12),
    )  # fmt: skip
