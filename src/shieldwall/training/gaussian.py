"""Gaussian augmentation (Cohen et al. 2019): cross-entropy on noisy copies of each image.

    L = sum_i E_eps CE(f_i(x + eps), y),    eps ~ N(0, sigma^2 I)

The expectation is the mean over `num_noise` copies, the same for every member i.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import UserError
from shieldwall.smoothing.noise import Noise
from shieldwall.training.objective import Loss, Objective


@dataclass(frozen=True)
class GaussianAugmentation(Objective):
    noise: Noise
    num_noise: int = 2

    def __post_init__(self) -> None:
        if self.num_noise < 1:
            raise UserError(f"num_noise (noisy copies per image) must be at least 1; given: {self.num_noise}")

    def __call__(
        self, members: Sequence[nn.Module], x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Loss:
        copies = x.repeat(self.num_noise, 1, 1, 1)
        noisy = copies + self.noise.sample(copies.shape, generator)  # (num_noise * B, C, H, W)
        labels = y.repeat(self.num_noise)
        logits = [member(noisy) for member in members]
        losses = torch.stack([F.cross_entropy(one, labels) for one in logits])
        correct = torch.stack([(one.argmax(-1) == labels).float().mean() for one in logits])
        terms = {"cross_entropy": losses.detach().mean(), "noisy_accuracy": correct.mean()}
        return Loss(losses.sum(), terms)
