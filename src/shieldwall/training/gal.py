"""GAL (Kariyappa & Qureshi 2019) on noisy inputs: members whose loss gradients point apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import checked
from shieldwall.training.double_backward import NativeDoubleBackward
from shieldwall.training.objective import Loss, NoisyBatch, NoisyObjective, log_mean_exp, member_logits

FLOOR = 1e-12  #: gradients shorter than this count as zero, which is orthogonal to everything


@checked
@dataclass(frozen=True)
class GAL(NoisyObjective):
    """L = sum_i CE_i + weight * log( 2 / (N (N - 1)) sum_{i<j} exp cos(g_i, g_j) ).

        CE_i = CE(f_i(x + eps), y),     g_i = grad_x CE_i

    The logarithm is the alignment of the N members' gradients; one member has none. The papers leave out the
    constant 2 / (N (N - 1)): it moves no gradient, and makes the alignment 1 when all gradients agree, 0 when
    they are orthogonal.
    """

    weight: float = 1.0  #: the weight of the alignment

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("weight")

    def __call__(self, members: Sequence[nn.Module], batch: NoisyBatch) -> Loss:
        noisy = batch.noisy.detach().requires_grad_()
        with NativeDoubleBackward():
            logits = torch.stack([member_logits(member, noisy) for member in members])
        accuracies = batch.accuracies(logits)
        losses = [F.cross_entropy(own, batch.labels, reduction="none") for own in logits]
        cross_entropies = torch.stack(losses).mean(1).sum()
        alignment = torch.zeros_like(cross_entropies)
        if len(members) > 1:
            gradients = [torch.autograd.grad(own.sum(), noisy, create_graph=True)[0] for own in losses]
            alignment = log_mean_exp_cosine([gradient.flatten(1) for gradient in gradients]).mean()
        terms = {
            "cross_entropy": cross_entropies.detach() / len(members), "alignment": alignment.detach(),
            "noisy_accuracy": accuracies.mean(),
        }  # fmt: skip
        return Loss(cross_entropies + self.weight * alignment, terms, accuracies)


def log_mean_exp_cosine(gradients: Sequence[Tensor]) -> Tensor:
    """log of the mean over pairs of exp cos(g_i, g_j), N gradients (B, D) -> (B,)"""
    # Not g / ||g||: the derivative of a norm at zero is not a number.
    units = [g * (g.square().sum(1, keepdim=True) + FLOOR**2).rsqrt() for g in gradients]
    # Products, not a matmul: autocast would run that one in bfloat16.
    cosines = torch.stack([(first * second).sum(1) for first, second in combinations(units, 2)])
    return log_mean_exp(cosines)
