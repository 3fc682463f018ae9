"""Statistical robustness: lower bounds on how often a vote is right under noise (adx-sec:3).

A score is a member's confidence in the true class at a noisy input, f_i(x0 + eps)_{y0}. The theorems assume
that the members' scores are independent, and symmetric about one mean mu.

    s, s_f       standard deviation of a score, and of the least of N scores
    lambda, p    with probability 1 - p no wrong class has more than the portion lambda of 1 - f_{y0}
    t(lambda)    lambda / (1 + lambda): a score above it is enough to be right
    d_w          |w|_2^2 / |w|_1^2, w the weights of WE

The bounds need mu > t(lambda); they are NaN where it fails. Functions of numbers also take arrays.

Scores that are uniform on [a, b] (adx-subsec:3-3) have mu, s = `uniform_scores(a, b)` and s_f =
`least_deviation(s, N)`, so that

    K_i = (b - a) / ((a + b) / 2 - t(lambda_i)),    c_N = 2 N / ((N + 1)^2 (N + 2))
    thm:lower-bound-weighted-uniform: P(WE = y0) >= 1 - p - d_w K_1^2 / 24     `we_bound`
    thm:lower-bound-our-uniform:      P(MME = y0) >= 1 - p - c_N K_2^2 / 4     `mme_bound`

Transferability between real members, by the paper's proxies, and its ROC curve (fig:roc):

    lambda_1, lambda_2 = E of `weighted_portion` and of `max_margin_portion` at x0 + eps
    X = lambda_1 / lambda_2 - the right-hand side of eq:cor2-2
    Y = 1 if MME has the larger certified radius, 0 if WE has

In eq:cor2-2, mu and s^2 are the mean and variance of f_i(x0 + eps)_{y0} over members and noise samples, and
s_f^2 is the variance of its minimum over the members. With equal weights the corollary predicts that MME
has the larger radius if X > 0, and WE if X < 0. The ROC curve takes the inputs in descending order of X; it
goes up for Y = 1 and right for Y = 0. The area below it is P(X of a 1 > X of a 0) + P(equal) / 2.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.errors import check
from shieldwall.theory.conditions import Floats, checked_weights, floats, normalized_weights


class Moments(NamedTuple):
    mean: Floats
    variance: Floats


class Thresholds(NamedTuple):
    """Two values of lambda_1 / lambda_2; between them, the weights decide which bound is larger."""

    we_below: Floats  #: below it, WE's bound is the larger one for any weights
    mme_above: Floats  #: above it MME's bound is the larger one for any weights, below it WE's for equal ones


def single_portion(confidences: ArrayLike, truth: ArrayLike) -> Floats:
    """max_{y != y0} f(x)_y / (1 - f(x)_{y0}), 0 for 0 / 0 (def:strong-runner-up-single-model).

    Confidences (..., D, K) at D samples, and one true class or D of them -> (..., D). 1 - f_{y0} is summed
    over the wrong classes, for f_{y0} near 1.
    """
    wrong = _wrong_classes(confidences, truth)
    return _portion(wrong.max(-1), wrong.sum(-1))


def weighted_portion(confidences: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """max_{y != y0} sum_i w_i f_i(x)_y / sum_i w_i (1 - f_i(x)_{y0}), def:strong-runner-up-weighted, (D,)."""
    wrong = _wrong_classes(confidences, truth)
    summed = np.tensordot(checked_weights(weights, len(wrong)), wrong, axes=1)
    return _portion(summed.max(-1), summed.sum(-1))


def max_margin_portion(confidences: ArrayLike, truth: ArrayLike) -> Floats:
    """The largest of the members' portions (def:strong-runner-up-maximum-margin), (N, D, K) -> (D,)."""
    return np.asarray(single_portion(confidences, truth).max(0))


def unconfident_share(portions: ArrayLike, lam: float) -> float:
    """p for a given lambda: the share of samples whose portion exceeds it."""
    return float((_samples(portions) > lam).mean())


def confident_lambda(portions: ArrayLike, p: float) -> float:
    """lambda for a given p: the least one that at most the share p of the samples exceeds."""
    check(0.0 <= p < 1.0, "p, the share of samples beyond lambda, lies in [0, 1)", p)
    ordered = np.sort(_samples(portions))
    beyond = math.floor(round(p * len(ordered), 9))  # rounded, because 0.29 * 100 must be 29
    return float(ordered[len(ordered) - 1 - beyond])


def threshold_score(lam: ArrayLike) -> Floats:
    """t(lambda) = (1 + lambda^-1)^-1 = lambda / (1 + lambda), the score at which a margin is 0."""
    lam = floats(lam)
    check((lam >= 0).all(), "lambda is a portion, not negative", lam.min(initial=np.inf))
    return lam / (1.0 + lam)


def weight_concentration(weights: ArrayLike) -> float:
    """d_w = |w|_2^2 / |w|_1^2: 1/N for equal weights, 1 where one member has it all."""
    return float((normalized_weights(weights) ** 2).sum())


