"""Networks for small grey images."""

from torch import nn

from shieldwall.models.normalize import Normalize


def digits_cnn(num_classes: int) -> nn.Module:
    """A convolution and a hidden layer for 8x8 digits; 34,000 parameters at ten classes."""
    return nn.Sequential(
        Normalize([0.305], [0.376]),
        nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 128), nn.ReLU(),
        nn.Linear(128, num_classes),
    )  # fmt: skip


def lenet(num_classes: int) -> nn.Module:
    """The LeNet of the smoothing literature on MNIST: conv 32-32-pool-64-64-pool, dense 200-200."""
    return nn.Sequential(
        Normalize([0.0], [1.0]),
        nn.Conv2d(1, 32, 3), nn.ReLU(),
        nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 200), nn.ReLU(),
        nn.Linear(200, 200), nn.ReLU(),
        nn.Linear(200, num_classes),
    )  # fmt: skip
