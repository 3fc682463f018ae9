"""Consistency regularisation (Jeong & Shin 2020): predictions that agree under different noise."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import UserError, checked
from shieldwall.training.objective import MemberLoss, MemberObjective, NoisyBatch, log_mean_exp
from shieldwall.training.stability import kl


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
        if self.num_noise < 2:
            raise UserError(f"num_noise must be at least 2, for copies to agree; given: {self.num_noise}")
        self._check_not_negative("lam", "eta")

    def member_loss(self, member: nn.Module, batch: NoisyBatch, logits: Tensor) -> MemberLoss:
        cross_entropy = F.cross_entropy(logits, batch.labels)
        log_p_by_copy = batch.by_copy(logits.log_softmax(-1))
        log_p = log_mean_exp(log_p_by_copy)
        divergence = kl(log_p, log_p_by_copy).mean()
        entropy = -(log_p.exp() * log_p).sum(-1).mean()
        terms = {"cross_entropy": cross_entropy, "divergence": divergence, "entropy": entropy}
        return cross_entropy + self.lam * divergence + self.eta * entropy, terms
