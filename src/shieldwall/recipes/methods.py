"""The training methods, and their recipes on each data set.

A data set is a `Benchmark`: its model, its schedule, and the numbers that methods take there. A method
describes its objective from these at one sigma. The numbers below hold on every data set without its own:
they are the defaults of the literature, as the methods' own papers or the code of Jeong & Shin (2020) have
them, and ADP's and GAL's those of Pang et al. (2019) and Kariyappa & Qureshi (2019).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from shieldwall.recipes.recipe import JOINT, Certification, Recipe, Schedule
from shieldwall.vocabulary import SIGMAS

Numbers = Mapping[str, Any]
"""Options by name; a tuple holds one value for each of SIGMAS."""


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
    """How their schedules differ from `schedule`, by method; `drt` stands for all methods of that
    prefix."""

    def at(self, sigma: float, method: str) -> dict[str, Any]:
        """The numbers of a method at one sigma."""
        return at(sigma, self.numbers.get(method, {}))

    def recipe(self, method: str, sigma: float) -> Recipe:
        summary, objective = METHODS[method]
        schedule = at(sigma, self.schedules.get("drt" if method.startswith("drt") else method, {}))
        options = objective(self, sigma)
        return Recipe(
            name=f"{self.name}-{method}",
            summary=summary,
            data=self.data,
            model=self.model,
            sigma=sigma,
            objective=options,
            independent=options["name"] not in JOINT,
            schedule=replace(self.schedule, **schedule),
            certification=self.certification,
        )

    def families(self, methods: Iterable[str] | None = None) -> list[Family]:
        """A family for each of these methods, or for all."""
        sigmas = (self.sigma, *(sigma for sigma in SIGMAS if sigma != self.sigma))

        def family(method: str) -> Family:
            return Family(lambda sigma: self.recipe(method, sigma), sigmas)

        return [family(method) for method in methods or METHODS]


Description = Callable[[Benchmark, float], dict[str, Any]]
"""(bench, sigma) -> the objective's name and options."""


def single(name: str, **defaults: Any) -> Description:
    """A method as it is."""
    return lambda bench, sigma: {"name": name, **at(sigma, defaults), **bench.at(sigma, name)}


def drt(base: Description, rhos: str = "drt", **fixed: Any) -> Description:
    """DRT around a method, with the weights that the bench gives for `rhos`."""

    def describe(bench: Benchmark, sigma: float) -> dict[str, Any]:
        numbers = {**bench.at(sigma, "drt"), **bench.at(sigma, rhos)}
        return {"name": "drt", "base": base(bench, sigma), **numbers, **fixed}

    return describe


def at(sigma: float, numbers: Numbers) -> dict[str, Any]:
    column = SIGMAS.index(sigma)
    return {key: number[column] if isinstance(number, tuple) else number for key, number in numbers.items()}


GAUSSIAN = single("gaussian", num_noise=2)
SMOOTHADV = single("smoothadv", num_noise=2, epsilon=1.0, steps=10, warmup=10)
# The members that DRT starts from were trained with the warm-up.
WARMED_UP = single("smoothadv", num_noise=2, epsilon=1.0, steps=10, warmup=0)
CONSISTENCY = single("consistency", num_noise=2, eta=0.5)

METHODS: dict[str, tuple[str, Description]] = {
    "gaussian": ("Gaussian augmentation", GAUSSIAN),
    "smoothadv": ("noisy adversarial images", SMOOTHADV),
    "macer": ("wider certified radii", single("macer", num_noise=16, gamma=8.0, beta=16.0)),
    # The literature runs the cross-entropy as divergence, on one noisy copy.
    "stability": (
        "predictions steady under noise",
        single("stability", num_noise=1, lam=2.0, divergence="cross_entropy"),
    ),
    # The paper describes the Rényi divergence, that of Li et al.'s certificate.
    "stability-renyi": (
        "steady by Rényi divergence",
        single("stability", num_noise=1, lam=2.0, divergence="renyi", order=2.0),
    ),
    "consistency": ("equal answers for noisy copies", CONSISTENCY),
    "adp": ("diversity among wrong classes", single("adp", num_noise=2, alpha=2.0, beta=0.5)),
    # The paper adds L_GAL as it is; Kariyappa & Qureshi (2019) use half of it.
    "gal": ("diverse loss gradients", single("gal", num_noise=2, weight=1.0)),
    "drt": ("DRT around Gaussian augmentation", drt(GAUSSIAN)),
    "drt-smoothadv": ("DRT around SmoothAdv", drt(WARMED_UP, "drt-smoothadv")),
    "drt-consistency": ("DRT around Consistency", drt(CONSISTENCY, "drt-consistency")),
    # The paper's ablation, tab:gdlvscml3 and tab:gdlvscml2.
    "drt-gd": ("DRT's gradient diversity alone", drt(GAUSSIAN, "drt-gd", rho_cm=0.0)),
    "drt-cm": ("DRT's confidence margin alone", drt(GAUSSIAN, "drt-cm", rho_gd=0.0)),
}
