"""A classifier whose smoothed radius is known exactly.

For scores (s, -s) with s(x) = w.x + b and Gaussian noise, P(class 0) = Phi(s / (sigma ||w||)), so the
radius sigma Phi^-1(p) of the leading class is |s| / ||w||: the distance to the boundary.
"""

import torch
from torch import Tensor, nn


class Linear(nn.Module):
    def __init__(self, dimension: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.w = nn.Parameter(torch.randn(dimension, generator=generator))
        self.b = nn.Parameter(-0.5 * self.w.detach().sum())

    def signed(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.w + self.b

    def forward(self, x: Tensor) -> Tensor:
        s = self.signed(x)
        return torch.stack([s, -s], dim=1)

    def radius(self, x: Tensor) -> Tensor:
        return (self.signed(x).abs() / self.w.norm()).double().detach()

    def label(self, x: Tensor) -> Tensor:
        return (self.signed(x) < 0).long()
