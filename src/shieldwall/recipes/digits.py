"""8x8 handwritten digits that ship inside scikit-learn: every method within a minute on two cores."""

from dataclasses import replace

from shieldwall.recipes.recipe import Certification, Recipe
from shieldwall.training.schedule import Schedule


def gaussian(sigma: float = 0.25) -> Recipe:
    return Recipe(
        name="digits-gaussian",
        summary="three small networks on 8x8 digits, Gaussian augmentation",
        data="digits",
        model="digits-cnn",
        sigma=sigma,
        schedule=Schedule(epochs=40, batch_size=64, lr=0.1, decay_every=15, decay=0.2),
        certification=Certification(n=10_000),
    )


def smoke() -> Recipe:
    """The smallest run that goes through every stage; its losses are pinned by a test."""
    return replace(
        gaussian(),
        name="smoke",
        summary="the whole pipeline in seconds, to see that it works",
        members=2,
        schedule=Schedule(epochs=3, batch_size=64, lr=0.1, decay_every=2, decay=0.2),
        certification=Certification(n=1_000, every=12),
    )
