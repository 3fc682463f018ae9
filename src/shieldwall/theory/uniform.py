"""Statistical robustness of members whose scores are uniform on [a, b] (adx-subsec:3-3).

These are the bounds of `theory.statistical` with mu = (a + b) / 2, s^2 = (b - a)^2 / 12 and
s_f^2 = c_N (b - a)^2 / 2. Its words and its NaN hold here too.

    K_i = (b - a) / ((a + b) / 2 - t(lambda_i)),    c_N = 2 N / ((N + 1)^2 (N + 2))

The paper prints d_w K_1^2 / 12 for WE, and so 6 where 12 stands below: see docs/equations.md.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.errors import check
from shieldwall.theory import statistical
from shieldwall.theory.conditions import Floats, floats
from shieldwall.theory.statistical import Moments, Thresholds, member_counts, threshold_score


def least_deviation(s: ArrayLike, members: ArrayLike) -> Floats:
    """s_f, the deviation of the least or largest of N uniform scores of deviation s, fact:min-uniform-rv."""
    n = member_counts(members)
    return floats(s) * np.sqrt(12 * n / (n + 2)) / (n + 1)


def we_moments_uniform(a: ArrayLike, b: ArrayLike, lam1: ArrayLike, weights: ArrayLike) -> Moments:
    """lemma:expectation-variance-compare-uniform, mean and variance of X1-hat:

    (1 + lambda_1) |w|_1 (a + b) / 2 - lambda_1 |w|_1   and   ((1 + lambda_1) |w|_2 (b - a))^2 / 12.
    """
    return statistical.we_moments(*_mean_and_deviation(a, b), lam1, weights)


def mme_moments_uniform(a: ArrayLike, b: ArrayLike, lam2: ArrayLike, members: ArrayLike) -> Moments:
    """lemma:expectation-variance-compare-uniform, mean of X2-hat and an upper bound on its variance:

    (1 + lambda_2) (a + b) - 2 lambda_2   and   2 c_N ((1 + lambda_2) (b - a))^2.
    """
    mu, s = _mean_and_deviation(a, b)
    return statistical.mme_moments(mu, least_deviation(s, members), lam2)


def single_bound_uniform(a: ArrayLike, b: ArrayLike, lam3: ArrayLike, p: ArrayLike) -> Floats:
    """P(F = y0) >= 1 - p - tau at any mu, tau = (t(lambda_3) - a) / (b - a): prop:lower-bound-single-unif."""
    return 1 - floats(p) - _place(a, b, lam3)


def we_bound_uniform(a: ArrayLike, b: ArrayLike, lam1: ArrayLike, p: ArrayLike, d_w: ArrayLike) -> Floats:
    """P(WE = y0) >= 1 - p - d_w K_1^2 / 24 (thm:lower-bound-weighted-uniform)."""
    return statistical.we_bound(*_mean_and_deviation(a, b), lam1, p, d_w)


def mme_bound_uniform(
    a: ArrayLike, b: ArrayLike, lam2: ArrayLike, p: ArrayLike, members: ArrayLike
) -> Floats:
    """P(MME = y0) >= 1 - p - c_N K_2^2 / 4 (thm:lower-bound-our-uniform)."""
    mu, s = _mean_and_deviation(a, b)
    return statistical.mme_bound(mu, least_deviation(s, members), lam2, p)


def mme_bound_uniform_exact(
    a: ArrayLike, b: ArrayLike, lam2: ArrayLike, p: ArrayLike, members: ArrayLike
) -> Floats:
    """1 - p - P(X2-hat <= 0), with that probability itself instead of a bound on it; not in the paper.

    With tau = (t(lambda_2) - a) / (b - a), cut to [0, 1], it is (2 tau)^N / 2 for tau <= 1/2 and
    1 - (2 - 2 tau)^N / 2 above, because the least and the largest of N uniform numbers on [0, 1] have

        P(u_min + u_max <= z) = integral_0^{z/2} N (z - 2 u)^(N - 1) du = z^N / 2,    z <= 1.

    It holds for every mu; one member gives `single_bound_uniform`.
    """
    tau = _place(a, b, lam2)
    tail = (2 * np.minimum(tau, 1 - tau)) ** member_counts(members) / 2
    return 1 - floats(p) - np.where(tau <= 0.5, tail, 1 - tail)


def thresholds_uniform(mu: ArrayLike, lam2: ArrayLike, members: ArrayLike) -> Thresholds:
    """`thresholds` that compare `we_bound_uniform` with `mme_bound_uniform`, the same for every b - a.

    cor:comparision-statistical-lower-bound-uniform: 1/C = (N + 1) sqrt((N + 2) / (12 N)) in eq:cor2-1-uniform
    and (N + 1) / N sqrt((N + 2) / 12) in eq:cor2-2-uniform.
    """
    return statistical.thresholds(mu, lam2, 1.0, least_deviation(1.0, members), members)


def members_beyond_which_mme_wins(mu: float, lam2: float) -> int:
    """The least whole N > 12 (1 - t(lambda_2) / mu)^-2 - 2 (eq:cor2-3-uniform).

    From this N on, `mme_bound_uniform` is above `we_bound_uniform` for any weights and any lambda_1.
    """
    share = float(threshold_score(lam2)) / mu if mu > 0 else math.inf
    rule = f"MME has a bound where mu exceeds lambda_2 / (1 + lambda_2) = {threshold_score(lam2):g}"
    check(share < 1.0, rule, f"mu = {mu:g}")
    return math.floor(12.0 / (1.0 - share) ** 2 - 2.0) + 1


def _interval(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    low, high = floats(a), floats(b)
    given = f"a = {low.tolist()}, b = {high.tolist()}"
    check((low < high).all(), "scores lie in [a, b] with a < b", given)
    return low, high


def _mean_and_deviation(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    low, high = _interval(a, b)
    return (low + high) / 2, (high - low) / math.sqrt(12.0)


def _place(a: ArrayLike, b: ArrayLike, lam: ArrayLike) -> Floats:
    """tau = (t(lambda) - a) / (b - a), cut to [0, 1]."""
    low, high = _interval(a, b)
    return np.clip((threshold_score(lam) - low) / (high - low), 0.0, 1.0)
