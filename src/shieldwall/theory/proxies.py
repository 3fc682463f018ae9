"""Does the theory foretell which vote is the more robust? The proxies of fig:roc, on real members.

    lambda_1 = E  max_{y != y0} sum_i w_i f_i(x0 + eps)_y / sum_i w_i (1 - f_i(x0 + eps)_{y0})
    lambda_2 = E  max_i max_{y != y0} f_i(x0 + eps)_y / (1 - f_i(x0 + eps)_{y0})

    X = lambda_1 / lambda_2 - the right-hand side of eq:cor2-2
    Y = 1[MME has the larger certified radius]

mu and s^2 in eq:cor2-2 are the mean and variance of f_i(x0 + eps)_{y0} over members and draws, s_f^2 is the
variance of its minimum over the members. For equal weights X > 0 says MME and X < 0 says WE, with no gap in
between (cor:comparision-statistical-lower-bound, its second remark).

The ROC curve takes the inputs in descending order of X and goes up for a Y of 1 and right for a Y of 0. The
area below it is P(X of a 1 > X of a 0) + P(equal) / 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from shieldwall import seeds
from shieldwall.ensembles.ensemble import confidences
from shieldwall.errors import UserError
from shieldwall.models.members import eval_mode
from shieldwall.noise.distributions import Noise
from shieldwall.theory.members import Floats
from shieldwall.theory.statistical import max_margin_portion, threshold_score, thresholds, weighted_portion


@dataclass(frozen=True)
class Proxies:
    """What the comparison of WE and MME needs to know about one input, estimated from draws."""

    lambda_1: float
    lambda_2: float
    mu: float
    s: float
    s_f: float
    threshold: float
    """The right-hand side of eq:cor2-2; NaN where the premises of the corollary fail."""

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
    """The proxies from confidences (N, n, K) on n draws around one input of class `truth`.

    The premises are mu > lambda / (1 + lambda) for both lambdas, and scores that vary.
    """
    f = np.asarray(confidences, dtype=np.float64)
    lambda_1 = float(weighted_portion(f, truth, weights).mean())
    lambda_2 = float(max_margin_portion(f, truth).mean())
    scores = f[..., truth]
    mu, s, s_f = float(scores.mean()), float(scores.std()), float(scores.min(0).std())
    premises = s > 0 and s_f > 0 and mu > float(threshold_score(max(lambda_1, lambda_2)))
    threshold = float(thresholds(mu, lambda_2, s, s_f, len(f)).mme_above) if premises else float("nan")
    return Proxies(lambda_1, lambda_2, mu, s, s_f, threshold)


def noisy_confidences(
    members: Sequence[nn.Module],
    x: Tensor,
    noise: Noise,
    *,
    draws: int = 1_000,
    seed: int = 0,
    index: int = 0,
    batch_size: int = 1_024,
) -> Floats:
    """Confidences (N, n, K) of the members on the same draws around one input x, named by seed and index.

    In double precision: how a member shares out the last 1e-10 decides the proxies too. The draws are no
    draws of any certificate.
    """
    if draws < 2:
        raise UserError(f"proxies need at least 2 draws; given: {draws}")
    generator = seeds.generator(x.device, seed, "proxies", index)
    drawn = noise.sample((draws, *x.shape), generator)
    with eval_mode(members), torch.no_grad():
        found = [
            confidences([partial(_logits_in_double, member) for member in members], x + part)
            for part in torch.split(drawn, batch_size)
        ]
    return np.asarray(torch.cat(found, dim=1).cpu().numpy())


def _logits_in_double(member: nn.Module, x: Tensor) -> Tensor:
    logits: Tensor = member(x)
    return logits.double()


def roc(x: ArrayLike, y: ArrayLike) -> Roc:
    """The ROC curve of the threshold variable x for the labels y, with DeLong's error of its area."""
    values, positive = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.bool_)
    if values.ndim != 1 or values.shape != positive.shape or np.isnan(values).any():
        raise UserError(
            f"a ROC curve takes x (M,) of numbers and y (M,); given: {values.shape}, {positive.shape}"
        )
    ones, zeros = np.sort(values[positive]), np.sort(values[~positive])
    if not len(ones) or not len(zeros):
        raise UserError(f"a ROC curve takes both labels; given: {len(ones)} ones, {len(zeros)} zeros")
    cuts = np.concatenate([[np.inf], np.unique(values)[::-1]])
    above_zeros, above_ones = _share_below(zeros, ones), 1.0 - _share_below(ones, zeros)
    return Roc(
        false_positive=_share_from(zeros, cuts),
        true_positive=_share_from(ones, cuts),
        area=float(above_zeros.mean()),
        error=float(np.sqrt(_variance_of_mean(above_zeros) + _variance_of_mean(above_ones))),
    )


def _share_from(ordered: Floats, cuts: Floats) -> Floats:
    """The share of values that are at least each cut."""
    return np.asarray(1.0 - np.searchsorted(ordered, cuts, side="left") / len(ordered))


def _share_below(ordered: Floats, values: Floats) -> Floats:
    """The share of `ordered` below each value, half of those equal to it included."""
    below = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    return np.asarray(below / (2 * len(ordered)))


def _variance_of_mean(values: Floats) -> float:
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0
