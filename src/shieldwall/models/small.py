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
    """The LeNet of the smoothing literature on MNIST; 431,080 parameters at ten classes, no normalisation."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(50 * 4 * 4, 500), nn.ReLU(),
        nn.Linear(500, num_classes),
    )  # fmt: skip
