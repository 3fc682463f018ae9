"""The contract of every training method.

An objective turns members and a batch of clean images into one loss. It draws its own noise from the
generator it is handed and holds no state, so that the loop can resume anywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Loss(NamedTuple):
    total: Tensor
    """What the optimizer minimises: a scalar with gradients to every member."""
    terms: dict[str, Tensor]
    """What the log shows: detached scalars, averaged over the batch."""


class Objective(ABC):
    """What training minimises."""

    @abstractmethod
    def __call__(
        self, members: Sequence[nn.Module], x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Loss:
        """The loss at clean images x (B, C, H, W) in [0, 1] with labels y (B,)."""
