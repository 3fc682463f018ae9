"""Diversity-Regularized Training (DRT): Yang et al. (2022), section sec:DRT.

    L = L_base + rho_gd * L_GD + rho_cm * L_CM
    L_GD = mean of || grad_x m_i(x) + grad_x m_j(x) ||_2^2     over valid pairs i < j and inputs x
    L_CM = mean of -m_i(x)                                     over members i and inputs x where i is correct

with m_i = f_i(x)_y - max_{k != y} f_i(x)_k the margin of member i's softmax at a noisy input x. A pair is
valid at x if both of its members classify x correctly. The options choose between readings of the paper:

    norm      "squared"  || . ||_2^2            "plain"  || . ||_2, as eq:loss1 prints it
    average   "valid"    over valid entries     "batch"  all inputs count, and pairs (members) add up
    cm_over   "members"  as above               "pairs"  -(m_i + m_j) over valid pairs, as eq:loss2 prints it
    points    "own"      x where the base's own loss of the member is taken
              "noisy"    the noisy inputs that all members share, whatever the base does
    design    "pairwise" as above               "overall" one sum over all members where all are correct
                                                (eq:loss1-new, eq:loss2-new)
    runner_up "any"      as above               "same"    valid members (pairs) have one runner-up class too
    turns     false      as above               true      update t regularises member t mod N alone, with N
                                                times the terms' gradient: over N updates the mean is the same

The defaults have the paper's effect on certified accuracy; the loss as printed (`DRT.as_printed`) has not:
docs/equations.md has the numbers. Where nothing is valid a term is 0.

Each member needs one derivative of its input gradient (`gradient_diversity`): the cost grows with N, not with
the number of pairs. By turns (adxsec:alternative-design) one member needs it.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from shieldwall.errors import UserError, checked, describe
from shieldwall.training.double_backward import NativeDoubleBackward
from shieldwall.training.objective import Loss, MemberObjective, NoisyBatch, Objective, widened

CHOICES = {
    "norm": ("squared", "plain"), "average": ("valid", "batch"), "cm_over": ("members", "pairs"),
    "points": ("own", "noisy"), "design": ("pairwise", "overall"), "runner_up": ("any", "same"),
}  # fmt: skip


@checked
@dataclass(frozen=True)
class DRT(Objective):
    """DRT around any objective that is a sum over members."""

    base: MemberObjective
    rho_gd: float  #: the paper's rho_1; 0 leaves the confidence-margin term alone
    rho_cm: float  #: the paper's rho_2; 0 leaves the gradient-diversity term alone
    norm: str = "squared"
    average: str = "valid"
    cm_over: str = "members"
    points: str = "own"
    design: str = "pairwise"
    runner_up: str = "any"
    turns: bool = False
    update: int = field(default=0, metadata={"option": False})  #: whose turn it is, modulo the members
    warmup: int = 0  #: epochs over which both weights grow linearly to their full size; 0 for none
    min_members: ClassVar[int] = 2

    @classmethod
    def as_printed(cls, base: MemberObjective, rho_gd: float, rho_cm: float) -> "DRT":
        """eq:loss1 and eq:loss2 as the paper prints them, at the noisy inputs that all members share."""
        return cls(base, rho_gd, rho_cm, norm="plain", average="batch", cm_over="pairs", points="noisy")

    def __post_init__(self) -> None:
        if not isinstance(self.base, MemberObjective):
            needed = "it needs a method with a loss per member, such as gaussian, smoothadv or consistency"
            raise UserError(f"DRT cannot wrap {describe(self.base)}: {needed}")
        self._check_not_negative("rho_gd", "rho_cm", "warmup")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(f"{name} must be one of {', '.join(choices)}; given: {getattr(self, name)!r}")

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> NoisyBatch:
        return self.base.draw(x, y, generator)

    def at_epoch(self, epoch: int) -> Self:
        scale, base = self._warmed_up(epoch, self.warmup), self.base.at_epoch(epoch)
        return replace(self, base=base, rho_gd=scale * self.rho_gd, rho_cm=scale * self.rho_cm, warmup=0)

    def at_update(self, update: int) -> Self:
        return replace(self, update=update) if self.turns else self

    def __call__(self, members: Sequence[nn.Module], batch: NoisyBatch) -> Loss:
        self.check_members(count := len(members))
        taken = [batch.noisy if self.points == "noisy" else self.base.inputs(m, batch) for m in members]
        points = [inputs.detach().requires_grad_(self.rho_gd > 0) for inputs in taken]
        trained = [not self.turns or k == self.update % count for k in range(count)]
        logits = []
        for member, inputs, is_trained in zip(members, points, trained, strict=True):
            with NativeDoubleBackward() if is_trained else nullcontext():
                logits.append(widened(member(inputs)))
        base_logits = list(logits)
        if self.points == "noisy":
            for k, member in enumerate(members):
                if (own := self.base.inputs(member, batch)) is not batch.noisy:
                    base_logits[k] = widened(member(own))
        base = self.base.sum_of_losses(members, batch, base_logits)
        margins = [true_margin(own, batch.labels) for own in logits]
        groups = combinations(range(count), 2 if self.design == "pairwise" else count)
        weighted = self._weighted(list(groups), logits, batch)
        counted = [margin if own else margin.detach() for margin, own in zip(margins, trained, strict=True)]
        by_member = self.cm_over == "members"
        alone = self._weighted([(k,) for k in range(count)], logits, batch) if by_member else weighted
        cm = confidence_margin(counted, alone)
        slope = count if self.turns else 1
        total, terms = base.total + self.rho_cm * _steepened(cm, slope), {**base.terms, "cm": cm.detach()}
        if self.rho_gd:
            gradients = [
                torch.autograd.grad(margin.sum(), inputs, create_graph=is_trained, retain_graph=True)[0]
                for margin, inputs, is_trained in zip(margins, points, trained, strict=True)
            ]
            gd = gradient_diversity(gradients, weighted, squared=self.norm == "squared")
            total = total + self.rho_gd * _steepened(gd, slope)
            terms |= {"gd": gd.detach(), "cosine": mean_cosine([g.detach() for g in gradients], weighted)}
        return Loss(total, terms, base.accuracies)

    def _weighted(
        self, groups: Sequence[tuple[int, ...]], logits: Sequence[Tensor], batch: NoisyBatch
    ) -> "list[Group]":
        """The groups with what each counts in an average, from where it is valid."""
        labels = batch.labels
        correct = torch.stack([own.detach().argmax(-1) == labels for own in logits]).to(logits[0].dtype)
        valid = torch.stack([_rows(correct, group).prod(0) for group in groups])
        if self.runner_up == "same":
            runners = torch.stack([runner_up(own, labels) for own in logits])
            valid = valid * torch.stack([_rows(runners, g).eq(runners[g[0]]).all(0) for g in groups])
        weights = batch.weights(valid) if self.average == "valid" else valid / valid.shape[1]
        return [Group(group, weight) for group, weight in zip(groups, weights, strict=True)]


class Group(NamedTuple):
    members: tuple[int, ...]  #: whose terms are added up
    weight: Tensor  #: (B,): what that counts at each input, 0 where not all of these members are correct


def _steepened(value: Tensor, slope: int) -> Tensor:
    return value.detach() + slope * (value - value.detach())


def _rows(values: Tensor | Sequence[Tensor], members: Sequence[int]) -> Tensor:
    """Some rows of (N, B). A list as an index would be copied to the GPU, which a recorded step cannot do."""
    return torch.stack([values[i] for i in members])


def runner_up(logits: Tensor, labels: Tensor) -> Tensor:
    """The class with the largest logit but the true one: (B, K), (B,) -> (B,)"""
    return logits.detach().scatter(-1, labels[:, None], -torch.inf).argmax(-1)


def true_margin(logits: Tensor, labels: Tensor) -> Tensor:
    """f_y - max_{k != y} f_k of the softmax: (B, K), (B,) -> (B,)"""
    confidences = widened(logits).softmax(-1)
    runner_up = confidences.scatter(-1, labels[:, None], -1.0).amax(-1)
    return confidences.gather(-1, labels[:, None])[:, 0] - runner_up


def confidence_margin(margins: Sequence[Tensor], groups: Sequence[Group]) -> Tensor:
    """L_CM over groups: minus the weighted sum of their members' margins, each (B,)."""
    return -torch.stack([weight * _rows(margins, members).sum(0) for members, weight in groups]).sum()