def we_margin(scores: ArrayLike, lam1: float, weights: ArrayLike | None = None) -> Floats:
    """X1-hat (adx-def:X1) = (1 + lambda_1) sum_j w_j f_j - lambda_1 |w|_1, scores (N, D) -> (D,).

    fact:connection-margin-robustness: P(WE = y0) >= 1 - p - P(X1-hat <= 0), and the same for MME.
    """
    scores = floats(scores)
    w = checked_weights(weights, len(scores))
    return np.asarray((1.0 + lam1) * np.tensordot(w, scores, axes=1) - lam1 * w.sum())


def mme_margin(scores: ArrayLike, lam2: float) -> Floats:
    """X2-hat (adx-def:X2) = (1 + lambda_2) (max_i f_i + min_i f_i) - 2 lambda_2, scores (N, D) -> (D,)."""
    scores = floats(scores)
    return np.asarray((1.0 + lam2) * (scores.max(0) + scores.min(0)) - 2.0 * lam2)


def we_moments(mu: ArrayLike, s: ArrayLike, lam1: ArrayLike, weights: ArrayLike) -> Moments:
    """Of X1-hat (lemma:expectation-variance-compare, also of uniform scores)."""
    mu, s, lam1, w = floats(mu), floats(s), floats(lam1), checked_weights(weights)
    return Moments(((1 + lam1) * mu - lam1) * w.sum(), ((1 + lam1) * s) ** 2 * (w**2).sum())


def mme_moments(mu: ArrayLike, s_f: ArrayLike, lam2: ArrayLike) -> Moments:
    """Of X2-hat: 2 (1 + lambda_2) mu - 2 lambda_2, and an upper bound, 4 (1 + lambda_2)^2 s_f^2."""
    mu, s_f, lam2 = floats(mu), floats(s_f), floats(lam2)
    return Moments(2 * ((1 + lam2) * mu - lam2), (2 * (1 + lam2) * s_f) ** 2)


def symmetric_tail(mean: ArrayLike, variance: ArrayLike) -> Floats:
    """P(X <= 0) <= Var X / (2 (E X)^2) for X symmetric about E X > 0 (fact:general-bound-fact), else NaN."""
    mean, variance = floats(mean), floats(variance)
    positive = mean > 0
    return np.where(positive, variance / (2 * np.where(positive, mean, 1.0) ** 2), np.nan)


def single_bound(mu: ArrayLike, s: ArrayLike, lam3: ArrayLike, p: ArrayLike) -> Floats:
    """P(F = y0) >= 1 - p - s^2 / (2 (mu - t(lambda_3))^2) (prop:lower-bound-single)."""
    return we_bound(mu, s, lam3, p, 1.0)


def we_bound(mu: ArrayLike, s: ArrayLike, lam1: ArrayLike, p: ArrayLike, d_w: ArrayLike) -> Floats:
    """P(WE = y0) >= 1 - p - d_w s^2 / (2 (mu - t(lambda_1))^2) (thm:lower-bound-weighted-ensemble)."""
    return 1 - floats(p) - symmetric_tail(_gap(mu, lam1), floats(d_w) * floats(s) ** 2)


def we_bound_mcdiarmid(
    mu: ArrayLike, lam1: ArrayLike, p: ArrayLike, d_w: ArrayLike, width: ArrayLike = 1.0
) -> Floats:
    """P(WE = y0) >= 1 - p - exp(-2 (mu - t(lambda_1))^2 / (d_w width^2)), by McDiarmid's inequality.

    For independent scores in intervals of this width with the mean mu, also if they are not symmetric.
    """
    gap, scale = _gap(mu, lam1), floats(d_w) * floats(width) ** 2
    return 1 - floats(p) - np.where(gap > 0, np.exp(-2 * gap**2 / scale), np.nan)


def mme_bound(mu: ArrayLike, s_f: ArrayLike, lam2: ArrayLike, p: ArrayLike) -> Floats:
    """P(MME = y0) >= 1 - p - s_f^2 / (2 (mu - t(lambda_2))^2) (thm:lower-bound-maximum-margin)."""
    return 1 - floats(p) - symmetric_tail(_gap(mu, lam2), floats(s_f) ** 2)


def lambda_ratio(mu: ArrayLike, lam2: ArrayLike, c: ArrayLike) -> Floats:
    """lemma:comparison-foundation: lambda_2^-1 (((mu - t(lambda_2)) / C + 1 - mu)^-1 - 1).

    (mu - t(lambda_2)) / (mu - t(lambda_1)) < C if and only if lambda_1 / lambda_2 is below it, for every
    C > 0. NaN unless mu > t(lambda_2).
    """
    lam2 = floats(lam2)
    check((lam2 > 0).all(), "lambda_2 must be positive to divide by it", lam2.min(initial=np.inf))
    gap = _gap(mu, lam2)
    return (1 / (np.where(gap > 0, gap, np.nan) / floats(c) + 1 - floats(mu)) - 1) / lam2


