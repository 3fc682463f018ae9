"""Recipes by name: `mnist-gaussian` at its usual sigma, `mnist-gaussian-1.0` at another."""

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from shieldwall.errors import UserError, unknown_name
from shieldwall.recipes.methods import Family
from shieldwall.recipes.numbers import (
    CIFAR10,
    CIFAR10_SMALL,
    DIGITS,
    FASHION,
    IMAGENET,
    IMAGENET_METHODS,
    MNIST,
    SHORT,
    smoke,
)
from shieldwall.recipes.recipe import (
    Certification,
    Recipe,
    difference,
    distinctions,
    from_file,
    from_mapping,
    override,
)

__all__ = [
    "FAMILIES",
    "Certification",
    "Recipe",
    "difference",
    "distinctions",
    "from_file",
    "from_mapping",
    "get",
    "override",
]


FAMILIES: dict[str, Family] = {
    family.usual().name: family
    for family in [
        Family(lambda sigma: smoke(), (0.25,)),
        *DIGITS.families(),
        *MNIST.families(),
        *SHORT.families(),
        *FASHION.families(),
        *CIFAR10.families(),
        *CIFAR10_SMALL.families(),
        *IMAGENET.families(IMAGENET_METHODS),
    ]
}


def get(name: str) -> Recipe:
    """The recipe called `name`, or the one in the YAML file of that path."""
    if name in FAMILIES:
        return FAMILIES[name].usual()
    at_sigma = {f"{known}-{sigma}": known for known, family in FAMILIES.items() for sigma in family.sigmas}
    if name in at_sigma:
        known = at_sigma[name]
        return replace(FAMILIES[known].make(float(name.removeprefix(f"{known}-"))), name=name)
    if name.endswith((".yaml", ".yml")):
        return from_file(Path(name))
    names = [*FAMILIES, *at_sigma]
    if not get_close_matches(name, names, cutoff=0.5):  # or the error would name them all
        raise UserError(f"unknown recipe {name!r}; `shieldwall recipes` lists them")
    raise unknown_name("recipe", name, names)
