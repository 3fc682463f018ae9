"""Diversity-Regularized Training (DRT): Yang et al. (2022), section sec:DRT.

    L = L_base + rho_gd * sum over valid pairs i < j of L_GD,ij + rho_cm * sum over them of L_CM,ij

    L_GD,ij = || grad_x m_i(x) + grad_x m_j(x) ||_2                     (eq:loss1)
    L_CM,ij = -(m_i(x) + m_j(x))                                       (eq:loss2)

with m_i = f_i(x)_y - max_{k != y} f_i(x)_k the margin of member i's softmax, at the noisy inputs
x = x_0 + eps that all members share. A pair is valid at x if both of its members classify x correctly.
Both terms are averaged over the whole batch, invalid pairs counting zero. The overall design
(eq:loss1-new, eq:loss2-new) replaces the pairs by one sum over the members where all are correct:

    L_GD = || sum_i grad_x m_i(x) ||_2,    L_CM = -sum_i m_i(x)

Around SmoothAdv, x may also be each member's own adversarial input x_i = x'_i + eps, where its base loss is
taken: `points="adversarial"` reads m_i(x_i) for m_i(x) throughout, and correct is correct at x_i.

The gradient of a norm is d||g|| = <g / ||g||, dg>, its unit vector held constant, and the directions of
all pairs of a member add up. So each member needs one derivative of its input gradient along one
direction, and the cost grows with N, not with the number of pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from shieldwall.errors import UserError, describe
from shieldwall.training.double_backward import native_double_backward
from shieldwall.training.objective import Loss, MemberObjective, NoisyBatch, Objective, summed

DESIGNS = ("pairwise", "overall")
POINTS = ("noisy", "adversarial")


@dataclass(frozen=True)
class DRT(Objective):
    """DRT around any objective that is a sum over members."""

    base: MemberObjective
    rho_gd: float
    """The paper's rho_1; 0 leaves the confidence-margin term alone."""
    rho_cm: float
    """The paper's rho_2; 0 leaves the gradient-diversity term alone."""
    squared: bool = False
    """Squared norms in the gradient-diversity term."""
    design: str = "pairwise"
    points: str = "noisy"
    """Where margins are taken: at the noisy inputs that all share, or at each member's adversarial ones."""
    warmup: int = 0
    """Epochs over which both weights grow linearly to their full size; 0 for none."""
    scale: float = field(default=1.0, repr=False, metadata={"option": False})
    """The part of both weights that this epoch uses: `at_epoch` sets it."""

    def __post_init__(self) -> None:
        if not isinstance(self.base, MemberObjective):
            raise UserError(
                f"DRT cannot wrap {describe(self.base)}: it needs a method with a loss per member, "
                "such as gaussian, smoothadv or consistency"
            )
        for name, rho in (("rho_gd", self.rho_gd), ("rho_cm", self.rho_cm)):
            if not 0 <= rho < float("inf"):
                raise UserError(f"{name} must be a number that is not negative; given: {rho}")
        if self.warmup < 0:
            raise UserError(f"warmup (epochs) must not be negative; given: {self.warmup}")
        if self.design not in DESIGNS:
            raise UserError(f"design must be one of {', '.join(DESIGNS)}; given: {self.design!r}")
        if self.points not in POINTS:
            raise UserError(f"points must be one of {', '.join(POINTS)}; given: {self.points!r}")
        if self.points == "adversarial" and not self.base.has_own_inputs:
            raise UserError(
                "points: adversarial needs a base that attacks its members, such as smoothadv; "
                f"given: {type(self.base).__name__}"
            )

    def check_members(self, count: int) -> None:
        if count < 2:
            raise UserError(f"DRT regularises pairs of members: it needs at least two; given: {count}")

    def at_epoch(self, epoch: int) -> Self:
        scale = min(1.0, (epoch + 1) / self.warmup) if self.warmup else 1.0
        return replace(self, base=self.base.at_epoch(epoch), scale=scale)

    def __call__(
        self, members: Sequence[nn.Module], x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Loss:
        self.check_members(len(members))
        batch = NoisyBatch.draw(x, y, self.base.noise, self.base.num_noise, generator)
        points = [self._points(member, batch).detach().requires_grad_(self.rho_gd > 0) for member in members]
        with native_double_backward():
            logits = [member(one) for member, one in zip(members, points, strict=True)]
        base = summed(
            [
                self._base_loss(member, batch, one, generator)
                for member, one in zip(members, logits, strict=True)
            ]
        )
        margins = [true_margin(one, batch.labels) for one in logits]
        correct = [one.detach().argmax(-1) == batch.labels for one in logits]
        groups = valid_groups(correct, self.design)
        cm = confidence_margin(margins, groups)
        total, terms = base.total + self.scale * self.rho_cm * cm, {**base.terms, "cm": cm.detach()}
        if self.rho_gd:
            gradients = [
                torch.autograd.grad(margin.sum(), one, create_graph=True)[0]
                for margin, one in zip(margins, points, strict=True)
            ]
            gd = gradient_diversity(gradients, groups, self.squared)
            total = total + self.scale * self.rho_gd * gd
            cosine = mean_cosine([gradient.detach() for gradient in gradients], groups)
            terms |= {"gd": gd.detach(), "cosine": cosine}
        return Loss(total, terms)

    def _points(self, member: nn.Module, batch: NoisyBatch) -> Tensor:
        """Where this member's margin is taken."""
        return batch.noisy if self.points == "noisy" else self.base.noisy_inputs(member, batch)

    def _base_loss(
        self, member: nn.Module, batch: NoisyBatch, logits: Tensor, generator: torch.Generator
    ) -> Loss:
        """The base's loss: from these logits at `points`, unless it is taken elsewhere."""
        if self.points == "noisy" and self.base.has_own_inputs:
            elsewhere = self.base.noisy_inputs(member, batch)
            return self.base.member_loss(member, batch, partial(member, elsewhere), generator)
        return self.base.member_loss(member, batch, lambda: logits, generator)


class Group(NamedTuple):
    """Members whose terms are added up, and where that counts."""

    members: tuple[int, ...]
    valid: Tensor
    """(B,), bool: where all of these members are correct."""


def valid_groups(correct: Sequence[Tensor], design: str) -> list[Group]:
    """All pairs of members, or all members at once."""
    everyone = tuple(range(len(correct)))
    chosen = list(combinations(everyone, 2)) if design == "pairwise" else [everyone]
    return [Group(group, torch.stack([correct[i] for i in group]).all(0)) for group in chosen]


def true_margin(logits: Tensor, labels: Tensor) -> Tensor:
    """f_y - max_{k != y} f_k of the softmax: (B, K), (B,) -> (B,)"""
    confidences = widened(logits).softmax(-1)
    true = confidences.gather(-1, labels[:, None])[:, 0]
    runner_up = confidences.scatter(-1, labels[:, None], -1.0).amax(-1)
    return true - runner_up


def confidence_margin(margins: Sequence[Tensor], groups: Sequence[Group]) -> Tensor:
    """L_CM averaged over the batch: minus the valid groups' summed margins."""
    sums = [group.valid * sum(margins[i] for i in group.members) for group in groups]
    return -torch.stack(sums).sum(0).mean()


def gradient_diversity(gradients: Sequence[Tensor], groups: Sequence[Group], squared: bool = False) -> Tensor:
    """L_GD averaged over the batch, differentiated through one direction per member.

    The value is that of the norms; its gradient is that of sum_i <direction_i, g_i> with
    direction_i = sum over i's groups of the unit vector of the group's summed gradient (zero where that
    sum is zero, so that no NaN arises there).
    """
    fixed = [widened(gradient.detach()) for gradient in gradients]
    directions = [torch.zeros_like(one) for one in fixed]
    value = fixed[0].new_zeros(())
    for group in groups:
        total = torch.stack([fixed[i] for i in group.members]).sum(0)
        norm = total.flatten(1).norm(dim=1)
        weight = group.valid.to(norm.dtype) / len(norm)
        value = value + (weight * (norm.square() if squared else norm)).sum()
        slope = 2 * weight if squared else weight / norm.clamp_min(torch.finfo(norm.dtype).tiny)
        for i in group.members:
            directions[i] = directions[i] + slope.view(-1, *(1 for _ in total.shape[1:])) * total
    linear = torch.stack(
        [(direction * gradient).sum() for direction, gradient in zip(directions, gradients, strict=True)]
    ).sum()
    return value + linear - linear.detach()


def mean_cosine(gradients: Sequence[Tensor], groups: Sequence[Group]) -> Tensor:
    """The mean cosine between the margin gradients of two members of a group, where it is valid."""
    units = [functional.normalize(widened(gradient).flatten(1), dim=1) for gradient in gradients]
    total, count = units[0].new_zeros(()), units[0].new_zeros(())
    for group in groups:
        for i, j in combinations(group.members, 2):
            total = total + (group.valid * (units[i] * units[j]).sum(1)).sum()
            count = count + group.valid.sum()
    return total / count.clamp_min(1.0)


def widened(tensor: Tensor) -> Tensor:
    """In float32 or better: half precision has too few digits for margins and norms."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
