"""8x8 handwritten digits that ship inside scikit-learn: every method within a minute on two cores.

The numbers were chosen on a fifth of the training images, held out.
"""

from dataclasses import replace

from shieldwall.recipes.methods import Bench
from shieldwall.recipes.recipe import Certification, Recipe
from shieldwall.training.schedule import Schedule

DIGITS = Bench(
    Recipe(
        name="digits-gaussian",
        summary="Gaussian augmentation",
        data="digits",
        model="digits-cnn",
        sigma=0.25,
        schedule=Schedule(epochs=40, batch_size=64, lr=0.1, decay_every=15, decay=0.2),
        certification=Certification(n=10_000),
    ),
    numbers={
        "smoothadv": {"epsilon": 0.25, "steps": 2},
        "macer": {"num_noise": 8, "lam": 1.0, "defer": 10},
        "consistency": {"lam": 5.0},
        "drt": {"rho_gd": 0.2, "rho_cm": 0.5},
        "drt-smoothadv": {"rho_gd": 0.2, "rho_cm": 0.5},
        "drt-consistency": {"rho_gd": 0.2, "rho_cm": 0.5},
    },
    schedules={
        "macer": {"lr": 0.02},
        "drt": {"lr": 0.05},
    },
)


def smoke() -> Recipe:
    """The smallest run that goes through every stage; its losses are pinned by a test."""
    return replace(
        DIGITS.recipe("gaussian", 0.25),
        name="smoke",
        summary="the whole pipeline in seconds",
        members=2,
        schedule=Schedule(epochs=3, batch_size=64, lr=0.1, decay_every=2, decay=0.2),
        certification=Certification(n=1_000, every=12),
    )
