"""Transferability between real members: the paper's proxies, and its ROC curve (fig:roc).

    lambda_1, lambda_2 = E of `weighted_portion` and of `max_margin_portion` at x0 + eps
    X = lambda_1 / lambda_2 - the right-hand side of eq:cor2-2
    Y = 1 if MME has the larger certified radius, 0 if WE has

In eq:cor2-2, mu and s^2 are the mean and variance of f_i(x0 + eps)_{y0} over members and noise samples, and
s_f^2 is the variance of its minimum over the members. With equal weights the corollary predicts that MME
has the larger radius if X > 0, and WE if X < 0. The ROC curve takes the inputs in descending order of X; it
goes up for Y = 1 and right for Y = 0. The area below it is P(X of a 1 > X of a 0) + P(equal) / 2.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.errors import check
from shieldwall.theory.conditions import Floats, floats
from shieldwall.theory.statistical import max_margin_portion, threshold_score, thresholds, weighted_portion


@dataclass(frozen=True)
class Proxies:
    """What the comparison of WE and MME needs at one input, estimated from noise samples."""

    lambda_1: float
    lambda_2: float
    mu: float
    s: float
    s_f: float
    threshold: float  #: the right-hand side of eq:cor2-2; NaN where the premises of the corollary fail

    @property
    def ratio(self) -> float:
        """lambda_1 / lambda_2, the paper's measure of transferability."""
        return self.lambda_1 / self.lambda_2

    @property
    def x(self) -> float:
        """X: above 0 for MME, below for WE."""
        return self.ratio - self.threshold


@dataclass(frozen=True)
class Roc:
    """A ROC curve from (0, 0) to (1, 1), the area below it, and the area's standard error."""

    false_positive: Floats
    true_positive: Floats
    area: float
    error: float


def proxies(confidences: ArrayLike, truth: int, weights: ArrayLike | None = None) -> Proxies:
    """The proxies from confidences (N, n, K) at n noise samples around one input of class `truth`.

    The premises are mu > lambda / (1 + lambda) for both lambdas, and scores that vary. The confidences need
    double precision: ratios of very small ones matter.
    """
    f, rule = floats(confidences), "confidences (N, n, K) at n >= 2 samples are needed"
    check(f.ndim == 3 and f.shape[1] >= 2, rule, f.shape)
    lambda_1 = float(weighted_portion(f, truth, weights).mean())
    lambda_2 = float(max_margin_portion(f, truth).mean())
    scores = f[..., truth]
    mu, s, s_f = float(scores.mean()), float(scores.std()), float(scores.min(0).std())
    premises = s > 0 and s_f > 0 and mu > float(threshold_score(max(lambda_1, lambda_2)))
    threshold = float(thresholds(mu, lambda_2, s, s_f, len(f)).mme_above) if premises else float("nan")
    return Proxies(lambda_1, lambda_2, mu, s, s_f, threshold)


def roc(x: ArrayLike, y: ArrayLike) -> Roc:
    """The ROC curve of the score x for the labels y, with DeLong's error of its area."""
    values, positive = floats(x), np.asarray(y, dtype=np.bool_)
    fits = values.ndim == 1 and values.shape == positive.shape and not np.isnan(values).any()
    check(fits, "a ROC curve takes x (M,) of numbers and y (M,)", f"{values.shape}, {positive.shape}")
    ones, zeros = np.sort(values[positive]), np.sort(values[~positive])
    check(len(ones) and len(zeros), "a ROC curve takes both labels", f"{len(ones)} ones, {len(zeros)} zeros")
    cuts = np.concatenate([[np.inf], np.unique(values)[::-1]])
    above_zeros, above_ones = _share_below(zeros, ones), 1.0 - _share_below(ones, zeros)
    error = sum(values.var(ddof=1) / len(values) for values in (above_zeros, above_ones) if len(values) > 1)
    # The share of each label's values that are at least each cut.
    false, true = (1.0 - np.searchsorted(ordered, cuts) / len(ordered) for ordered in (zeros, ones))
    return Roc(false, true, float(above_zeros.mean()), float(np.sqrt(error)))


def _share_below(ordered: Floats, values: Floats) -> Floats:
    """The share of `ordered` below each value, half of those equal to it included."""
    below = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    return np.asarray(below / (2 * len(ordered)))
