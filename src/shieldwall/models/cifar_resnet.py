"""Residual networks for 32x32 colour images (He et al. 2016, section 4.2): 6n + 2 layers."""

from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.models.normalize import Normalize


class BasicBlock(nn.Module):
    """Two convolutions around a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


def _cifar_resnet(depth: int, num_classes: int) -> nn.Module:
    blocks = (depth - 2) // 6
    layers: list[nn.Module] = [
        Normalize([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
    ]  # fmt: skip
    channels = 16
    for width in (16, 32, 64):
        for block in range(blocks):
            layers.append(BasicBlock(channels, width, stride=2 if block == 0 and width > 16 else 1))
            channels = width
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, num_classes))
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def resnet20(num_classes: int) -> nn.Module:
    return _cifar_resnet(20, num_classes)


def resnet110(num_classes: int) -> nn.Module:
    return _cifar_resnet(110, num_classes)
