"""When an ensemble of smooth members is robust: margins and gradients against the radius.

    f_i^{y0/y}(x) = f_i(x)_{y0} - f_i(x)_y,    every f_i(x)_y beta-smooth (def:beta-smooth)

Each theorem gives a vote a margin m and a slope a (a gradient's norm) at x0, against each of its rivals. The
least value of the margin within s of x0 lies between m - a s - beta s^2 and m - a s + beta s^2. So, if the
vote returns y0 at x0:

    sufficient: a <= m/r - beta r against every rival  =>  r-robust  =>  necessary: a <= m/r + beta r
    ERI (eq:I): I = a - m/r, so sufficient is max I <= -beta r, and necessary is max I <= beta r

Solved for r, the vote is robust within the first of these radii, and not robust beyond the second:

    2m / (a + sqrt(a^2 + 4 beta m))    and    2m / (a + sqrt(a^2 - 4 beta m)), infinite if a^2 <= 4 beta m

Margins (N, ..., C) and gradients (N, ..., C, d) have N members first, then any axes of inputs, then the C
classes other than y0. Those of soft-smoothed members E f_i(x0 + noise) give eq:Itilde, and with
beta = `smoothness_bound(sigma)` cor:gradient-based-sufficient-necessary-cond-smoothed-*.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.errors import check

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Conditions:
    """m, a and beta of a vote. The rivals are classes; for MME, pairs of classes."""

    margin: Floats  #: m, (..., rivals)
    slope: Floats  #: a, (..., rivals)
    beta: float

    def __post_init__(self) -> None:
        check(0 <= self.beta < np.inf, "the smoothness beta must be finite and not negative", self.beta)

    def eri(self, r: ArrayLike) -> Floats:
        """eq:I = a - m/r for every rival, (..., rivals); the largest one decides. r is a number or (...)."""
        return self.slope - self.margin / _radii(r)

    def sufficient(self, r: ArrayLike) -> Bools:
        """Whether the vote is certainly r-robust: a <= m/r - beta r and m > 0 for every rival, (...)."""
        radius = _radii(r)
        holds = (self.margin > 0) & (self.margin >= radius * (self.slope + self.beta * radius))
        return np.asarray(holds.all(-1))

    def necessary(self, r: ArrayLike) -> Bools:
        """Whether the vote may be r-robust: a <= m/s + beta s for every rival and every s <= r, (...)."""
        return np.asarray(self.possible_radius() >= _radii(r)[..., 0])

    def certified_radius(self) -> Floats:
        """The largest r that is `sufficient`, 0 if none is, (...)."""
        m, a = np.maximum(self.margin, 0.0), self.slope
        return np.asarray(_ratio(2.0 * m, a + np.hypot(a, 2.0 * np.sqrt(self.beta * m))).min(-1))

    def possible_radius(self) -> Floats:
        """The largest r that is `necessary`, infinite if all are; beyond it the vote does change, (...)."""
        m, a = np.maximum(self.margin, 0.0), self.slope
        bend = 2.0 * np.sqrt(self.beta * m)
        is_refuted = (a > bend) | (self.margin < 0)
        root = np.sqrt(np.maximum(a - bend, 0.0)) * np.sqrt(a + bend)
        return np.asarray(np.where(is_refuted, _ratio(2.0 * m, a + root), np.inf).min(-1))


def weighted_conditions(
    margins: ArrayLike, gradients: ArrayLike, weights: ArrayLike | None = None, *, beta: float
) -> Conditions:
    """thm:gradient-based-sufficient-necessary-cond-weight-ensemble: WE of N beta-smooth members.

    m = sum_j w_j f_j^{y0/y}(x0) / ||w||_1,    a = ||sum_j w_j grad f_j^{y0/y}(x0)|| / ||w||_1
    """
    m, g = checked(margins, gradients)
    shares = normalized_weights(weights, len(m))
    slope = np.linalg.norm(np.tensordot(shares, g, axes=1), axis=-1)
    return Conditions(np.tensordot(shares, m, axes=1), slope, beta)


def max_margin_conditions(margins: ArrayLike, gradients: ArrayLike, *, beta: float) -> Conditions:
    """thm:gradient-based-sufficient-necessary-cond-our-ensemble: MME of two beta-smooth members.

        m = (f_1^{y0/y1}(x0) + f_2^{y0/y2}(x0)) / 2,   a = ||grad f_1^{y0/y1}(x0) + grad f_2^{y0/y2}(x0)|| / 2

    The rivals are the C^2 pairs (y1, y2), y1 varying slowest. The necessary condition needs that within r
    neither member puts two classes above y0 (`at_most_one_above`). More members: `max_margin_radius`.
    """
    m, g = checked(margins, gradients)
    check(len(m) == 2, "these conditions are for MME of 2 members", len(m))
    return _pair_conditions(m, g, beta)


def single_conditions(margins: ArrayLike, gradients: ArrayLike, *, beta: float) -> Conditions:
    """prop:gradient-based-sufficient-necessary-cond-individual: every member alone, (N, ...) of them."""
    m, g = checked(margins, gradients)
    return Conditions(m, np.linalg.norm(g, axis=-1), beta)


def max_margin_radius(margins: ArrayLike, gradients: ArrayLike, *, beta: float) -> Floats:
    """A radius within which MME of any N >= 2 members returns y0: max_i min_{j != i} r_ij, (...).

    r_ij is the certified radius of MME of members i and j. Proof, for more members than the paper's two: take
    the best i, and a point nearer than its radius. There the worst margins A_k = min_y f_k^{y0/y} have
    A_i + A_j > 0 for all j != i. So the least A is above minus the largest A, and MME returns y0. (If A_i
    itself is the least, compare it with any other A_j.)
    """
    m, g = checked(margins, gradients)
    return best_pair_radius(lambda pair: _pair_conditions(m[pair], g[pair], beta), len(m))


def best_pair_radius(of_pair: Callable[[list[int]], Conditions], members: int) -> Floats:
    """max_i min_{j != i} r_ij from the conditions of two members [i, j]."""
    check(members >= 2, "MME takes at least 2 members", members)
    radii = {(i, j): of_pair([i, j]).certified_radius() for i, j in combinations(range(members), 2)}
    of_member = [np.min([r for pair, r in radii.items() if i in pair], axis=0) for i in range(members)]
    return np.asarray(np.max(of_member, axis=0))


def weighted_gap(margins: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """prop:sufficient-necessary-condition-weighted-ensemble: min_y sum_j w_j f_j^{y0/y}(x) / ||w||_1, (...).

    WE returns y0 at x if it is positive, and another class if it is negative; 0 is a tie.
    """
    m = checked_margins(margins)
    return np.asarray(np.tensordot(normalized_weights(weights, len(m)), m, axes=1).min(-1))


def max_margin_gap(margins: ArrayLike) -> Floats:
    """thm:sufficient-necessary-condition-maximum-margin-ensemble: max_i A_i + min_i A_i, (...).

    A_i = min_y f_i^{y0/y}(x). MME of any number of members returns y0 at x if it is positive. It returns
    another class if it is negative and no member puts two classes above y0 (`at_most_one_above`).
    """
    worst = checked_margins(margins).min(-1)
    return np.asarray(worst.max(0) + worst.min(0))


def at_most_one_above(margins: ArrayLike) -> Bools:
    """Whether y0 is every member's first or second class, as MME's necessary condition needs, (...)."""
    return np.asarray(((checked_margins(margins) < 0).sum(-1) <= 1).all(0))


def smoothness_bound(sigma: float, low: float = 0.0, high: float = 1.0) -> float:
    """thm:smoothness-bound and its remark: beta = 2 (high - low) / sigma^2 holds for every confidence.

    That is, g(x) = E f(x + sigma z), z ~ N(0, I), is beta-smooth for every f with values in [low, high].
    """
    return 2.0 * _scale(sigma, low, high)


def sharp_smoothness_bound(sigma: float, low: float = 0.0, high: float = 1.0) -> float:
    """sqrt(2 / (pi e)) (high - low) / sigma^2, the least beta that holds for every confidence.

    Proof: the Hessian of g is E f(x + sigma z) (z z^T - I) / sigma^2. For a unit vector u, t = u . z is a
    standard normal number, and u^T Hessian u = E f (t^2 - 1) / sigma^2. Over all f with values in [0, 1] it
    is largest for f = 1[|t| > 1], least for f = 1[|t| < 1]: 2 phi(1) / sigma^2 = 0.484 / sigma^2, minus it.
    """
    return math.sqrt(2.0 / (math.pi * math.e)) * _scale(sigma, low, high)


def smoothness_lower_bound(sigma: float, low: float = 0.0, high: float = 1.0) -> float:
    """prop:smoothness-lower-bound: no beta below (high - low) / (sqrt(2 pi e) sigma^2) holds for every one.

    The confidence that steps from low to high, f = 1[x >= 0], needs exactly this beta.
    """
    return _scale(sigma, low, high) / math.sqrt(2.0 * math.pi * math.e)


def _scale(sigma: float, low: float, high: float) -> float:
    check(0 < sigma < math.inf, "sigma must be positive", sigma)
    check(low < high, "confidences lie between two numbers, the lower first", f"{low}, {high}")
    return (high - low) / sigma**2


def cosines(a: Floats, b: Floats) -> Floats:
    """The cosine of a and b (..., d), NaN where one is 0.  -> (...)"""
    with np.errstate(invalid="ignore"):
        scale = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
        return np.asarray(np.einsum("...d,...d->...", a, b) / scale).clip(-1.0, 1.0)


def _pair_conditions(margins: Floats, gradients: Floats, beta: float) -> Conditions:
    margin = (margins[0][..., :, None] + margins[1][..., None, :]) / 2.0
    sums = (gradients[0][..., y, None, :] + gradients[1] for y in range(margins.shape[-1]))
    slope = np.stack([np.linalg.norm(of_class, axis=-1) / 2.0 for of_class in sums], axis=-2)
    pairs = (*margins.shape[1:-1], -1)
    return Conditions(margin.reshape(pairs), slope.reshape(pairs), beta)


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """0 for a numerator of 0, otherwise infinite for a denominator of 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(numerator > 0, numerator / denominator, 0.0)


