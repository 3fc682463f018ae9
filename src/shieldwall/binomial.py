"""Exact confidence bounds on a probability from a binomial count."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.errors import UserError, check, check_int, check_number

MOST_DRAWS = 10**12


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """The one-sided Clopper-Pearson lower bound: P(bound > p) <= alpha for every p.

    It solves P(Binomial(trials, p) >= successes) = alpha for p, which is the alpha-quantile of
    Beta(successes, trials - successes + 1), and 0 for no success.
    """
    from scipy.special import betaincinv

    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1.0), n - k + 1.0, alpha), 0.0)


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> NDArray[np.float64]:
    """The one-sided Clopper-Pearson upper bound: P(bound < p) <= alpha for every p.

    One minus the lower bound on the probability of a failure; 1 where every trial succeeded.
    """
    from scipy.special import betainccinv

    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    return np.where(k < n, betainccinv(k + 1.0, np.maximum(n - k, 1.0), alpha), 1.0)


def two_sided_sign_test(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """The p-value of `first` against `second` under p = 1/2: Cohen et al.'s test in PREDICT.

    2 P(Binomial(first + second, 1/2) >= first), at most 1, for first >= second; 1 where both are 0.
    """
    from scipy.special import betainc

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    tail = np.where(a > 0, betainc(np.maximum(a, 1.0), b + 1.0, 0.5), 1.0)
    return np.minimum(1.0, 2.0 * tail)


def smallest_certifying_n(alpha: float) -> int:
    """The smallest n that can certify anything: n successes of n give the bound alpha^(1/n), over 1/2."""
    n = max(1, math.floor(math.log2(1.0 / alpha)))
    while alpha ** (1.0 / n) <= 0.5:
        n += 1
    return n


def check_alpha(alpha: float) -> None:
    check_number("alpha", alpha)
    if not 1e-300 <= alpha < 1.0:
        hint = "" if alpha <= 0 or alpha >= 1 or alpha != alpha else ", and be at least 1e-300"
        raise UserError(f"alpha, the failure probability, must lie between 0 and 1{hint}; given: {alpha}")


def check_draws(n0: int, n: int, alpha: float, share: float = 1.0) -> None:
    """Refuse numbers of samples with which a lower bound at `share` of alpha never certifies anything."""
    check_alpha(alpha)
    check_int("n0", n0)
    check_int("n", n)
    check(max(n0, n) <= MOST_DRAWS, f"n0 and n must be at most {MOST_DRAWS:,}", max(n0, n))
    check(n0 >= 1, "n0, the samples that select the class, must be at least 1", n0)
    if n < (smallest := smallest_certifying_n(share * alpha)):
        raise UserError(
            f"n = {n} is too few samples to certify anything at alpha = {alpha:g}; use n >= {smallest}"
        )
