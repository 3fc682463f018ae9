"""CIFAR-10 as in the paper, adx-subsec:cifar: ResNet-110, 150 epochs, every 10th test image."""

from shieldwall.recipes.methods import Bench
from shieldwall.recipes.recipe import Certification, Recipe
from shieldwall.training.schedule import Schedule

CIFAR10 = Bench(
    Recipe(
        name="cifar10-gaussian",
        summary="Gaussian augmentation",
        data="cifar10",
        model="resnet110",
        sigma=0.5,
        schedule=Schedule(epochs=150, batch_size=256, lr=0.1, decay_every=50, precision="bfloat16"),
        certification=Certification(every=10),
    ),
    numbers={
        "macer": {"lam": (12.0, 6.0, 12.0)},
        "consistency": {"lam": (20.0, 10.0, 10.0)},
        # tab:bigcifartable0.25, 0.50 and 1.00: the pair that is best for WE at the largest radius; of the
        # two at sigma 0.5 the one that is better at the others.
        "drt": {"rho_gd": (0.2, 5.0, 5.0), "rho_cm": (0.5, 5.0, 2.5)},
        "drt-smoothadv": {"rho_gd": (0.2, 1.5, 1.0), "rho_cm": (0.5, 5.0, 5.0)},
        # Not in the paper: the pairs around SmoothAdv that are best for WE on average over the radii.
        "drt-consistency": {"rho_gd": (0.1, 1.0, 1.0), "rho_cm": (0.5, 5.0, 5.0)},
    },
    schedules={
        # Zhai et al. (2020): with 16 copies of each image.
        "macer": {"epochs": 440, "lr": 0.01, "batch_size": 64, "decay_every": 200},
        # DRT fine-tunes: `--from` a run of the method it wraps. Of its learning rate the paper says "small".
        "drt": {"lr": 0.01},
    },
)
