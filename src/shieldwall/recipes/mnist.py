"""MNIST and Fashion-MNIST as in the paper: LeNet, 90 epochs, every 10th test image."""

from dataclasses import replace

from shieldwall.recipes.recipe import Certification, Recipe
from shieldwall.training.schedule import Schedule


def gaussian(sigma: float) -> Recipe:
    return Recipe(
        name="mnist-gaussian",
        summary="three LeNets on MNIST, Gaussian augmentation",
        data="mnist",
        model="lenet",
        sigma=sigma,
        schedule=Schedule(epochs=90, batch_size=256, lr=0.01, decay_every=30),
        certification=Certification(every=10),
    )


def fashion_gaussian(sigma: float) -> Recipe:
    return replace(
        gaussian(sigma),
        name="fashion-mnist-gaussian",
        summary="three LeNets on Fashion-MNIST, Gaussian augmentation",
        data="fashion-mnist",
    )
