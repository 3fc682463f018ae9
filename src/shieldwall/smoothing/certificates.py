"""From counts to certificates: what they prove about the smoothed classifier."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.binomial import check_alpha
from shieldwall.errors import UserError, checked, unknown_name
from shieldwall.noise.distributions import Noise
from shieldwall.results.certificates import Certificates, Ints
from shieldwall.smoothing.count_bounds import Bound, TwoSided, parse_bound
from shieldwall.smoothing.radius import Ball
from shieldwall.vocabulary import ABSTAIN, PRECISIONS

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Counts:
    """How often each class won at one input, for V votes."""

    index: int
    selection: Ints
    """(V, K): on the n0 samples that select the class."""
    estimation: Ints
    """(V, K): on the fresh samples that bound its probability."""


def validate_counts(name: str, counts: "ArrayLike | Tensor") -> Ints:
    """The counts as int64; fractions and negative numbers are refused. Read-only ones are not copied."""
    from_device = getattr(counts, "cpu", None)  # of a tensor
    array = np.asarray(counts if from_device is None else from_device().numpy())
    if not np.issubdtype(array.dtype, np.integer):
        raise UserError(f"{name} must be whole numbers, such as int64; given: {array.dtype}")
    array = array.astype(np.int64, copy=array.flags.writeable)
    if (array < 0).any():
        raise UserError(f"{name} must not be negative; given: {int(array.min())}")
    return array


def check_precision(name: str) -> None:
    if name not in PRECISIONS:
        raise unknown_name("precision", name, PRECISIONS)


@checked
def certificates_from_counts(
    selection_counts: "ArrayLike | Tensor", counts: "ArrayLike | Tensor", noise: Noise | str | float,
    alpha: float, *, bound: Bound | str = "one-sided", norm: str | None = None, size: int | None = None,
    precision: str = "float32", seed: int | None = None,
) -> Certificates:  # fmt: skip
    """Certificates from counts alone, (M, K) each: another alpha needs no new samples.

    Args:
        noise: the noise, or its text in a certificate file: gaussian(0.25).
        bound: the bound, or its text in a certificate file: one-sided, two-sided(0.05), ...
        norm: the norm of the radii; by default the norm of the noise.
        size: the number of values per input, for norms in which radii depend on it.
        precision: the precision of the forward passes.
        seed: the noise seed.
    """
    check_alpha(alpha)
    selection = validate_counts("selection_counts", selection_counts)
    estimation = validate_counts("counts", counts)
    if estimation.ndim != 2 or estimation.shape[1] < 2 or selection.shape != estimation.shape:
        raise UserError(
            "selection_counts and counts must both be (M, K), with the same M inputs and K >= 2 classes; "
            f"given shapes: {selection.shape} and {estimation.shape}"
        )
    check_precision(precision)
    ball, bound = Ball.of(noise, norm, size), parse_bound(bound)
    chosen = selection.argmax(-1)
    p_lower, p_upper = bound(chosen, estimation, alpha)
    radii = ball.radius(p_lower, p_upper if isinstance(bound, TwoSided) else None)
    return Certificates(
        labels=np.where(radii > 0, chosen, ABSTAIN), radii=radii, p_lower=p_lower, p_upper=p_upper,
        counts=estimation, selection_counts=selection, alpha=alpha, bound=str(bound),
        noise=str(ball.noise), norm=ball.norm, precision=precision, seed=seed,
    )  # fmt: skip
