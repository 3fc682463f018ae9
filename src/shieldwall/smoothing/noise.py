"""Noise: what is added to an input, and the radius that a class probability under it buys."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from shieldwall.errors import UserError


class Noise(ABC):
    """A distribution over perturbations, the same for every input."""

    @abstractmethod
    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        """Independent draws of the given shape, on the generator's device."""

    @abstractmethod
    def radius(self, p: ArrayLike) -> NDArray[np.float64]:
        """The radius within which a class of probability at least p > 1/2 stays on top."""


@dataclass(frozen=True)
class Gaussian(Noise):
    """N(0, sigma^2 I), certifying the L2 ball (lem:rand-smooth-vanilla-certify with p_B = 1 - p_A)

    r = sigma * Phi^-1(p)
    """

    sigma: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sigma) and self.sigma > 0):
            raise UserError(f"sigma must be a positive number; given: {self.sigma}")

    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=generator, device=generator.device).mul_(self.sigma)

    def radius(self, p: ArrayLike) -> NDArray[np.float64]:
        from scipy.special import ndtri

        return self.sigma * np.asarray(ndtri(np.asarray(p, dtype=np.float64)))

    def __str__(self) -> str:
        return f"gaussian({self.sigma!r})"
