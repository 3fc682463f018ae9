"""A confidence sequence for a probability, valid at all numbers of samples at once, by betting.

    W(p0) = E_u [ ((1 - u) / p0 + u)^S u^F ],  u uniform on (0, 1]

is the value of a stake of 1 after S successes and F failures when, at every sample, the fraction 1 - u is
bet on success at the odds 1 / p0, which are fair if p = p0. Proof of the bound below:

1. If p <= p0, one sample multiplies the wealth of each u by u + (1 - u) p / p0 <= 1 on average, whatever
   came before. So W is a nonnegative supermartingale that starts at 1.
2. By Ville's inequality, P(W >= 1 / alpha after any number of samples) <= alpha.
3. W falls as p0 grows. So where L = sup {p0: W(p0) >= 1 / alpha} exceeds p, W(p) >= 1 / alpha.
4. Hence P(L > p after any number of samples) <= alpha. So you may stop at any time, for any reason.

With v = u (1 - p0), W is an incomplete beta function:

    W(p0) = (1 - p0)^-(F + 1) p0^-S B(F + 1, S + 1) I_(1 - p0)(F + 1, S + 1)
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.results.certificates import Floats

_ROUNDING = 4e-15
"""The error of `log_wealth` is below this times 1 + n log n, by a factor of more than 10."""
_STEPS = 100
_STANDSTILL = 1e-15


def log_wealth(successes: ArrayLike, failures: ArrayLike, p0: ArrayLike) -> Floats:
    """log W(p0), which is never below that of the failures alone, E[u^F] = 1 / (F + 1).

    That floor also stands in where the incomplete beta function underflows, which is where W < 1.
    """
    from scipy.special import betainc, betaln, xlog1py, xlogy

    s = np.asarray(successes, dtype=np.float64)
    p = np.asarray(p0, dtype=np.float64)
    a = np.asarray(failures, dtype=np.float64) + 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = betainc(a, s + 1.0, 1.0 - p)
        log_tail = np.log(np.where(tail < np.finfo(np.float64).tiny, 0.0, tail))
        log_w = betaln(a, s + 1.0) + log_tail - xlog1py(a, -p) - xlogy(s, p)
    return np.asarray(np.fmax(log_w, np.log(1.0 / a)))


def sequence_lower(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """L: for every p, P(L > p after any number of trials) <= alpha.

    log W is convex in y = log p0 (a mixture of log-convex functions), with slope
    p0 (F + 1 - 1 / W) / (1 - p0) - S. So Newton's method climbs to L from below without passing it. It aims
    above log(1 / alpha) by more than the rounding error of `log_wealth`. No entry depends on its neighbours.
    """
    from scipy.special import betaln

    k, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    f, s = n - k, np.maximum(k, 1.0)
    target = -math.log(alpha) + _ROUNDING * (1.0 + n * np.log1p(n))
    tangent_at_0 = (betaln(f + 1.0, s + 1.0) - target) / s

    def newton(y: Floats) -> Floats:
        p = np.exp(y)
        log_w = log_wealth(s, f, p)
        slope = p * (f + (1.0 - np.exp(-log_w))) / (1.0 - p) - s
        return np.asarray(np.maximum(y - (log_w - target) / slope, tangent_at_0))

    y = newton(np.maximum(np.log(_guess(s, s + f, target)), tangent_at_0))
    climbing = k > 0
    for _ in range(_STEPS):
        ahead = newton(y)
        climbing = climbing & (ahead > y + _STANDSTILL)
        if not climbing.any():
            break
        y = np.where(climbing, ahead, y)
    return np.where(k > 0, np.exp(y), 0.0)


def _guess(s: Floats, n: Floats, target: Floats) -> Floats:
    """Wilson's bound with about as many standard deviations as the sequence needs, as a start."""
    z2 = 2.0 * target + np.log1p(n)
    spread = np.sqrt(z2 * (s * (n - s) / n + 0.25 * z2))
    return np.asarray(np.maximum((s + 0.5 * z2 - spread) / (n + z2), np.finfo(np.float64).tiny))
