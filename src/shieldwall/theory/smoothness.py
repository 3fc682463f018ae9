"""How smooth Gaussian noise makes any confidence: thm:smoothness-bound and prop:smoothness-lower-bound.

    g(x) = E f(x + sigma z),    z ~ N(0, I),    f with values in [low, high]
    Hessian of g = E f(x + sigma z) (z z^T - I) / sigma^2

g is beta-smooth if the largest absolute eigenvalue of its Hessian is at most beta everywhere. The least
beta is `sharp_smoothness_bound`: for a unit vector u and t = u . z, a standard normal number,

    u^T Hessian u = E f (t^2 - 1) / sigma^2

is largest, over all f with values in [0, 1], for f = 1[|t| > 1] and least for f = 1[|t| < 1]. The values are
2 phi(1) / sigma^2 = 0.484 / sigma^2 and minus that.
"""

import math

from shieldwall.errors import check


def smoothness_bound(sigma: float, low: float = 0.0, high: float = 1.0) -> float:
    """thm:smoothness-bound and its remark: beta = 2 (high - low) / sigma^2 holds for every confidence."""
    return 2.0 * _scale(sigma, low, high)


def sharp_smoothness_bound(sigma: float, low: float = 0.0, high: float = 1.0) -> float:
    """sqrt(2 / (pi e)) (high - low) / sigma^2, the least beta that holds for every confidence."""
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
