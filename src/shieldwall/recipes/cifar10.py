"""CIFAR-10 as in the paper: ResNet-110, 150 epochs, every 10th test image."""

from shieldwall.recipes.recipe import Certification, Recipe
from shieldwall.training.schedule import Schedule


def gaussian(sigma: float) -> Recipe:
    return Recipe(
        name="cifar10-gaussian",
        summary="three ResNet-110s on CIFAR-10, Gaussian augmentation",
        data="cifar10",
        model="resnet110",
        sigma=sigma,
        objective={"name": "gaussian", "num_noise": 2},
        schedule=Schedule(epochs=150, batch_size=256, lr=0.1, decay_every=50),
        certification=Certification(every=10),
    )