def _radii(r: ArrayLike) -> Floats:
    radii = floats(r)
    check((radii > 0).all(), "a radius must be positive", radii.min(initial=np.inf))
    return radii[..., None]


def floats(value: ArrayLike) -> Floats:
    return np.asarray(value, dtype=np.float64)


def checked_margins(margins: ArrayLike) -> Floats:
    rule = "margins are (N, ..., C): members first, classes other than y0 last"
    m = _finite("margins", margins)
    check(m.ndim >= 2 and m.size, rule, m.shape)
    return m


def checked(margins: ArrayLike, gradients: ArrayLike) -> tuple[Floats, Floats]:
    m, g = checked_margins(margins), _finite("gradients", gradients)
    check(g.shape[:-1] == m.shape, f"gradients of these margins have the shape {(*m.shape, 'd')}", g.shape)
    return m, g


def _finite(name: str, values: ArrayLike) -> Floats:
    array = floats(values)
    check(np.isfinite(array).all(), f"{name} must be finite", "NaN or infinity")
    return array


def checked_weights(weights: ArrayLike | None, members: int | None = None) -> Floats:
    """Weights (N,), 1 each for None."""
    w = np.ones(members or 1) if weights is None else floats(weights)
    check(w.ndim == 1 and members in (None, len(w)), f"{members} members need {members} weights", w.tolist())
    are_weights = np.isfinite(w).all() and (w >= 0).all() and w.any()
    check(are_weights, "weights must be finite, not negative and not all zero", w.tolist())
    return w


def normalized_weights(weights: ArrayLike | None, members: int | None = None) -> Floats:
    """w / ||w||_1, (N,); equal weights for None."""
    w = checked_weights(weights, members)
    return np.asarray(w / w.sum())
