"""Recipes by name: `mnist-gaussian` at its usual sigma, `mnist-gaussian-1.0` at another."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from shieldwall.errors import unknown
from shieldwall.recipes import cifar10, digits, imagenet, mnist
from shieldwall.recipes.recipe import Certification, Recipe, difference, from_file, from_mapping, override

__all__ = [
    "FAMILIES",
    "Certification",
    "Recipe",
    "difference",
    "from_file",
    "from_mapping",
    "get",
    "override",
]


@dataclass(frozen=True)
class Family:
    """One recipe at several sigmas; the first is the usual one."""

    make: Callable[[float], Recipe]
    sigmas: tuple[float, ...]

    def usual(self) -> Recipe:
        return self.make(self.sigmas[0])


FAMILIES: dict[str, Family] = {
    family.usual().name: family
    for family in [
        Family(lambda sigma: digits.smoke(), (0.25,)),
        Family(digits.gaussian, (0.25, 0.5, 1.0)),
        Family(mnist.gaussian, (0.5, 0.25, 1.0)),
        Family(mnist.fashion_gaussian, (0.5, 0.25, 1.0)),
        Family(cifar10.gaussian, (0.5, 0.25, 1.0)),
        Family(imagenet.gaussian, (0.5, 0.25, 1.0)),
    ]
}


def get(name: str) -> Recipe:
    """The recipe called `name`, or the one in the YAML file of that path."""
    if name in FAMILIES:
        return FAMILIES[name].usual()
    at_sigma = {
        f"{known}-{sigma}": replace(family.make(sigma), name=f"{known}-{sigma}")
        for known, family in FAMILIES.items()
        for sigma in family.sigmas
    }
    if name in at_sigma:
        return at_sigma[name]
    if name.endswith((".yaml", ".yml")):
        return from_file(Path(name))
    raise unknown("recipe", name, [*FAMILIES, *at_sigma])
