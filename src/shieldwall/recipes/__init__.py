"""Recipes by name: `mnist-gaussian` at its usual sigma, `mnist-gaussian-1.0` at another."""

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from shieldwall.errors import UserError, unknown_name
from shieldwall.recipes.methods import FAMILIES, recipe_at
from shieldwall.recipes.recipe import Certification, Recipe, difference, from_file, from_mapping, override

__all__ = ["FAMILIES", "Certification", "Recipe", "difference", "from_mapping", "get", "override"]


def get(name: str) -> Recipe:
    """The recipe called `name`, or the one in the YAML file of that path."""
    if name in FAMILIES:
        return recipe_at(name, FAMILIES[name][0])
    family, _, sigma = name.rpartition("-")
    if sigma in map(str, FAMILIES.get(family, ())):
        return replace(recipe_at(family, float(sigma)), name=name)
    if name.endswith((".yaml", ".yml")):
        return from_file(Path(name))
    names = [*FAMILIES, *(f"{family}-{sigma}" for family, sigmas in FAMILIES.items() for sigma in sigmas)]
    if not get_close_matches(name, names, cutoff=0.5):  # or the error would name them all
        raise UserError(f"unknown recipe {name!r}; `shieldwall recipes` lists them")
    raise unknown_name("recipe", name, names)
