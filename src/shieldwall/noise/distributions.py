"""Noise: what is added to an input, and the radius r that a class probability under it certifies.

If an event A has probability at least p_A at the input, and an event B at most p_B, then A is more likely
than B at every point nearer than r, be they disjoint or not. In the proofs the input moves by v, and s is the
norm of v over the noise's scale.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.errors import UserError, check, check_name, check_number, describe
from shieldwall.noise import exact

if TYPE_CHECKING:
    import torch
    from torch import Tensor

TRAINED_NOISE = "trained_noise"  # the attribute of a loaded module that holds the noise it was trained with


class Noise(ABC):
    """A distribution over perturbations, the same for every input."""

    norm: ClassVar[str]  # of the ball of `radius`: "l1" or "l2"

    @abstractmethod
    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        """Independent noise of the given shape, on the generator's device."""

    @abstractmethod
    def radius(self, p_a: ArrayLike, p_b: ArrayLike | None = None) -> NDArray[np.float64]:
        """That within which a class of probability at least p_a stays above those of at most p_b, 1 - p_a by
        default. Where p_a > p_b, the radius is valid and not negative."""

    def perturb(self, x: Tensor, draws: Tensor) -> Tensor:
        """The noisy inputs (B, *shape) from noise samples of that shape, which may be overwritten."""
        return draws.add_(x)

    def total_variation(self, size: int) -> float:
        """A bound on the total variation distance of samples of `size` numbers from the ideal ones, but for
        floating-point rounding, which `ExactGaussian` alone is free of."""
        return 0.0

    def validate(self, x: Tensor) -> None:  # noqa: B027 (most noise takes any input)
        """Refuse inputs that do not suit the noise."""


