"""8x8 handwritten digits that come with the package: every method within a minute on two cores.

The numbers were chosen on a fifth of the training images, held out: of DRT those that certify most images at
large radii, from trained members; of the others such that no member collapses at any sigma.
"""

from dataclasses import replace

from shieldwall.recipes.methods import Bench
from shieldwall.recipes.recipe import Certification, Recipe
from shieldwall.training.schedule import Schedule

# A larger rho_gd makes members collapse: where one is wrong, it pays no gradient diversity.
RHOS = {"rho_gd": (0.3, 0.4, 0.3), "rho_cm": (0.2, 0.1, 0.2)}

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
        "stability": {"num_noise": 2, "lam": (2.0, 2.0, 1.0)},
        "consistency": {"lam": 5.0},
        "adp": {"alpha": 0.5, "beta": 0.1},
        "drt": RHOS,
        "drt-smoothadv": RHOS,
        "drt-consistency": RHOS,
    },
    schedules={
        "macer": {"lr": 0.05},
        "stability": {"lr": 0.02},
        "gal": {"epochs": 24, "decay_every": 9},
        "drt": {"epochs": 24, "lr": 0.02, "decay_every": 16, "decay": 0.1},
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
