"""Two members against each alone: cor:robust-radius-lower-bound-for-ensemble-constructed-from-single-models.

    both members r-robust and beta-smooth, the cosine of their gradients at most cos(theta), Delta in [0, 1):

    R = r K,    K = (1 - Delta) / (1 + Delta) / max{ sqrt(1 - C (1 - cos(theta))), (1 + sqrt(1 - 2C)) / 2 }

    C_WE  = min_y      2 w_1 w_2 f_1^{y0/y} f_2^{y0/y} / (w_1 f_1^{y0/y} + w_2 f_2^{y0/y})^2
    C_MME = min_{y,y'} 2 f_1^{y0/y} f_2^{y0/y'} / (f_1^{y0/y} + f_2^{y0/y'})^2
    provided that    beta r^2 max(K, 1)^2 <= Delta f_i^{y0/y} for both members and every y

Then the ensemble is R-robust. The second term of the maximum, which the paper does not print, is the larger
member's share of the margin sum, s (C = 2 s (1 - s)): the norm of the sum is convex in the two lengths, so it
is largest with both members as steep as they may be, or with one so and the other flat. The latter decides if
cos(theta) < -(1 - s) / (2 s). As s >= 1/2, K <= 2: the corollary at most doubles a radius.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.errors import check
from shieldwall.theory import conditions
from shieldwall.theory.conditions import Floats, checked_margins, floats

HALVINGS = 60


@dataclass(frozen=True)
class Comparison:
    """What the corollary says of an ensemble of two members at inputs (...), each field (...)."""

    radius: Floats  #: R; 0 where no Delta below 1 satisfies the proviso
    gain: Floats  #: K = R / r
    evenness: Floats  #: C, in (0, 1/2]; NaN where a margin or a weight is not positive
    cosine: Floats  #: cos(theta), the largest over the classes or pairs of them; -1 where a gradient is 0
    delta: Floats  #: the least Delta that satisfies the proviso, so the largest R; NaN where none does


def compare_weighted(
    margins: ArrayLike, gradients: ArrayLike, weights: ArrayLike | None = None, *, r: ArrayLike, beta: float
) -> Comparison:
    """The corollary for WE of two beta-smooth members, both robust within r, one number or (...).

    Margins are (2, ..., C), gradients (2, ..., C, d), as in `theory.conditions`.
    """
    m, g = conditions.checked(_pair_margins(margins), gradients)
    return _compare(m, evenness_weighted(m, weights), _cosine(g[0], g[1]), r, beta)


def compare_max_margin(margins: ArrayLike, gradients: ArrayLike, *, r: ArrayLike, beta: float) -> Comparison:
    """The corollary for MME of two members; the arguments are those of `compare_weighted`."""
    m, g = conditions.checked(_pair_margins(margins), gradients)
    by_class = [_cosine(g[0][..., y, None, :], g[1]) for y in range(m.shape[-1])]
    return _compare(m, evenness_max_margin(m), np.max(by_class, axis=0), r, beta)


def evenness_weighted(margins: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """C_WE from margins (2, ..., C), (...); 1/2 if both members have the same part of every margin sum."""
    m, w = _pair_margins(margins), conditions.normalized_weights(weights, 2)
    return _evenness(w[0] * m[0], w[1] * m[1])


def evenness_max_margin(margins: ArrayLike) -> Floats:
    """C_MME from margins (2, ..., C), (...)."""
    m = _pair_margins(margins)
    return _evenness(m[0][..., :, None], m[1][..., None, :], (-2, -1))


def radius_gain(evenness: ArrayLike, cosine: ArrayLike, delta: ArrayLike) -> Floats:
    """K = R / r."""
    c, cos, d = floats(evenness), floats(cosine), floats(delta)
    both_steepest = np.sqrt(np.maximum(1.0 - c * (1.0 - cos), 0.0))
    one_flat = (1.0 + np.sqrt(np.maximum(1.0 - 2.0 * c, 0.0))) / 2.0
    return np.asarray((1.0 - d) / (1.0 + d) / np.maximum(both_steepest, one_flat))


def cosine_needed(evenness: ArrayLike, delta: ArrayLike) -> Floats:
    """1 - 4 Delta / (C (1 + Delta)^2): R > r only if cos(theta) is below it.

    That is enough if (1 - Delta) / (1 + Delta) > (1 + sqrt(1 - 2C)) / 2.
    """
    d = floats(delta)
    return np.asarray(1.0 - 4.0 * d / (floats(evenness) * (1.0 + d) ** 2))


def optimal_weights(margins: ArrayLike) -> Floats:
    """The weights (..., 2), adding up to 1, with the largest C_WE for margins (2, ..., C), all positive.

        w_1 / w_2 = 1 / sqrt(max_y q_y min_y q_y),    q_y = f_1^{y0/y} / f_2^{y0/y}

    The term of class y in C_WE falls as |log(w_1 / w_2) + log q_y| grows; this ratio puts the two extreme
    classes equally far from 0.
    """
    m = _pair_margins(margins)
    check((m > 0).all(), "optimal weights need positive margins", m.min())
    log_ratio = np.log(m[0]) - np.log(m[1])
    centre = (log_ratio.max(-1) + log_ratio.min(-1)) / 2.0
    first = 1.0 / (1.0 + np.exp(centre))
    return np.stack([first, 1.0 - first], axis=-1)


def radius_by_size(
    margins: ArrayLike, gradients: ArrayLike, weights: ArrayLike | None = None, *, beta: float
) -> Floats:
    """WE's certified radius with the first 1, 2, ..., N members, (N, ...).

    prop:larger-n-better-robustness: each radius is above the smaller one of the radius before it and the
    radius of the added member alone, if their weighted gradients are neither 0 nor parallel for any class.
    """
    m, g = floats(margins), floats(gradients)
    w = conditions.checked_weights(weights, len(m))
    first = (conditions.weighted_conditions(m[:n], g[:n], w[:n], beta=beta) for n in range(1, len(m) + 1))
    return np.stack([of_first.certified_radius() for of_first in first])


def _compare(margins: Floats, evenness: Floats, cosine: Floats, r: ArrayLike, beta: float) -> Comparison:
    radius = floats(r)
    rule = "r must be positive and beta not negative"
    check((radius > 0).all() and beta >= 0, rule, f"{radius.min(initial=np.inf)}, {beta}")
    least = margins.min((0, -1))
    curvature = beta * radius**2 / np.where(least > 0, least, np.nan)
    delta = _least_delta(curvature, evenness, cosine)
    gain = np.nan_to_num(radius_gain(evenness, cosine, delta), nan=0.0)
    return Comparison(radius * gain, gain, evenness, np.asarray(cosine), delta)


def _least_delta(curvature: Floats, evenness: Floats, cosine: Floats) -> Floats:
    """The least Delta with curvature <= Delta / max(K, 1)^2, which grows from 0 to 1 with Delta."""
    low, high = np.zeros_like(curvature), np.where(curvature < 1.0, 1.0, np.nan)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        enough = middle / np.maximum(radius_gain(evenness, cosine, middle), 1.0) ** 2 >= curvature
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(curvature == 0.0, 0.0, high)


def _evenness(first: Floats, second: Floats, rivals: tuple[int, ...] = (-1,)) -> Floats:
    positive = ((first > 0) & (second > 0)).all(rivals, keepdims=True)
    total = np.where(positive, first + second, np.nan)
    return np.asarray((2.0 * (first / total) * (second / total)).min(rivals))


def _cosine(first: Floats, second: Floats) -> Floats:
    return np.asarray(np.nan_to_num(conditions.cosines(first, second), nan=-1.0).max(-1))


def _pair_margins(margins: ArrayLike) -> Floats:
    m = checked_margins(margins)
    check(len(m) == 2, "margins of two members are (2, ..., C), classes other than y0 last", m.shape)
    return m
