"""Normalisation as the first layer of a member, so that noise is always added to pixels in [0, 1]."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shieldwall.errors import UserError


class Normalize(nn.Module):
    """(x - mean) / std per channel, on images (B, C, H, W)."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        means, stds = _per_channel("mean", mean), _per_channel("std", std)
        if len(means) != len(stds):
            given = f"{len(means)} and {len(stds)}"
            raise UserError(f"Normalize takes a mean and a std for each channel; given: {given}")
        if min(stds) <= 0:
            raise UserError(f"Normalize divides by std, which must be positive; given: {stds}")
        self.register_buffer("mean", torch.tensor(means).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(stds).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        channels = len(self.mean)
        if x.ndim < 3 or x.shape[-3] != channels:
            raise UserError(
                f"Normalize was made for images (B, {channels}, H, W); given shape: {tuple(x.shape)}"
                + ("; for a single image pass x[None]" if x.ndim == 3 else "")
            )
        return (x - self.mean) / self.std


def _per_channel(name: str, values: Sequence[float]) -> list[float]:
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} must be a list of one number per channel; given: {values!r}") from error
    if not numbers or not all(map(math.isfinite, numbers)):
        raise UserError(f"{name} must be a list of one finite number per channel; given: {values!r}")
    return numbers
