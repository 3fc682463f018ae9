"""Training methods by name, with their options checked."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from shieldwall.errors import UserError, unknown
from shieldwall.smoothing.noise import Noise
from shieldwall.training.adp import ADP
from shieldwall.training.consistency import Consistency
from shieldwall.training.gal import GAL
from shieldwall.training.gaussian import GaussianAugmentation
from shieldwall.training.macer import MACER
from shieldwall.training.objective import Objective
from shieldwall.training.smoothadv import SmoothAdv
from shieldwall.training.stability import Stability

OBJECTIVES: dict[str, type[Any]] = {
    "gaussian": GaussianAugmentation,
    "smoothadv": SmoothAdv,
    "macer": MACER,
    "stability": Stability,
    "consistency": Consistency,
    "adp": ADP,
    "gal": GAL,
}

NOT_OPTIONS = ("noise", "scale")
"""Fields of objectives that the recipe's sigma and the epoch set."""


def build_objective(description: Mapping[str, Any], noise: Noise) -> Objective:
    """An objective from `{name: ..., option: value, ...}`, as recipes write it."""
    options = dict(description)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise UserError(f"objective.name must be one of {', '.join(OBJECTIVES)}; given: {name!r}")
    if name not in OBJECTIVES:
        raise unknown("objective", name, OBJECTIVES)
    known = [field.name for field in fields(OBJECTIVES[name]) if field.name not in NOT_OPTIONS]
    for key in options:
        if key not in known:
            raise unknown("recipe key", f"objective.{key}", [f"objective.{option}" for option in known])
    try:
        objective: Objective = OBJECTIVES[name](noise=noise, **options)
    except TypeError as error:
        raise UserError(f"objective {name!r} cannot take {options}: {error}") from error
    return objective
