"""Smoothing an ensemble of two, or an ensemble of two smoothed: cor:smoothing-strategy-comparison, estimated.

    p_a, p_b = P(F_a = y0), P(F_b = y0),    p_ab = P(F_a = F_b = y0)
    p        = P(MME = y0 | exactly one of F_a, F_b is y0)
    p_min    = min(p_a, p_b),    delta = |p_a - p_b|

Where both smoothed members return the true class y0 with probability over 1/2,

    EBS: p >  1/2 + (2 + 4 (p_min - p_ab) / delta)^-1   implies   r_G > r_H,
    EAS: p <= 1/2                                       implies   r_H >= r_G,

with r_G = sigma Phi^-1(P(MME = y0)) for ensemble-before-smoothing (adx-prop:rob-radii-before) and
r_H = sigma/2 (Phi^-1(p_a) + Phi^-1(p_b)) for ensemble-after-smoothing (thm:rob-radii-after). For other noise
than the Gaussian both are what its radius makes of the same probabilities, and both cases still hold: r_H
is at most what max(p_a, p_b) alone would buy, and at least what the mean of p_a and p_b would.

MME returns the label of one of its two members, ties included, so draw by draw it is y0 if both are, may be
if one is, and is not if none is:

    P(MME = y0) = p_ab + p (p_a + p_b - 2 p_ab)

holds for the frequencies of any sample too, and p is had from counts of the four votes member-a, member-b,
mme-a-b and agree-a-b on the same draws. The threshold is (max(p_a, p_b) - p_ab) / (p_a + p_b - 2 p_ab), how
often it is the better member that is right when only one is; so the first case says no more and no less
than P(MME = y0) > max(p_a, p_b), and the second that P(MME = y0) is at most the members' mean.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.binomial import clopper_pearson_lower, clopper_pearson_upper
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise
from shieldwall.smoothing.counts import whole_counts

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class PairEstimates:
    """What frequencies say about two members at M inputs: estimates, not certificates; (M,) each."""

    p: Floats
    """How often MME is right when exactly one member is; NaN where that never happened."""
    p_interval: Floats
    """(M, 2): Clopper-Pearson's confidence interval of p."""
    p_ab: Floats
    p_min: Floats
    delta: Floats
    threshold: Floats
    """What p must exceed for EBS to be the better one for sure; NaN where p is."""
    threshold_interval: Floats
    """(M, 2): as that of p."""
    r_ebs: Floats
    """The estimate of r_G, infinite for a frequency of 1; NaN where the premises fail."""
    r_eas: Floats
    """The estimate of r_H, likewise."""
    premises: NDArray[np.bool_]
    """Whether both members return the true class with frequency over 1/2."""
    verdict: NDArray[np.str_]
    """`EBS`, `EAS`, `open` where neither case of the corollary applies, or `premises fail`."""

    def __len__(self) -> int:
        return len(self.p)


def compare_pair(
    member_a: ArrayLike,
    member_b: ArrayLike,
    mme: ArrayLike,
    agree: ArrayLike,
    truth: ArrayLike,
    n: ArrayLike,
    noise: Noise,
    *,
    confidence: float = 0.95,
) -> PairEstimates:
    """The corollary's quantities from the four votes' counts (M, K) on the same n draws, and its verdict.

    Args:
        truth: (M,), the true classes.
        n: the draws, one number or (M,); the counts of `agree` alone do not add up to it.
        confidence: of each of the intervals.
    """
    if not 0.0 < confidence < 1.0:
        raise UserError(f"the confidence of intervals must lie between 0 and 1; given: {confidence}")
    draws = whole_counts("n, the draws,", n).numpy()
    a, b, ensemble, both = _wins([member_a, member_b, mme, agree], truth)
    _check_same_draws(a, b, ensemble, both, draws)

    only_one = a + b - 2 * both
    better = np.maximum(a, b)
    premises = 2 * np.minimum(a, b) > draws
    # Compared as counts, for frequencies are rounded.
    case_ebs = ensemble > better
    case_eas = (2 * ensemble <= a + b) & (only_one > 0)
    return PairEstimates(
        p=_share(ensemble - both, only_one),
        p_interval=_interval(ensemble - both, only_one, confidence),
        p_ab=both / draws,
        p_min=np.minimum(a, b) / draws,
        delta=np.abs(a - b) / draws,
        threshold=_share(better - both, only_one),
        threshold_interval=_interval_of_larger_share(better - both, only_one, confidence),
        r_ebs=np.where(premises, _signed_radius(noise, ensemble / draws), np.nan),
        r_eas=np.where(premises, noise.radius(better / draws, 1.0 - np.minimum(a, b) / draws), np.nan),
        premises=premises,
        verdict=np.select([~premises, case_ebs, case_eas], ["premises fail", "EBS", "EAS"], "open"),
    )


def _wins(votes: list[ArrayLike], truth: ArrayLike) -> list[Counts]:
    """How often each vote returned the true class: (M, K) each -> (M,) each."""
    counts = [whole_counts("counts", vote).numpy() for vote in votes]
    classes = np.asarray(truth, dtype=np.int64)
    shapes = [one.shape for one in counts]
    if counts[0].ndim != 2 or len(set(shapes)) > 1 or classes.shape != shapes[0][:1]:
        raise UserError(f"four counts (M, K) and M true classes are needed; given: {shapes}, {classes.shape}")
    if not ((classes >= 0) & (classes < shapes[0][1])).all():
        raise UserError(f"a true class lies in 0 to {shapes[0][1] - 1}; given: {np.unique(classes).tolist()}")
    return [np.take_along_axis(one, classes[:, None], axis=1)[:, 0] for one in counts]


def _check_same_draws(a: Counts, b: Counts, ensemble: Counts, both: Counts, draws: Counts) -> None:
    either = a + b - both
    wrong = (both > np.minimum(a, b)) | (ensemble < both) | (ensemble > either) | (either > draws)
    if wrong.any():
        k = int(wrong.argmax())
        raise UserError(
            "the four counts are not of the same draws: of "
            f"{np.broadcast_to(draws, a.shape)[k]} draws for row {k}, member a is right on {a[k]}, "
            f"member b on {b[k]}, both on {both[k]}, MME on {ensemble[k]}"
        )


def _share(part: Counts, whole: Counts) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _interval(part: Counts, whole: Counts, confidence: float) -> Floats:
    """Clopper-Pearson's interval given that there were `whole` trials; [0, 1] for none."""
    tail = (1.0 - confidence) / 2
    low = clopper_pearson_lower(part, whole, tail)
    high = clopper_pearson_upper(part, whole, tail)
    return np.stack([low, high], axis=-1)


def _interval_of_larger_share(part: Counts, whole: Counts, confidence: float) -> Floats:
    """An interval of max(q, 1 - q) from that of the share q, of which at least half was seen."""
    low, high = _interval(part, whole, confidence).T
    return np.stack([np.maximum(low, 0.5), np.maximum(high, 1.0 - low)], axis=-1)


def _signed_radius(noise: Noise, p: Floats) -> Floats:
    """The radius that p buys; below 1/2, the negative of what 1 - p buys."""
    radius = noise.radius(np.maximum(p, 1.0 - p))
    return np.where(p >= 0.5, radius, -radius)