class _Scaled(Noise):
    """Noise of a kind that has one number, its scale."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        ((name, scale),) = vars(self).items()
        check_number(name, scale)
        check(math.isfinite(scale) and scale > 0, f"{name} must be a positive number", scale)

    def __str__(self) -> str:
        (scale,) = vars(self).values()
        return f"{self.kind}({scale!r})"


@dataclass(frozen=True)
class Gaussian(_Scaled):
    """N(0, sigma^2 I), certifying the L2 ball (lem:rand-smooth-vanilla-certify)

    r = sigma/2 (Phi^-1(p_A) - Phi^-1(p_B)),   which is sigma Phi^-1(p_A) for p_B = 1 - p_A

    By the lemma of Neyman and Pearson, the set of probability p_A that loses most is the half-space of
    the points furthest against v, which keeps Phi(Phi^-1(p_A) - s). A set of probability p_B gains at most
    up to Phi(Phi^-1(p_B) + s). The first is larger while 2s < Phi^-1(p_A) - Phi^-1(p_B).
    """

    sigma: float
    kind: ClassVar[str] = "gaussian"
    norm: ClassVar[str] = "l2"

    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        import torch

        return torch.randn(shape, generator=generator, device=generator.device).mul_(self.sigma)

    def radius(self, p_a: ArrayLike, p_b: ArrayLike | None = None) -> NDArray[np.float64]:
        from scipy.special import ndtri

        a = np.asarray(ndtri(np.asarray(p_a, dtype=np.float64)))
        if p_b is None:
            return self.sigma * a
        with np.errstate(invalid="ignore"):
            gap = a - ndtri(np.asarray(p_b, dtype=np.float64))
        return np.asarray(np.fmax(self.sigma / 2 * gap, 0.0))


@dataclass(frozen=True)
class ExactGaussian(Gaussian):
    """N(0, sigma^2 I) rounded to multiples of 1/255, sampled exactly; the radius is that of `Gaussian`.

    `noise/exact.py` proves that no rounding breaks its certificates.
    """

    kind: ClassVar[str] = "exact-gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        most = exact.LARGEST_SIGMA
        check(self.sigma <= most, f"exact noise takes a sigma of at most {most:g}", self.sigma)

    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return exact.sample(self.sigma, shape, generator)

    def perturb(self, x: Tensor, draws: Tensor) -> Tensor:
        """(i + k) / 255: the sum is so near to the grid that rounding finds i + k."""
        return draws.add_(x).mul_(exact.LEVELS).round_().div_(exact.LEVELS)

    def total_variation(self, size: int) -> float:
        return size * (2 * exact.upper_count(self.sigma) + 5) * 2.0**-64

    def validate(self, x: Tensor) -> None:
        steps = x.double() * exact.LEVELS
        off = ((steps - steps.round()).abs() > exact.TOLERANCE) | (x.abs() > exact.LARGEST_PIXEL)
        if bool(off.any()):
            rule = "exact noise takes 8-bit images, whose pixels are multiples of 1/255"
            raise UserError(f"{rule}; given: {x[off][0].item():g}, which is {steps[off][0].item():g}/255")


@dataclass(frozen=True)
class Uniform(_Scaled):
    """Each pixel uniform on [-lam, lam], certifying the L1 ball (Lee et al. 2019; Yang et al. 2020)

    r = lam (p_A - p_B),   which is 2 lam (p_A - 1/2) for p_B = 1 - p_A

    The cube of the noise and the cube moved by v share the part prod_i (1 - |v_i| / (2 lam)) of their
    volumes, at least 1 - s/2. So no set gains or loses a probability of more than s/2, and
    p_A - s/2 > p_B + s/2 while s < p_A - p_B.
    """

    lam: float
    kind: ClassVar[str] = "uniform"
    norm: ClassVar[str] = "l1"

    @property
    def sigma(self) -> float:
        return self.lam / math.sqrt(3)

    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        import torch

        drawn = torch.empty(tuple(shape), device=generator.device)
        return drawn.uniform_(-self.lam, self.lam, generator=generator)

    def radius(self, p_a: ArrayLike, p_b: ArrayLike | None = None) -> NDArray[np.float64]:
        a = np.asarray(p_a, dtype=np.float64)
        b = 1.0 - a if p_b is None else np.asarray(p_b, dtype=np.float64)
        return np.asarray(self.lam * (a - b))


@dataclass(frozen=True)
class Laplace(_Scaled):
    """Density exp(-|e| / lam) / (2 lam) in each pixel, certifying the L1 ball (Teng et al. 2020)

    r = lam max( -log(1 - p_A + p_B), 1/2 log(p_A / p_B), 1/2 log((1 - p_B) / (1 - p_A)) ),
        which is -lam log(2 (1 - p_A)) for p_B = 1 - p_A

    Moving by v changes the density, and so every probability, by a factor between e^-s and e^s:
    P(A) >= max(e^-s p_A, 1 - e^s (1 - p_A)) and P(B) <= min(e^s p_B, 1 - e^-s (1 - p_B)). The three terms
    of r are where the second lower bound meets the first upper one, the first the first, and the second the
    second.
    """

    lam: float
    kind: ClassVar[str] = "laplace"
    norm: ClassVar[str] = "l1"

    @property
    def sigma(self) -> float:
        return self.lam * math.sqrt(2)

    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        import torch

        drawn = torch.empty(tuple(shape), device=generator.device)
        return standard_laplace(drawn.uniform_(-1.0, 1.0, generator=generator)).mul_(self.lam)

    def radius(self, p_a: ArrayLike, p_b: ArrayLike | None = None) -> NDArray[np.float64]:
        a = np.asarray(p_a, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            if p_b is None:
                return np.asarray(-self.lam * np.log(2.0 * (1.0 - a)))
            b = np.asarray(p_b, dtype=np.float64)
            of_sum = -np.log(1.0 - a + b)
            of_ratio = (np.log(a) - np.log(b)) / 2
            of_complements = (np.log1p(-b) - np.log1p(-a)) / 2
            return self.lam * np.fmax(of_sum, np.fmax(of_ratio, of_complements))


def standard_laplace(u: Tensor) -> Tensor:
    """-sign(u) log(1 - |u|) for float32 u on [-1, 1), overwriting u."""
    u.add_(2.0**-24)  # half a step of u: it is symmetric then, and never 0 or -1, where the logarithm ends
    return u.abs().neg_().log1p_().copysign_(u)


def as_noise(given: object) -> Noise:
    """The noise; a number is the sigma of Gaussian noise."""
    if isinstance(given, Real) and not isinstance(given, bool):
        return Gaussian(float(given))
    return check_noise(given)


def check_noise(given: object) -> Noise:
    if isinstance(given, Noise):
        return given
    example = f"sw.Gaussian({given if isinstance(given, Real) else 0.25})"
    raise UserError(f"noise must be a distribution, such as {example}; given: {describe(given)}")


KINDS: dict[str, Callable[[float], Noise]] = {
    "gaussian": Gaussian,
    "uniform": lambda sigma: Uniform(sigma * math.sqrt(3)),
    "laplace": lambda sigma: Laplace(sigma / math.sqrt(2)),
}
"""Noise by name and standard deviation: the same sigma is the same power, whatever the kind."""


def noise_by_name(kind: str, sigma: float) -> Noise:
    check_name("noise", kind, KINDS)
    return KINDS[kind](sigma)


def parse_noise(text: str) -> Noise:
    """The noise that prints as `text`, which is how a certificate file records it: gaussian(0.25)."""
    kinds = {noise.kind: noise for noise in (Gaussian, ExactGaussian, Uniform, Laplace)}
    kind, _, written = text.removesuffix(")").partition("(")
    try:
        scale = float(written)
    except ValueError:
        kind = ""
    if kind not in kinds:
        raise UserError(f"noise is recorded as {'(s), '.join(kinds)}(s) with a scale s; given: {text!r}")
    return kinds[kind](scale)
