"""The networks by name, each with its normalisation inside.

`digits-cnn` and `lenet` are for small grey images, `resnet20` and `resnet110` for 32x32 colour images (He et
al. 2016, section 4.2: 6n + 2 layers), `resnet50` for 224x224 colour images (same paper; stride in the 3x3
convolution). Published ImageNet weights load into its `network`.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import UserError, check


class Normalize(nn.Module):
    """(x - mean) / std per channel, on images (B, C, H, W): inside a member, as noise is added to pixels."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        means, stds = _per_channel("mean", mean), _per_channel("std", std)
        numbers = f"{len(means)} and {len(stds)}"
        check(len(means) == len(stds), "Normalize takes a mean and a std for each channel", numbers)
        check(min(stds) > 0, "Normalize divides by std, which must be positive", stds)
        self.register_buffer("mean", torch.tensor(means).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(stds).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        channels = len(self.mean)
        if x.ndim < 3 or x.shape[-3] != channels:
            hint = "; for a single image pass x[None]" if x.ndim == 3 else ""
            made_for = f"Normalize was made for images (B, {channels}, H, W)"
            raise UserError(f"{made_for}; given shape: {tuple(x.shape)}{hint}")
        return (x - self.mean) / self.std


def _per_channel(name: str, values: Sequence[float]) -> list[float]:
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        numbers = []
    are_finite = numbers and all(map(math.isfinite, numbers))
    check(are_finite, f"{name} must be a list of one finite number per channel", repr(values))
    return numbers


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


class BasicBlock(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.shortcut = _shortcut(channels_in, channels_out, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


def _shortcut(channels_in: int, channels_out: int, stride: int) -> nn.Module:
    """A 1x1 convolution where the shape changes, else nothing."""
    if stride == 1 and channels_in == channels_out:
        return nn.Identity()
    convolution = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out))


def _initialised(network: nn.Module) -> nn.Module:
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def cifar_resnet(num_classes: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = [
        Normalize([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
    ]  # fmt: skip
    channels = 16
    for width in (16, 32, 64):
        for block in range((depth - 2) // 6):
            layers.append(BasicBlock(channels, width, stride=2 if block == 0 and width > 16 else 1))
            channels = width
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, num_classes)
    return _initialised(nn.Sequential(*layers, *head))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around a shortcut; four times as many channels out as within."""

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = _shortcut(channels_in, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + self.downsample(x))


def _stage(channels_in: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    first = Bottleneck(channels_in, width, stride)
    return nn.Sequential(first, *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)))


def resnet50(num_classes: int) -> nn.Module:
    layers = OrderedDict[str, nn.Module](
        conv1=nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), bn1=nn.BatchNorm2d(64), relu=nn.ReLU(),
        maxpool=nn.MaxPool2d(3, 2, padding=1),
        layer1=_stage(64, 64, blocks=3, stride=1), layer2=_stage(256, 128, blocks=4, stride=2),
        layer3=_stage(512, 256, blocks=6, stride=2), layer4=_stage(1024, 512, blocks=3, stride=2),
        avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(2048, num_classes),
    )  # fmt: skip
    normalize = Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    network = _initialised(nn.Sequential(layers))
    return nn.Sequential(OrderedDict[str, nn.Module](normalize=normalize, network=network))
