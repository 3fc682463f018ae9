"""The certified radius from bounds on probabilities, in the norm asked for.

    r_q = r_p / d^max(0, 1/p - 1/q)

In d dimensions ||v||_p <= d^max(0, 1/p - 1/q) ||v||_q, by Hoelder's inequality where p < q and because
norms fall with their order where p >= q; a vector of equal entries, or one along an axis, attains it. So
the q-ball of radius r_q lies in the p-ball of radius r_p, and no larger one does.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.errors import UserError, unknown_name
from shieldwall.noise.distributions import Noise, as_noise, parse_noise
from shieldwall.results.certificates import Floats
from shieldwall.vocabulary import NORMS

_INVERSE_ORDER = dict(zip(NORMS, (1.0, 0.5, 0.0), strict=True))
_Radius = TypeVar("_Radius", float, Floats)


def in_norm(radius: _Radius, native: str, wanted: str, size: int) -> _Radius:
    """The radius of the largest `wanted`-ball in the `native` ball of this radius, in `size` dimensions."""
    for norm in (native, wanted):
        if norm not in NORMS:
            raise unknown_name("norm", norm, NORMS)
    if size < 1:
        raise UserError(f"an input has at least one dimension; given: {size}")
    widest: float = size ** max(0.0, _INVERSE_ORDER[native] - _INVERSE_ORDER[wanted])
    return radius / widest


@dataclass(frozen=True)
class Ball:
    """The ball around an input of `size` numbers within which its class stays on top.

    p_a and p_b are bounds on the classes' probabilities under what is sampled. Under the noise itself
    they may be off by its total variation distance t from what is sampled:

        radius = noise.radius(p_a - t, p_b + t), turned into the wanted norm; 0 unless p_a - t > p_b + t
    """

    noise: Noise
    norm: str
    size: int

    @classmethod
    def of(cls, noise: Noise | str | float, norm: str | None, size: int | None) -> "Ball":
        """The ball in `norm`, by default the noise's; `size` is needed only where radii depend on it."""
        noise = parse_noise(noise) if isinstance(noise, str) else as_noise(noise)
        norm = noise.norm if norm is None else norm
        if (in_norm(1.0, noise.norm, norm, 2) != 1 or noise.total_variation(2)) and size is None:
            raise UserError(f"radii of {noise} in the norm {norm} depend on the inputs' size: give size=")
        return cls(noise, norm, 1 if size is None else size)

    def radius(self, p_a: ArrayLike, p_b: ArrayLike | None = None) -> Floats:
        distance = self.noise.total_variation(self.size)
        a = np.asarray(p_a, dtype=np.float64) - distance
        b = (1.0 - np.asarray(p_a, dtype=np.float64) if p_b is None else np.asarray(p_b)) + distance
        above = a > b
        a = np.where(above, a, 0.75)  # any probability that has a radius
        only_a = p_b is None and not distance
        native = self.noise.radius(a) if only_a else self.noise.radius(a, np.where(above, b, 0.25))
        return np.where(above, in_norm(native, self.noise.norm, self.norm, self.size), 0.0)
