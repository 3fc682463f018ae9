"""The training methods, and their recipes on each data set.

A data set is a `Benchmark`, read from numbers.yaml: its model, its schedule, and the numbers that methods
take there. A method describes its objective from these at one sigma. The numbers below hold on every data set
without its own: they are the defaults of the literature, as the methods' own papers or the code of Jeong &
Shin (2020) have them, and ADP's and GAL's those of Pang et al. (2019) and Kariyappa & Qureshi (2019).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from shieldwall.recipes.fields import build
from shieldwall.recipes.recipe import JOINT, Certification, Recipe, Schedule, read_mapping
from shieldwall.vocabulary import SIGMAS

Numbers = Mapping[str, Any]
"""Options by name; a list holds one value for each of SIGMAS."""


class Family(NamedTuple):
    """One recipe at several sigmas; the first is the usual one."""

    make: Callable[[float], Recipe]
    sigmas: tuple[float, ...]

    def usual(self) -> Recipe:
        return self.make(self.sigmas[0])


@dataclass(frozen=True)
class Benchmark:
    """A data set to run the methods on."""

    name: str
    """The first part of its recipes' names."""
    data: str
    model: str
    sigma: float
    """The usual one."""
    schedule: Schedule
    """That of Gaussian augmentation."""
    certification: Certification
    numbers: Mapping[str, Numbers]
    """What methods take here, by method."""
    schedules: Mapping[str, Numbers] = field(default_factory=dict)
    """How their schedules differ from `schedule`, by method; `drt` stands for all methods of that prefix."""
    methods: tuple[str, ...] = ()
    """Those that have recipes here; empty for all."""

    def numbers_at(self, sigma: float, method: str) -> dict[str, Any]:
        return _at(sigma, self.numbers.get(method, {}))

    def recipe(self, method: str, sigma: float) -> Recipe:
        summary, objective = METHODS[method]
        schedule = _at(sigma, self.schedules.get("drt" if method.startswith("drt") else method, {}))
        options = objective(self, sigma)
        return Recipe(
            f"{self.name}-{method}", summary, self.data, self.model, sigma, objective=options,
            independent=options["name"] not in JOINT, schedule=replace(self.schedule, **schedule),
            certification=self.certification,
        )  # fmt: skip

    def family(self, method: str) -> Family:
        sigmas = (self.sigma, *(sigma for sigma in SIGMAS if sigma != self.sigma))
        return Family(lambda sigma: self.recipe(method, sigma), sigmas)


Description = Callable[[Benchmark, float], dict[str, Any]]
"""(bench, sigma) -> the objective's name and options."""


def _single(name: str, **defaults: Any) -> Description:
    """A method as it is."""
    return lambda bench, sigma: {"name": name, **defaults, **bench.numbers_at(sigma, name)}


def _drt(base: Description, rhos: str = "drt", **fixed: Any) -> Description:
    """DRT around a method, with the weights that the bench gives for `rhos`."""

    def describe(bench: Benchmark, sigma: float) -> dict[str, Any]:
        numbers = bench.numbers_at(sigma, "drt") | bench.numbers_at(sigma, rhos)
        return {"name": "drt", "base": base(bench, sigma), **numbers, **fixed}

    return describe


def _at(sigma: float, numbers: Numbers) -> dict[str, Any]:
    column = SIGMAS.index(sigma)
    return {key: number[column] if isinstance(number, list) else number for key, number in numbers.items()}


GAUSSIAN = _single("gaussian", num_noise=2)
# The members that DRT starts from were trained with the warm-up.
WARMED_UP = _single("smoothadv", num_noise=2, epsilon=1.0, steps=10, warmup=0)
CONSISTENCY = _single("consistency", num_noise=2, eta=0.5)
# The literature runs the cross-entropy as divergence, on one noisy copy.
STABILITY = _single("stability", num_noise=1, lam=2.0, divergence="cross_entropy")
# The paper describes the Rényi divergence, that of Li et al.'s certificate.
RENYI = _single("stability", num_noise=1, lam=2.0, divergence="renyi", order=2.0)

METHODS: dict[str, tuple[str, Description]] = {
    "gaussian": ("Gaussian augmentation", GAUSSIAN),
    "smoothadv": (
        "noisy adversarial images",
        _single("smoothadv", num_noise=2, epsilon=1.0, steps=10, warmup=10),
    ),
    "macer": ("wider certified radii", _single("macer", num_noise=16, gamma=8.0, beta=16.0)),
    "stability": ("predictions steady under noise", STABILITY),
    "stability-renyi": ("steady by Rényi divergence", RENYI),
    "consistency": ("equal answers for noisy copies", CONSISTENCY),
    "adp": ("diversity among wrong classes", _single("adp", num_noise=2, alpha=2.0, beta=0.5)),
    # The paper adds L_GAL as it is; Kariyappa & Qureshi (2019) use half of it.
    "gal": ("diverse loss gradients", _single("gal", num_noise=2, weight=1.0)),
    "drt": ("DRT around Gaussian augmentation", _drt(GAUSSIAN)),
    "drt-smoothadv": ("DRT around SmoothAdv", _drt(WARMED_UP, "drt-smoothadv")),
    "drt-consistency": ("DRT around Consistency", _drt(CONSISTENCY, "drt-consistency")),
    # The paper's ablation, tab:gdlvscml3 and tab:gdlvscml2.
    "drt-gd": ("DRT's gradient diversity alone", _drt(GAUSSIAN, "drt-gd", rho_cm=0.0)),
    "drt-cm": ("DRT's confidence margin alone", _drt(GAUSSIAN, "drt-cm", rho_gd=0.0)),
}


def _smoke(sigma: float) -> Recipe:
    """The smallest run that goes through every stage; its losses are pinned by a test."""
    return replace(
        BENCHMARKS[0].recipe("gaussian", sigma),
        name="smoke", summary="the whole pipeline in seconds", members=2,
        schedule=Schedule(epochs=3, batch_size=64, lr=0.1, decay_every=2, decay=0.2),
        certification=Certification(n=1_000, every=12),
    )  # fmt: skip


_NUMBERS = read_mapping(Path(__file__).with_name("numbers.yaml"), "recipe", "data, model and sigma")
BENCHMARKS: list[Benchmark] = [build(Benchmark, content, name=name) for name, content in _NUMBERS.items()]
FAMILIES = {
    "smoke": Family(_smoke, (0.25,)),
    **{f"{b.name}-{method}": b.family(method) for b in BENCHMARKS for method in b.methods or METHODS},
}
