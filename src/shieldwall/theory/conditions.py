"""When an ensemble of smooth members is robust: margins and gradients against the radius.

    f_i^{y0/y}(x) = f_i(x)_{y0} - f_i(x)_y,    every f_i(x)_y beta-smooth (def:beta-smooth)

    m = sum_j w_j f_j^{y0/y}(x0) / ||w||_1,    a = ||sum_j w_j grad f_j^{y0/y}(x0)||_2 / ||w||_1

    m - a s - beta s^2  <=  least mean margin within s of x0  <=  m - a s + beta s^2

    sufficient: a <= m/r - beta r for every y    =>  r-robust  =>    necessary: a <= m/r + beta r for every y
    ERI: I = a - m/r (eq:I), so sufficient is max_y I <= -beta r and necessary max_y I <= beta r

m and a are those of WE. A single member has its own; MME of two members has (f_1^{y0/y1} + f_2^{y0/y2}) / 2
for every pair (y1, y2), and the same beta. Solved for r, the conditions bound the radius within which the
vote holds, from below and from above:

    2m / (a + sqrt(a^2 + 4 beta m))    and    2m / (a + sqrt(a^2 - 4 beta m)), no bound if a^2 <= 4 beta m

Shapes, throughout: margins (N, ..., C) and gradients (N, ..., C, d), N members first, then any axes of
inputs, then the C classes other than y0, in the same order for all members. Soft-smoothed margins, those of
E f(x0 + noise), and their gradients give eq:Itilde and the conditions of the soft-smoothed ensemble.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.errors import UserError
from shieldwall.theory.smoothness import smoothness_bound

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Conditions:
    """m, a and beta of a vote; the last axis of m and a counts rivals: classes, or pairs of them for MME."""

    margin: Floats
    """m, (..., rivals)."""
    slope: Floats
    """a, (..., rivals)."""
    beta: float

    def eri(self, r: ArrayLike) -> Floats:
        """a - m/r for every rival, (..., rivals); the largest one counts. r is one number or (...)."""
        return self.slope - self.margin / _radii(r)

    def sufficient(self, r: ArrayLike) -> Bools:
        """Whether the vote is sure to be r-robust: a <= m/r - beta r and m > 0 for every rival, (...)."""
        radius = _radii(r)
        holds = (self.margin > 0) & (self.margin >= radius * (self.slope + self.beta * radius))
        return np.asarray(holds.all(-1))

    def necessary(self, r: ArrayLike) -> Bools:
        """Whether the vote may be r-robust: a <= m/s + beta s for every rival and every s <= r, (...).

        The paper asks it of s = r alone; but what is r-robust is s-robust, and at a large r the condition
        forgets what a smaller one refuted.
        """
        return np.asarray(self.possible_radius() >= _radii(r)[..., 0])

    def certified_radius(self) -> Floats:
        """The largest r that is `sufficient`, 0 if none is, (...)."""
        m, a = np.maximum(self.margin, 0.0), self.slope
        radii = _ratio(2.0 * m, a + np.hypot(a, 2.0 * np.sqrt(self.beta * m)), where=m > 0)
        return np.asarray(radii.min(-1))

    def possible_radius(self) -> Floats:
        """The largest r that is `necessary`, infinite if all are; beyond it the vote does change, (...)."""
        m, a = np.maximum(self.margin, 0.0), self.slope
        bend = 2.0 * np.sqrt(self.beta * m)
        refuted = (a > bend) | (self.margin < 0)
        root = np.sqrt(np.maximum(a - bend, 0.0)) * np.sqrt(a + bend)
        radii = np.where(refuted, _ratio(2.0 * m, a + root, where=m > 0), np.inf)
        return np.asarray(radii.min(-1))


def weighted_conditions(
    margins: ArrayLike, gradients: ArrayLike, weights: ArrayLike | None = None, *, beta: float
) -> Conditions:
    """thm:gradient-based-sufficient-necessary-cond-weight-ensemble: WE of N beta-smooth members.

    If M_WE(x0) = y0, it is r-robust at x0 if for every y != y0

        ||sum_j w_j grad f_j^{y0/y}(x0)|| <= 1/r sum_j w_j f_j^{y0/y}(x0) - beta r sum_j w_j,

    and only if the same holds with + beta r. Equal weights unless given.
    """
    m, g = _checked(margins, gradients)
    mean_margin, mean_gradient = _weighted_mean(m, g, weights)
    return Conditions(mean_margin, np.linalg.norm(mean_gradient, axis=-1), _checked_beta(beta))


def max_margin_conditions(margins: ArrayLike, gradients: ArrayLike, *, beta: float) -> Conditions:
    """thm:gradient-based-sufficient-necessary-cond-our-ensemble: MME of two beta-smooth members.

    If M_MME(x0) = y0, it is r-robust at x0 if for all y1, y2 != y0

        ||grad f_1^{y0/y1}(x0) + grad f_2^{y0/y2}(x0)|| <= 1/r (f_1^{y0/y1}(x0) + f_2^{y0/y2}(x0)) - 2 beta r,

    and only if the same holds with + 2 beta r, provided that within r neither member puts two classes above
    y0 (`at_most_one_above`). The rivals are the C^2 pairs, y1 varying slowest. For more members, see
    `max_margin_radius`.
    """
    m, g = _checked(margins, gradients)
    if len(m) != 2:
        raise UserError(f"these conditions are for MME of 2 members; given: {len(m)}")
    return _pair_conditions(m, g, 0, 1, _checked_beta(beta))


def single_conditions(margins: ArrayLike, gradients: ArrayLike, *, beta: float) -> Conditions:
    """prop:gradient-based-sufficient-necessary-cond-individual: every member alone, (N, ...) of them.

    If F(x0) = y0, it is r-robust at x0 if for every y != y0

        ||grad f^{y0/y}(x0)|| <= 1/r f^{y0/y}(x0) - beta r,

    and only if the same holds with + beta r.
    """
    m, g = _checked(margins, gradients)
    return Conditions(m, np.linalg.norm(g, axis=-1), _checked_beta(beta))


def smoothed_weighted_conditions(
    margins: ArrayLike, gradients: ArrayLike, weights: ArrayLike | None = None, *, sigma: float
) -> Conditions:
    """cor:gradient-based-sufficient-necessary-cond-smoothed-weight-ensemble: beta = 2 / sigma^2.

    The margins and gradients are those of the soft-smoothed confidences E f_i(x0 + noise), noise of
    deviation sigma, and so is the ensemble that is judged: WE of the soft-smoothed members.
    """
    return weighted_conditions(margins, gradients, weights, beta=smoothness_bound(sigma))


def smoothed_max_margin_conditions(margins: ArrayLike, gradients: ArrayLike, *, sigma: float) -> Conditions:
    """cor:gradient-based-sufficient-necessary-cond-smoothed-our-ensemble: beta = 2 / sigma^2.

    As for WE; the proviso of the necessary condition is about the soft-smoothed members.
    """
    return max_margin_conditions(margins, gradients, beta=smoothness_bound(sigma))


def max_margin_radius(margins: ArrayLike, gradients: ArrayLike, *, beta: float) -> Floats:
    """A radius within which MME of any N >= 2 members returns y0: max_i min_{j != i} r_ij, (...).

    r_ij is the certified radius of MME of members i and j. Take the best i. At every point nearer than that
    the worst margins A_k = min_y f_k^{y0/y} have A_i + A_j > 0 for all j != i, so the least A of all is above
    minus the largest (if A_i is the least itself, then by any A_j >= A_i), which is what makes MME return y0.
    For two members this is the certified radius of `max_margin_conditions`; the paper has no more than those.
    """
    m, g = _checked(margins, gradients)
    if len(m) < 2:
        raise UserError(f"MME takes at least 2 members; given: {len(m)}")
    number, beta = len(m), _checked_beta(beta)
    radii = np.full((number, number, *m.shape[1:-1]), np.inf)
    for i in range(number):
        for j in range(i + 1, number):
            radii[i, j] = radii[j, i] = _pair_conditions(m, g, i, j, beta).certified_radius()
    return np.asarray(radii.min(1).max(0))


def eri_weighted(margins: ArrayLike, gradients: ArrayLike, weights: ArrayLike | None, r: ArrayLike) -> Floats:
    """eq:I, the ensemble robustness indicator of WE for every class, (..., C); smaller is more robust.

        I_y = ||sum_j w_j grad f_j^{y0/y}(x0)|| / ||w||_1 - 1 / (r ||w||_1) sum_j w_j f_j^{y0/y}(x0)

    Of soft-smoothed margins and gradients it is eq:Itilde. The class with the largest one decides.
    """
    return weighted_conditions(margins, gradients, weights, beta=0.0).eri(r)


def eri_mme(margins: ArrayLike, gradients: ArrayLike, r: ArrayLike) -> Floats:
    """What stands in MME's conditions where eq:I stands in WE's, for every pair of classes, (..., C, C).

    I = ||grad f_1^{y0/y1}(x0) + grad f_2^{y0/y2}(x0)|| / 2 - (f_1^{y0/y1}(x0) + f_2^{y0/y2}(x0)) / (2 r)
    """
    flat = max_margin_conditions(margins, gradients, beta=0.0).eri(r)
    classes = np.asarray(margins).shape[-1]
    return flat.reshape(*flat.shape[:-1], classes, classes)


def eri_single(margins: ArrayLike, gradients: ArrayLike, r: ArrayLike) -> Floats:
    """eq:I of every member alone: ||grad f_i^{y0/y}(x0)|| - f_i^{y0/y}(x0) / r, (N, ..., C)."""
    return single_conditions(margins, gradients, beta=0.0).eri(r)


def weighted_gap(margins: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """prop:sufficient-necessary-condition-weighted-ensemble: min_y sum_j w_j f_j^{y0/y}(x) / ||w||_1, (...).

    WE returns y0 at x if this is positive and another class if it is negative; 0 is a tie. So WE is r-robust
    if it is positive at all points nearer than r, and only if it is nowhere negative there.
    """
    m = checked_margins(margins)
    return np.asarray(np.tensordot(normalized_weights(weights, len(m)), m, axes=1).min(-1))


def max_margin_gap(margins: ArrayLike) -> Floats:
    """thm:sufficient-necessary-condition-maximum-margin-ensemble: max_i A_i + min_i A_i, (...).

    A_i = min_y f_i^{y0/y}(x). MME of any number of members returns y0 at x if this is positive; if no member
    puts two classes above y0 (`at_most_one_above`), it returns another class where it is negative. 0 is a
    tie.
    """
    worst = checked_margins(margins).min(-1)
    return np.asarray(worst.max(0) + worst.min(0))


def at_most_one_above(margins: ArrayLike) -> Bools:
    """Whether y0 is every member's first or second class, the proviso of MME's necessary condition, (...)."""
    return np.asarray(((checked_margins(margins) < 0).sum(-1) <= 1).all(0))


def _pair_conditions(margins: Floats, gradients: Floats, i: int, j: int, beta: float) -> Conditions:
    margin = (margins[i][..., :, None] + margins[j][..., None, :]) / 2.0
    slopes = [
        np.linalg.norm(gradients[i][..., y, None, :] + gradients[j], axis=-1) / 2.0
        for y in range(margins.shape[-1])
    ]
    slope = np.stack(slopes, axis=-2)
    pairs = (*margins.shape[1:-1], -1)
    return Conditions(margin.reshape(pairs), slope.reshape(pairs), beta)


def _weighted_mean(margins: Floats, gradients: Floats, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    shares = normalized_weights(weights, len(margins))
    return np.tensordot(shares, margins, axes=1), np.tensordot(shares, gradients, axes=1)


def _ratio(numerator: Floats, denominator: Floats, where: Bools) -> Floats:
    """0 outside `where`; infinite for a denominator of 0 in it."""
    ratios = np.divide(numerator, denominator, out=np.full_like(numerator, np.inf), where=denominator > 0)
    return np.where(where, ratios, 0.0)


def _radii(r: ArrayLike) -> Floats:
    radii = np.asarray(r, dtype=np.float64)
    if not (radii > 0).all():
        raise UserError(f"a radius must be positive; given: {radii.min() if radii.ndim else float(radii)}")
    return radii[..., None]


def _checked_beta(beta: float) -> float:
    if not (np.isfinite(beta) and beta >= 0):
        raise UserError(f"the smoothness beta must be finite and not negative; given: {beta}")
    return float(beta)


def checked_margins(margins: ArrayLike) -> Floats:
    m = np.asarray(margins, dtype=np.float64)
    if m.ndim < 2 or not m.size:
        raise UserError(
            f"margins are (N, ..., C): members first, classes other than y0 last; given: {m.shape}"
        )
    if not np.isfinite(m).all():
        raise UserError("margins must be finite")
    return m


def _checked(margins: ArrayLike, gradients: ArrayLike) -> tuple[Floats, Floats]:
    m, g = checked_margins(margins), np.asarray(gradients, dtype=np.float64)
    if g.shape[:-1] != m.shape:
        raise UserError(f"gradients are those of the margins, {(*m.shape, 'd')}; given: {g.shape}")
    if not np.isfinite(g).all():
        raise UserError("gradients must be finite")
    return m, g


def normalized_weights(weights: ArrayLike | None, members: int) -> Floats:
    """Weights (N,) that add up to 1, from weights of any scale; equal ones for None."""
    w = np.ones(members) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (members,):
        raise UserError(f"{members} members need {members} weights; given: {w.tolist()}")
    if not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise UserError(f"weights must be finite, not negative and not all zero; given: {w.tolist()}")
    shares: Floats = w / w.sum()
    return shares
