"""ImageNet as in the paper: ResNet-50, 90 epochs, every 100th validation image.

The paper prints the schedules, DRT's fine-tuning among them, but of the methods' numbers only that rho_1 and
rho_2 are "large": those below are CIFAR-10's, on fewer copies and attack steps, which 224x224 images allow.
"""

from shieldwall.recipes.cifar10 import CIFAR10
from shieldwall.recipes.methods import Bench
from shieldwall.recipes.recipe import Certification, Recipe
from shieldwall.training.schedule import Schedule

METHODS = ("gaussian", "smoothadv", "macer", "drt", "drt-smoothadv")
"""Those of tab:imagenettable."""

IMAGENET = Bench(
    Recipe(
        name="imagenet-gaussian",
        summary="Gaussian augmentation",
        data="imagenet",
        model="resnet50",
        sigma=0.5,
        schedule=Schedule(epochs=90, batch_size=256, lr=0.1, decay_every=30, precision="bfloat16"),
        certification=Certification(every=100),
    ),
    numbers={
        "gaussian": {"num_noise": 1},
        "smoothadv": {"num_noise": 1, "steps": 1},
        "macer": {**CIFAR10.numbers["macer"], "num_noise": 2},
        "drt": CIFAR10.numbers["drt"],
        "drt-smoothadv": CIFAR10.numbers["drt-smoothadv"],
    },
    schedules={"drt": {"lr": 0.005}},
)
