"""ImageNet: ResNet-50, 90 epochs, every 100th validation image."""

from shieldwall.recipes.recipe import Certification, Recipe
from shieldwall.training.schedule import Schedule


def gaussian(sigma: float) -> Recipe:
    return Recipe(
        name="imagenet-gaussian",
        summary="three ResNet-50s on ImageNet, Gaussian augmentation",
        data="imagenet",
        model="resnet50",
        sigma=sigma,
        objective={"name": "gaussian", "num_noise": 1},
        schedule=Schedule(epochs=90, batch_size=256, lr=0.1, decay_every=30),
        certification=Certification(every=100),
    )