def thresholds(
    mu: ArrayLike, lam2: ArrayLike, s: ArrayLike, s_f: ArrayLike, members: ArrayLike
) -> Thresholds:
    """`lambda_ratio` at C = s_f / s (eq:cor2-1) and C = sqrt(N) s_f / s (eq:cor2-2), as 1/N <= d_w <= 1."""
    c = floats(s_f) / floats(s)
    return Thresholds(lambda_ratio(mu, lam2, c), lambda_ratio(mu, lam2, c * np.sqrt(member_counts(members))))


def member_counts(members: ArrayLike) -> Floats:
    n = floats(members)
    check((n >= 1).all(), "an ensemble has at least one member", n.min(initial=np.inf))
    return n


def uniform_scores(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    """mu = (a + b) / 2 and s = (b - a) / sqrt(12) of scores that are uniform on [a, b]."""
    low, high = floats(a), floats(b)
    check((low < high).all(), "scores lie in [a, b] with a < b", f"a = {low.tolist()}, b = {high.tolist()}")
    return (low + high) / 2, (high - low) / math.sqrt(12.0)


def least_deviation(s: ArrayLike, members: ArrayLike) -> Floats:
    """s_f of N uniform scores of deviation s, fact:min-uniform-rv; s_f^2 = c_N (b - a)^2 / 2."""
    n = member_counts(members)
    return floats(s) * np.sqrt(12 * n / (n + 2)) / (n + 1)


def single_bound_uniform(a: ArrayLike, b: ArrayLike, lam3: ArrayLike, p: ArrayLike) -> Floats:
    """P(F = y0) >= 1 - p - tau at any mu, tau = (t(lambda_3) - a) / (b - a): prop:lower-bound-single-unif."""
    return mme_bound_uniform_exact(a, b, lam3, p, 1)


def mme_bound_uniform_exact(
    a: ArrayLike, b: ArrayLike, lam2: ArrayLike, p: ArrayLike, members: ArrayLike
) -> Floats:
    """1 - p - P(X2-hat <= 0), with that probability itself instead of a bound on it; not in the paper.

    With tau = (t(lambda_2) - a) / (b - a), cut to [0, 1], it is (2 tau)^N / 2 for tau <= 1/2 and
    1 - (2 - 2 tau)^N / 2 above, because the least and the largest of N uniform numbers on [0, 1] have

        P(u_min + u_max <= z) = integral_0^{z/2} N (z - 2 u)^(N - 1) du = z^N / 2,    z <= 1.
    """
    mu, s = uniform_scores(a, b)
    tau = np.clip(0.5 - _gap(mu, lam2) / (math.sqrt(12.0) * s), 0.0, 1.0)
    tail = (2 * np.minimum(tau, 1 - tau)) ** member_counts(members) / 2
    return 1 - floats(p) - np.where(tau <= 0.5, tail, 1 - tail)


def members_beyond_which_mme_wins(mu: float, lam2: float) -> int:
    """The least whole N > 12 (1 - t(lambda_2) / mu)^-2 - 2 (eq:cor2-3-uniform).

    From this N on, of uniform scores, `mme_bound` is above `we_bound` for any weights and any lambda_1.
    """
    share = float(threshold_score(lam2)) / mu if mu > 0 else math.inf
    rule = f"MME has a bound where mu exceeds lambda_2 / (1 + lambda_2) = {threshold_score(lam2):g}"
    check(share < 1.0, rule, f"mu = {mu:g}")
    return math.floor(12.0 / (1.0 - share) ** 2 - 2.0) + 1


def _gap(mu: ArrayLike, lam: ArrayLike) -> Floats:
    return floats(mu) - threshold_score(lam)


def _samples(portions: ArrayLike) -> Floats:
    samples, rule = floats(portions), "the portions of one model at D samples, (D,), are needed"
    check(samples.ndim == 1 and len(samples), rule, samples.shape)
    return samples


def _wrong_classes(confidences: ArrayLike, truth: ArrayLike) -> Floats:
    wrong = floats(confidences).copy()
    has_classes = wrong.ndim >= 2 and wrong.shape[-1] >= 2
    check(has_classes, "confidences (..., D, K) of two classes or more are needed", wrong.shape)
    classes, (samples, number) = np.asarray(truth, dtype=np.int64), wrong.shape[-2:]
    check(classes.shape in ((), (samples,)), f"one true class or {samples} are needed", classes.shape)
    exist = ((classes >= 0) & (classes < number)).all()
    check(exist, f"a true class lies in 0 to {number - 1}", np.unique(classes).tolist())
    wrong[..., np.arange(samples), classes] = 0.0
    return wrong


def _portion(largest: Floats, total: Floats) -> Floats:
    return np.where(total > 0, largest / np.where(total > 0, total, 1.0), 0.0)


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
