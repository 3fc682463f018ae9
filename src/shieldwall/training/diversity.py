"""ADP (Pang et al. 2019) and GAL (Kariyappa & Qureshi 2019) on noisy inputs: members that differ.

ADP's members disagree about the wrong classes:

    P  = 1/N sum_i P_i,        P_i = softmax f_i(x + eps),       H(P) = -sum_c P_c log P_c
    ED = det( M^T M + RIDGE I ),   the squared volume that the columns M_i of M span
    M_i = P_i without its entry y, divided by its L2 norm

Without the ridge ED is 0 once N > K - 1, when N vectors of K - 1 entries have no volume, and whenever two
members agree. docs/equations.md says where this paper prints other signs and constants.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import checked
from shieldwall.training.double_backward import NativeDoubleBackward
from shieldwall.training.objective import Loss, NoisyBatch, NoisyObjective, log_mean_exp, widened

RIDGE = 1e-6
FLOOR = 1e-12  #: gradients shorter than this count as zero, which is orthogonal to everything


@checked
@dataclass(frozen=True)
class ADP(NoisyObjective):
    """L = sum_i CE(f_i(x + eps), y) - alpha * H(P) - beta * log ED, with H and ED as above."""

    alpha: float = 2.0  #: the weight of the mean prediction's entropy
    beta: float = 0.5  #: the weight of the log-volume

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("alpha", "beta")

    def __call__(self, members: Sequence[nn.Module], batch: NoisyBatch) -> Loss:
        logits = torch.stack([widened(member(batch.noisy)) for member in members])
        accuracies = batch.accuracies(logits)
        cross_entropies = torch.stack([F.cross_entropy(own, batch.labels) for own in logits]).sum()
        log_p = log_mean_exp(logits.log_softmax(-1))
        entropy = -(log_p.exp() * log_p).sum(-1).mean()
        log_volume = log_det_gram(non_maximal(logits, batch.labels.expand(len(members), -1))).mean()
        terms = {
            "cross_entropy": cross_entropies.detach() / len(members), "entropy": entropy.detach(),
            "log_volume": log_volume.detach(), "noisy_accuracy": accuracies.mean(),
        }  # fmt: skip
        return Loss(cross_entropies - self.alpha * entropy - self.beta * log_volume, terms, accuracies)


def non_maximal(logits: Tensor, labels: Tensor) -> Tensor:
    """M: predictions, 0 for the true class, at unit length.  (N, B, K), (N, B) -> (N, B, K)"""
    # Softmax over the other classes is the same direction, and does not underflow where P_y is nearly 1.
    labelled = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, labels[..., None], True)
    return F.normalize(logits.masked_fill(labelled, -torch.inf).softmax(-1), dim=-1)


def log_det_gram(vectors: Tensor) -> Tensor:
    """log det( V V^T + RIDGE I ) of the N vectors of each image.  (N, B, K) -> (B,)

    By Gram-Schmidt: the volume is the product of the vectors' lengths, each taken orthogonally to those
    before. The ridge enters as N more entries sqrt(RIDGE) e_i, so that no length is below sqrt(RIDGE):
    float32 resolves that, where in V V^T itself rounding could exceed the ridge.
    """
    count, size, _ = vectors.shape
    ridge = math.sqrt(RIDGE) * torch.eye(count, device=vectors.device)
    rest = torch.cat([vectors, ridge[:, None].expand(count, size, count)], dim=-1)
    log_det = vectors.new_zeros(size)
    for _ in range(count):
        first, rest = rest[0], rest[1:]
        squared_length = first.square().sum(-1)
        log_det = log_det + squared_length.log()
        along = (rest * first).sum(-1) / squared_length
        rest = rest - along[..., None] * first
    return log_det


@checked
@dataclass(frozen=True)
class GAL(NoisyObjective):
    """L = sum_i CE_i + weight * log( 2 / (N (N - 1)) sum_{i<j} exp cos(g_i, g_j) ).

        CE_i = CE(f_i(x + eps), y),     g_i = grad_x CE_i

    The logarithm is the alignment of the N members' gradients: 1 where all agree, 0 where they are
    orthogonal. One member has none.
    """

    weight: float = 1.0  #: the weight of the alignment

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("weight")

    def __call__(self, members: Sequence[nn.Module], batch: NoisyBatch) -> Loss:
        noisy = batch.noisy.detach().requires_grad_()
        with NativeDoubleBackward():
            logits = torch.stack([widened(member(noisy)) for member in members])
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
