"""The radius that bounds on probabilities buy, in the norm asked for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise, check_noise
from shieldwall.smoothing.norms import in_norm
from shieldwall.vocabulary import NORMS


@dataclass(frozen=True)
class Ball:
    """The ball around an input of `size` numbers within which its class stays on top.

    p_a and p_b are bounds on the classes' probabilities under what is sampled. Under the noise itself
    they may be off by its sampling error t, the total variation distance between the two:

        radius = noise.radius(p_a - t, p_b + t), turned into the wanted norm; 0 unless p_a - t > p_b + t
    """

    noise: Noise
    norm: str
    size: int

    @classmethod
    def of(cls, noise: Noise, norm: str | None, size: int | None) -> "Ball":
        """The ball in `norm`, or in the noise's own; the size may be left out where it does not matter."""
        check_noise(noise)
        norm = norm or noise.norm
        if norm not in NORMS:
            raise UserError(f"norm must be one of {', '.join(NORMS)}; given: {norm!r}")
        if size is None:
            same = in_norm(1.0, noise.norm, norm, 1) == in_norm(1.0, noise.norm, norm, 2)
            if not same or noise.sampling_error(2):
                raise UserError(f"radii of {noise} in the norm {norm} depend on the inputs' size: give size=")
            size = 1
        return cls(noise, norm, size)

    def radius(self, p_a: ArrayLike, p_b: ArrayLike | None = None) -> NDArray[np.float64]:
        error = self.noise.sampling_error(self.size)
        a = np.asarray(p_a, dtype=np.float64) - error
        b = (1.0 - np.asarray(p_a, dtype=np.float64) if p_b is None else np.asarray(p_b)) + error
        above = a > b
        a = np.where(above, a, 0.75)  # any probability that has a radius
        only_a = p_b is None and not error
        native = self.noise.radius(a) if only_a else self.noise.radius(a, np.where(above, b, 0.25))
        return np.where(above, in_norm(native, self.noise.norm, self.norm, self.size), 0.0)
