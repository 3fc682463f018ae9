"""Predictions that noise does not move: stability training (Li et al. 2019), consistency (Jeong & Shin 2020).

Stability has labels at the clean image only, and trains both sides of D:

    kl             D(P, Q) = KL(P || Q)      = sum_c P_c (log P_c - log Q_c)
    renyi          D(P, Q) = D_a(P || Q)     = log( sum_c P_c^a Q_c^(1-a) ) / (a - 1),   a = order
    cross_entropy  D(P, Q) = KL(P || Q) + H(P) = -sum_c P_c log Q_c

This paper describes D as the Rényi divergence; Li et al. and the code the literature runs (that of Jeong &
Shin 2020, lam = 2, one noisy copy) train with the cross-entropy, which also rewards confidence at the clean
image. `kl` lies between: it is the limit of `renyi` at order 1.
"""

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import check, checked, unknown_name
from shieldwall.training.objective import MemberLoss, MemberObjective, NoisyBatch, log_mean_exp, member_logits

DIVERGENCES = ("kl", "renyi", "cross_entropy")


@checked
@dataclass(frozen=True)
class Stability(MemberObjective):
    """L = sum_i CE(f_i(x), y) + lam * 1/m sum_j D( P_i(x), P_i(x + eps_j) ), where P_i = softmax f_i."""

    lam: float = 2.0  #: the weight of the divergence
    divergence: str = "kl"  #: one of kl, renyi and cross_entropy
    order: float = 2.0  #: the order a of the Rényi divergence

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("lam")
        if self.divergence not in DIVERGENCES:
            raise unknown_name("divergence", str(self.divergence), DIVERGENCES)
        rule = "must be a positive number other than 1, where it is divergence: kl"
        fits = 0 < self.order < math.inf and self.order != 1
        check(fits, f"order (of the Rényi divergence) {rule}", self.order)

    def member_loss(self, member: nn.Module, batch: NoisyBatch, logits: Tensor) -> MemberLoss:
        clean = member_logits(member, batch.x)
        cross_entropy = F.cross_entropy(clean, batch.y)
        log_p, log_q = clean.log_softmax(-1), batch.by_copy(logits.log_softmax(-1))
        if self.divergence == "kl":
            divergence = kl(log_p, log_q).mean()
        elif self.divergence == "renyi":
            divergence = renyi(log_p, log_q, self.order).mean()
        else:
            divergence = -(log_p.exp() * log_q).sum(-1).mean()
        terms = {"cross_entropy": cross_entropy, "divergence": divergence}
        return cross_entropy + self.lam * divergence, terms


@checked
@dataclass(frozen=True)
class Consistency(MemberObjective):
    """L = sum_i 1/m sum_j [ CE(f_i(x + eps_j), y) + lam * KL(P || P_j) ] + eta * H(P).

    P_j = softmax f_i(x + eps_j),     P = 1/m sum_j P_j,     H(P) = -sum_c P_c log P_c
    """

    lam: float = 10.0  #: the weight of the divergence from the mean prediction
    eta: float = 0.5  #: the weight of the mean prediction's entropy

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.num_noise >= 2, "num_noise must be at least 2, for copies to agree", self.num_noise)
        self._check_not_negative("lam", "eta")

    def member_loss(self, member: nn.Module, batch: NoisyBatch, logits: Tensor) -> MemberLoss:
        cross_entropy = F.cross_entropy(logits, batch.labels)
        log_p_by_copy = batch.by_copy(logits.log_softmax(-1))
        log_p = log_mean_exp(log_p_by_copy)
        divergence = kl(log_p, log_p_by_copy).mean()
        entropy = -(log_p.exp() * log_p).sum(-1).mean()
        terms = {"cross_entropy": cross_entropy, "divergence": divergence, "entropy": entropy}
        return cross_entropy + self.lam * divergence + self.eta * entropy, terms


def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(P || Q) over the last dimension."""
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def renyi(log_p: Tensor, log_q: Tensor, order: float) -> Tensor:
    """D_order(P || Q) over the last dimension."""
    return (order * log_p + (1 - order) * log_q).logsumexp(-1) / (order - 1)
