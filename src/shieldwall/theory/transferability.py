"""Transferability between real members: the paper's proxies, its ROC curve (fig:roc), and attacks tried.

    lambda_1, lambda_2 = E of `weighted_portion` and of `max_margin_portion` at x0 + eps
    X = lambda_1 / lambda_2 - the right-hand side of eq:cor2-2
    Y = 1 if MME has the larger certified radius, 0 if WE has

In eq:cor2-2, mu and s^2 are the mean and variance of f_i(x0 + eps)_{y0} over members and noise samples, and
s_f^2 is the variance of its minimum over the members. With equal weights the corollary predicts that MME
has the larger radius if X > 0, and WE if X < 0. The ROC curve takes the inputs in descending order of X; it
goes up for Y = 1 and right for Y = 0. The area below it is P(X of a 1 > X of a 0) + P(equal) / 2.

Attacks on one member, tried on the others; as in def:r-robustness, points may leave the range of pixels:

    x_i = a point within epsilon of x, in L2, that maximises  max_{y != y0} z_i(x)_y - z_i(x)_{y0}
    T_ij = P( F_j(x_i) != y0  |  F_i(x_i) != y0,  F_i(x) = F_j(x) = y0 )

z_i are member i's logits, because the gradient of a confident member's softmax is nearly 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from shieldwall.errors import check
from shieldwall.models.attack import per_image, shortened, unit
from shieldwall.models.members import eval_mode
from shieldwall.theory.conditions import Floats, floats
from shieldwall.theory.statistical import max_margin_portion, threshold_score, thresholds, weighted_portion

OVERSHOOT = 2.5  #: the length of all steps together over epsilon: enough to change direction once


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


@dataclass(frozen=True)
class Transfer:
    """How many attacks there were, and how many transferred: S attacked members, T targets."""

    tried: NDArray[np.int64]  #: (S, T): inputs that both classify correctly, where the attack succeeded
    fooled: NDArray[np.int64]  #: (S, T): those of them where it also fooled the target

    @property
    def rates(self) -> NDArray[np.float64]:
        """T_ij, NaN where no attack succeeded."""
        return np.where(self.tried > 0, self.fooled / np.maximum(self.tried, 1), np.nan)


def proxies(confidences: ArrayLike, truth: int, weights: ArrayLike | None = None) -> Proxies:
    """The proxies from confidences (N, n, K) at n noise samples around one input of class `truth`.

    The premises are mu > lambda / (1 + lambda) for both lambdas, and scores that vary. The confidences need
    double precision: ratios of very small ones matter.
    """
    f = floats(confidences)
    has_samples = f.ndim == 3 and f.shape[1] >= 2
    check(has_samples, "confidences (N, n, K) at n >= 2 samples are needed", f.shape)
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
    rule = "a ROC curve takes x (M,) of numbers and y (M,)"
    check(fits, rule, f"{values.shape}, {positive.shape}")
    ones, zeros = np.sort(values[positive]), np.sort(values[~positive])
    check(len(ones) and len(zeros), "a ROC curve takes both labels", f"{len(ones)} ones, {len(zeros)} zeros")
    cuts = np.concatenate([[np.inf], np.unique(values)[::-1]])
    above_zeros, above_ones = _share_below(zeros, ones), 1.0 - _share_below(ones, zeros)
    error = np.sqrt(_variance_of_mean(above_zeros) + _variance_of_mean(above_ones))
    # The share of each label's values that are at least each cut.
    false, true = (1.0 - np.searchsorted(ordered, cuts) / len(ordered) for ordered in (zeros, ones))
    return Roc(false, true, float(above_zeros.mean()), float(error))


def attack_transfer(members: Sequence[nn.Module], x: Tensor, y: Tensor, *, epsilon: float,
                    targets: Sequence[nn.Module] | None = None, steps: int = 20) -> Transfer:  # fmt: skip
    """Attack each member at x (B, ...) of classes y (B,); try the attacks on the targets, or the members."""
    targets = members if targets is None else targets
    tried, fooled = [], []
    with eval_mode([*members, *targets]):
        correct = _are_correct(targets, x, y)
        for member in members:
            attacked = pgd(member, x, y, epsilon, steps)
            succeeded = _are_correct([member], x, y) & ~_are_correct([member], attacked, y)
            tried.append((succeeded & correct).sum(1))
            fooled.append((succeeded & correct & ~_are_correct(targets, attacked, y)).sum(1))
    return Transfer(torch.stack(tried).cpu().numpy(), torch.stack(fooled).cpu().numpy())


def pgd(member: nn.Module, x: Tensor, y: Tensor, epsilon: float, steps: int = 20) -> Tensor:
    """The points (B, ...) within epsilon of x, of those visited, where another class leads y by most."""
    fits = epsilon > 0 and steps >= 1
    check(fits, "an attack needs epsilon > 0 and steps >= 1", f"{epsilon}, {steps}")
    x = best = point = x.detach()
    highest = torch.full((len(x),), -torch.inf, device=x.device)
    for step in range(steps + 1):
        leaf = point.clone().requires_grad_()
        with torch.enable_grad():
            logits = member(leaf)
            others = logits.scatter(1, y[:, None], -torch.inf).max(1).values
            lead = others - logits.gather(1, y[:, None])[:, 0]
            (gradient,) = torch.autograd.grad(lead.sum(), leaf)
        better = lead.detach() > highest
        highest = torch.where(better, lead.detach(), highest)
        best = torch.where(per_image(better, x), point, best)
        if step < steps:
            point = shortened(point + OVERSHOOT * epsilon / steps * unit(gradient), x, epsilon)
    return best


def _share_below(ordered: Floats, values: Floats) -> Floats:
    """The share of `ordered` below each value, half of those equal to it included."""
    below = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    return np.asarray(below / (2 * len(ordered)))


def _variance_of_mean(values: Floats) -> float:
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0


def _are_correct(classifiers: Sequence[nn.Module], x: Tensor, y: Tensor) -> Tensor:
    """Which of the inputs (B, ...) each of T classifiers gives its class y, (T, B)."""
    with torch.no_grad():
        return torch.stack([classifier(x).argmax(-1) == y for classifier in classifiers])
