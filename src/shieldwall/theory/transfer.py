"""Attacks on one member, tried on the others.

    x_i = a point within epsilon of x, in L2, that maximises  max_{y != y0} z_i(x)_y - z_i(x)_{y0}
    T_ij = P( F_j(x_i) != y0  |  F_i(x_i) != y0,  F_i(x) = F_j(x) = y0 )

z_i are member i's logits: softmax saturates where a member is sure, and its gradient vanishes. The attack is
projected gradient descent with steps of equal length, and keeps the best point on its way. As in
def:r-robustness, points may leave the range of pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shieldwall.errors import UserError
from shieldwall.models.members import eval_mode

TINY = 1e-20
"""Below this a gradient or a perturbation has no direction worth following."""
OVERSHOOT = 2.5
"""The length of all steps together over epsilon: enough to turn round once."""


@dataclass(frozen=True)
class Transfer:
    """How many attacks there were, and how many went over: S attacked members, T targets."""

    tried: NDArray[np.int64]
    """(S, T): inputs that both classify rightly and where the attack fooled the member it was made on."""
    fooled: NDArray[np.int64]
    """(S, T): those among them where it fooled the target."""

    @property
    def rates(self) -> NDArray[np.float64]:
        """T_ij, NaN where no attack succeeded."""
        return np.where(self.tried > 0, self.fooled / np.maximum(self.tried, 1), np.nan)


def transferability(
    members: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    epsilon: float,
    targets: Sequence[nn.Module] | None = None,
    steps: int = 20,
) -> Transfer:
    """Attack each member at x (B, ...) of classes y (B,); by default the targets are the members again."""
    aims = members if targets is None else targets
    with eval_mode([*members, *aims]):
        right = [_labels(target, x) == y for target in aims]
        tried, fooled = [], []
        for member in members:
            attacked = pgd(member, x, y, epsilon, steps)
            done = (_labels(member, x) == y) & (_labels(member, attacked) != y)
            over = [_labels(target, attacked) != y for target in aims]
            tried.append([int((done & clean).sum()) for clean in right])
            fooled.append([int((done & clean & now).sum()) for clean, now in zip(right, over, strict=True)])
    return Transfer(np.array(tried), np.array(fooled))


def pgd(member: nn.Module, x: Tensor, y: Tensor, epsilon: float, steps: int = 20) -> Tensor:
    """Points (B, ...) within epsilon of x at which `member` is furthest from answering y, as far as found."""
    if not epsilon > 0 or steps < 1:
        raise UserError(f"an attack needs epsilon > 0 and steps >= 1; given: {epsilon}, {steps}")
    x = best = now = x.detach()
    highest = torch.full((len(x),), -torch.inf, device=x.device)
    for step in range(steps + 1):
        points = now.clone().requires_grad_()
        with torch.enable_grad():
            lead = _lead_of_others(member(points), y)
            (gradient,) = torch.autograd.grad(lead.sum(), points)
        better = lead.detach() > highest
        highest = torch.where(better, lead.detach(), highest)
        best = torch.where(_per_input(better, x), now, best)
        if step < steps:
            now = _shortened(now + OVERSHOOT * epsilon / steps * gradient / _lengths(gradient), x, epsilon)
    return best


def _lead_of_others(logits: Tensor, y: Tensor) -> Tensor:
    true = logits.gather(1, y[:, None])[:, 0]
    others = logits.scatter(1, y[:, None], -torch.inf).max(1).values
    return others - true


def _shortened(points: Tensor, x: Tensor, epsilon: float) -> Tensor:
    moved = points - x
    return x + moved * (epsilon / _lengths(moved)).clamp_max(1)


def _lengths(images: Tensor) -> Tensor:
    return _per_input(torch.linalg.vector_norm(images.flatten(1), dim=1).clamp_min(TINY), images)


def _per_input(values: Tensor, images: Tensor) -> Tensor:
    return values.view(-1, *(1 for _ in images.shape[1:]))


def _labels(classifier: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        labels: Tensor = classifier(x).argmax(-1)
        return labels
