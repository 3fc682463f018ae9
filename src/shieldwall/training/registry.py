"""Training methods by name, with their options checked."""

from collections.abc import Mapping
from typing import Any

from shieldwall.errors import UserError, check_name
from shieldwall.noise.distributions import Noise
from shieldwall.recipes.recipe import build
from shieldwall.training.diversity import ADP, GAL
from shieldwall.training.drt import DRT
from shieldwall.training.member_methods import (
    MACER,
    Consistency,
    Denoising,
    GaussianAugmentation,
    SmoothAdv,
    Stability,
)
from shieldwall.training.objective import Objective

OBJECTIVES: dict[str, type[Objective]] = {
    "gaussian": GaussianAugmentation, "smoothadv": SmoothAdv, "macer": MACER, "stability": Stability,
    "consistency": Consistency, "adp": ADP, "gal": GAL, "denoiser": Denoising, "drt": DRT,
}  # fmt: skip


def build_objective(description: Mapping[str, Any], noise: Noise, prefix: str = "objective.") -> Objective:
    """An objective from `{name: ..., option: value, ...}`, as recipes write it.

    DRT names what it wraps: `{name: drt, base: {name: gaussian}, rho_gd: 5, rho_cm: 0.5}`.
    """
    options = dict(description)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise UserError(f"{prefix}name must be one of {', '.join(OBJECTIVES)}; given: {name!r}")
    check_name("objective", name, OBJECTIVES)
    kind = OBJECTIVES[name]
    given: dict[str, Any] = {"noise": noise}
    if kind is DRT:
        base = options.pop("base", {"name": "gaussian"})
        if not isinstance(base, Mapping):
            raise UserError(f"{prefix}base must hold a method's name and options; given: {base!r}")
        given = {"base": build_objective(base, noise, f"{prefix}base.")}
    objective: Objective = build(kind, options, prefix, **given)
    return objective
