"""Noise by name: as recipes write it, and as certificate files record it."""

import math
from collections.abc import Callable

from shieldwall.errors import UserError, unknown_name
from shieldwall.noise.distributions import Gaussian, Laplace, Noise, Uniform
from shieldwall.noise.exact import ExactGaussian

KINDS: dict[str, Callable[[float], Noise]] = {
    "gaussian": Gaussian,
    "uniform": lambda sigma: Uniform(sigma * math.sqrt(3)),
    "laplace": lambda sigma: Laplace(sigma / math.sqrt(2)),
}
"""Noise by name and standard deviation: the same sigma is the same power, whatever the kind."""


def noise_by_name(kind: str, sigma: float) -> Noise:
    """The noise of this kind whose standard deviation is sigma."""
    if kind not in KINDS:
        raise unknown_name("noise", kind, KINDS)
    return KINDS[kind](sigma)


def parse_noise(text: str) -> Noise:
    """The noise that prints as `text`, which is how a certificate file records it: gaussian(0.25)."""
    kinds: dict[str, Callable[[float], Noise]] = {
        "gaussian": Gaussian, "exact-gaussian": ExactGaussian, "uniform": Uniform, "laplace": Laplace
    }  # fmt: skip
    kind, _, written = text.removesuffix(")").partition("(")
    try:
        scale = float(written)
    except ValueError:
        kind = ""
    if kind not in kinds:
        names = "(s), ".join(kinds)
        raise UserError(f"noise is recorded as {names}(s) with a scale s; given: {text!r}")
    return kinds[kind](scale)
