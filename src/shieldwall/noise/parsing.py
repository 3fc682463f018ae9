"""Noise as certificate files record it, read back."""

from collections.abc import Callable

from shieldwall.errors import UserError
from shieldwall.noise.distributions import Gaussian, Laplace, Noise, Uniform
from shieldwall.noise.exact import ExactGaussian


def parse_noise(text: str) -> Noise:
    """The noise that prints as `text`, which is how a certificate file records it: gaussian(0.25)."""
    kinds: dict[str, Callable[[float], Noise]] = {
        "gaussian": Gaussian,
        "exact-gaussian": ExactGaussian,
        "uniform": Uniform,
        "laplace": Laplace,
    }
    name, _, scale = text.removesuffix(")").partition("(")
    try:
        return kinds[name](float(scale))
    except UserError:
        raise
    except (KeyError, ValueError) as error:
        raise UserError(
            f"noise is recorded as {'(s), '.join(kinds)}(s) with a scale s; given: {text!r}"
        ) from error
