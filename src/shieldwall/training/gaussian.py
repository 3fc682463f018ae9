"""Gaussian augmentation (Cohen et al. 2019; Lecuyer et al. 2019): cross-entropy on noisy images."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import checked
from shieldwall.training.objective import MemberLoss, MemberObjective, NoisyBatch


@checked
@dataclass(frozen=True)
class GaussianAugmentation(MemberObjective):
    """L = sum_i E_eps CE(f_i(x + eps), y), the expectation as the mean over `num_noise` copies."""

    def member_loss(self, member: nn.Module, batch: NoisyBatch, logits: Tensor) -> MemberLoss:
        loss = F.cross_entropy(logits, batch.labels)
        return loss, {"cross_entropy": loss}