def gradient_diversity(gradients: Sequence[Tensor], groups: Sequence[Group], *, squared: bool) -> Tensor:
    """L_GD: the weighted sum of the groups' norms, differentiated through one direction per member.

    As d||g|| = <g / ||g||, dg>, its unit vector held constant, the gradient is that of
    sum_i <direction_i, g_i> with direction_i = sum over i's groups of the group's summed gradient times twice
    its weight where norms are squared, else its weight over the norm (zero where the norm is, and no NaN).
    """
    fixed = [widened(gradient.detach()) for gradient in gradients]
    directions = [torch.zeros_like(gradient) for gradient in fixed]
    value = fixed[0].new_zeros(())
    for members, weight in groups:
        total = _rows(fixed, members).sum(0)
        square = total.flatten(1).square().sum(1)
        norm = square.sqrt()
        value = value + (weight * (square if squared else norm)).sum()
        slope = 2 * weight if squared else weight / norm.clamp_min(torch.finfo(norm.dtype).tiny)
        step = slope.view(-1, *(1 for _ in total.shape[1:])) * total
        for i in members:
            directions[i] = directions[i] + step
    linear = torch.stack([(d * g).sum() for d, g in zip(directions, gradients, strict=True)]).sum()
    return value + linear - linear.detach()


def mean_cosine(gradients: Sequence[Tensor], groups: Sequence[Group]) -> Tensor:
    """The mean cosine between the margin gradients of two members of a group, where it counts."""
    units = [functional.normalize(widened(gradient).flatten(1), dim=1) for gradient in gradients]
    total, count = units[0].new_zeros(()), units[0].new_zeros(())
    for members, weight in groups:
        valid = weight > 0
        for i, j in combinations(members, 2):
            total = total + (valid * (units[i] * units[j]).sum(1)).sum()
            count = count + valid.sum()
    return total / count.clamp_min(1.0)
