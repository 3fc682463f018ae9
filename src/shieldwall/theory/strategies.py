"""Smoothing an ensemble of two (EBS), or both members first (EAS): cor:smoothing-strategy-comparison.

    p_a, p_b = P(F_a = y0), P(F_b = y0),    p_ab = P(F_a = F_b = y0)
    p        = P(MME = y0 | exactly one of F_a, F_b is y0)
    p_min    = min(p_a, p_b),    delta = |p_a - p_b|

If both smoothed members return the true class y0 with probability over 1/2,

    EBS: p >  1/2 + (2 + 4 (p_min - p_ab) / delta)^-1   implies   r_G > r_H,
    EAS: p <= 1/2                                       implies   r_H >= r_G,

with the radii r_G = sigma Phi^-1(P(MME = y0)) of EBS (adx-prop:rob-radii-before) and r_H = sigma/2
(Phi^-1(p_a) + Phi^-1(p_b)) of EAS (thm:rob-radii-after). As MME returns the label of one of its two members,
P(MME = y0) = p_ab + p (p_a + p_b - 2 p_ab), so the first case is P(MME = y0) > max(p_a, p_b), and the second
is P(MME = y0) <= (p_a + p_b) / 2. Both hold for the radii of other noise too, because r_H is at most the
radius for max(p_a, p_b) and at least that for (p_a + p_b) / 2.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from shieldwall.ensembles.votes import max_margin
from shieldwall.errors import check

EBS, EAS, OPEN, PREMISES_FAIL = "EBS", "EAS", "open", "premises fail"
VERDICTS = (EBS, EAS, OPEN, PREMISES_FAIL)


class PairWins(NamedTuple):
    """How often two members, and their MME, returned the true class at the same n samples of one input."""

    n: int
    first: int
    second: int
    both: int  #: samples at which both members returned it
    mme: int

    @property
    def p_a(self) -> float:
        return self.first / self.n

    @property
    def p_b(self) -> float:
        return self.second / self.n

    @property
    def p_ab(self) -> float:
        return self.both / self.n

    @property
    def p(self) -> float:
        """How often MME is right when exactly one member is; NaN if that never happened."""
        return (self.mme - self.both) / self._only_one if self._only_one else math.nan

    @property
    def threshold(self) -> float:
        """What p must exceed for the first case; NaN where p is."""
        return (max(self.first, self.second) - self.both) / self._only_one if self._only_one else math.nan

    @property
    def verdict(self) -> str:
        """`EBS` or `EAS`, `open` where neither case of the corollary applies, or `premises fail`."""
        if 2 * min(self.first, self.second) <= self.n:
            return PREMISES_FAIL
        # Counts, because frequencies are rounded.
        if self.mme > max(self.first, self.second):
            return EBS
        return EAS if self._only_one and 2 * self.mme <= self.first + self.second else OPEN

    @property
    def _only_one(self) -> int:
        return self.first + self.second - 2 * self.both


def pair_wins(confidences: Tensor, truth: int) -> PairWins:
    """Counts from two members' confidences (2, n, K) at n noise samples around one input of class `truth`."""
    shape, rule = tuple(confidences.shape), "confidences (2, n, K) of two members are needed"
    check(len(shape) == 3 and shape[0] == 2 and shape[1] > 0, rule, shape)
    check(0 <= truth < shape[-1], f"the true class lies in 0 to {shape[-1] - 1}", truth)
    first, second = confidences.argmax(-1) == truth
    mme = max_margin(confidences).argmax(-1) == truth
    counts = [int(torch.count_nonzero(wins)) for wins in (first, second, first & second, mme)]
    return PairWins(shape[1], *counts)
