"""Exact Gaussian noise for 8-bit images: integer samples, so that rounding breaks no certificate.

    P(k) = Phi((k + 1/2) / (255 sigma)) - Phi((k - 1/2) / (255 sigma)),     noisy pixel = (i + k) / 255

Floating-point noise depends on the pixel to which it is added, and a classifier can see this: certificates
with floating-point noise can be false (Voracek & Hein 2023). Integer noise does not.

Why it is sound. Let f be a member preceded by rounding to the grid of multiples of 1/255. The theorem of
Cohen et al. holds for this f like for any other, under the continuous noise e ~ N(0, sigma^2 I) and
against every real perturbation. At an input x = i/255 on the grid

    round(255 (x + e)) = i + round(255 e) = i + k,        k ~ P above, pixel by pixel,

so integer samples k are enough to estimate the smoothed f there, and f sees (i + k)/255, the same
floating-point number for the same i + k. Inputs off the grid are refused.

How exact it is. There are 2K boundaries b_j = (j - 1/2) / (255 sigma) with |b_j| <= 9, and as many thresholds
T_j = round(2^63 Phi(b_j)). For a random integer u of [0, 2^63), K + k is the number of thresholds that are at
most u. For a real u and 2^63 Phi(b_j) instead of T_j, k would follow P except in the tails. So the two differ
only if u falls between a threshold and its rounding, with a probability below 2^-64 + 2^-90 for each (2^-90
bounds the error of computing Phi), or into the tails beyond the last boundaries, 2 Q(9) < 4.2 * 2^-64. The
total variation distance is below (2K + 5) 2^-64 for a pixel, and at most the sum over an image's pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LEVELS = 255  # steps of the grid between black and white
CUT = 9  # standard deviations up to which there are thresholds: Q(9) = 1.129e-19 keeps the last below 2^63
LARGEST_SIGMA = 16.0  # keeps the sampling error of an ImageNet image below 1e-9, and the table short
LARGEST_PIXEL = 1_000.0  # float32 resolves the steps of the grid well beyond this, with any noise added
TOLERANCE = 1e-4  # how far, in steps, a float32 pixel may be off: i/255 itself is off by up to 255 * 2^-24
GUIDE_BITS = 16  # the leading bits of u, which give most samples without a search
_BITS = 63
_PI = Decimal("3.14159265358979323846264338327950288419716939937510")


def sample(sigma: float, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """k / 255 in float32."""
    import torch

    table = _table(sigma, generator.device)
    u = torch.empty(tuple(shape), dtype=torch.int64, device=generator.device)
    u.random_(generator=generator)  # an int64 is drawn from [0, 2^63)
    return table.look_up(u.view(-1)).view(u.shape)


def upper_count(sigma: float) -> int:
    """K, the number of boundaries in (0, CUT]."""
    return int(CUT * LEVELS * Decimal(sigma) + Decimal("0.5"))


def upper_thresholds(sigma: float) -> list[int]:
    """round(2^63 Phi(b)) at the boundaries b in (0, CUT]; the others mirror them."""
    with localcontext(prec=50):
        unit, half = LEVELS * Decimal(sigma), 2 ** (_BITS - 1)
        boundaries = [(k - Decimal("0.5")) / unit for k in range(1, upper_count(sigma) + 1)]
        return [half + round(2**_BITS * from_mean(boundary)) for boundary in boundaries]


def from_mean(x: Decimal) -> Decimal:
    """Phi(x) - 1/2 = phi(x) sum_n x^(2n+1) / (1 * 3 * ... * (2n+1)) for x >= 0, whose terms are positive."""
    square = x * x
    total, term, odd = x, x, 1
    while 2 * square > odd or term > Decimal("1e-35"):
        odd += 2
        term = term * square / odd
        total += term  # once terms halve from one to the next, the rest is less than the last
    return total * (-square / 2).exp() / (2 * _PI).sqrt()


class _Table(NamedTuple):
    thresholds: Tensor  # (2K,) int64, ascending
    values: Tensor  # (2K + 1,) float32: k / 255 by the number of thresholds that are not above u
    guide: Tensor  # (2^GUIDE_BITS,) float32: the value by the leading bits of u, NaN where they leave it open

    def look_up(self, u: Tensor) -> Tensor:
        """(N,) integers of [0, 2^63) -> (N,)"""
        if u.device.type != "cpu":  # where a search is faster than finding the samples that need one
            return self.search(u)
        samples = self.guide.index_select(0, u >> (_BITS - GUIDE_BITS))
        is_open = samples.isnan().nonzero()[:, 0]
        samples[is_open] = self.search(u[is_open])
        return samples

    def search(self, u: Tensor) -> Tensor:
        import torch

        return self.values[torch.searchsorted(self.thresholds, u, right=True)]


@lru_cache(maxsize=8)
def _table(sigma: float, device: torch.device) -> _Table:
    import torch

    upper = upper_thresholds(sigma)
    thresholds = torch.tensor([2**_BITS - bound for bound in reversed(upper)] + upper, dtype=torch.int64)
    values = (torch.arange(-len(upper), len(upper) + 1).double() / LEVELS).float()
    first = torch.arange(2**GUIDE_BITS) << (_BITS - GUIDE_BITS)
    last = first + (2 ** (_BITS - GUIDE_BITS) - 1)
    at_first, at_last = (torch.searchsorted(thresholds, end, right=True) for end in (first, last))
    guide = torch.where(at_first == at_last, values[at_first], torch.nan)
    return _Table(thresholds.to(device), values.to(device), guide.to(device))
