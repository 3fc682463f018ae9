"""Denoised smoothing (Salman et al. 2020): train a denoiser D_i before a classifier F that is held fixed."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import UserError, describe
from shieldwall.models.denoised import Denoised
from shieldwall.training.objective import MemberLoss, MemberObjective, NoisyBatch, widened


@dataclass(frozen=True)
class Denoising(MemberObjective):
    """L = sum_i 1/m sum_j [ mse * 1/P |D_i(x + eps_j) - x|^2 + stability * CE( F(D_i(x + eps_j)), c(x) ) ].

    Member i is `sw.Denoised(D_i, F)`, P = C H W, and c(x) = argmax_c F(x)_c the answer of F at the image
    without noise. No labels are used.
    """

    mse: float = 1.0  #: the weight of the denoised image's squared error
    stability: float = 1.0  #: the weight of the cross-entropy to the classifier's answer at the clean image

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.mse < math.inf and 0 <= self.stability < math.inf and self.mse + self.stability):
            given = f"{self.mse} and {self.stability}"
            raise UserError(f"mse and stability must not be negative, and not both be 0; given: {given}")

    def member_loss(self, member: nn.Module, batch: NoisyBatch, logits: Tensor) -> MemberLoss:
        if not isinstance(member, Denoised):
            raise UserError(f"members must be sw.Denoised(denoiser, classifier); given: {describe(member)}")
        with torch.no_grad():
            answers = member.classifier(batch.x).argmax(-1)
        images = widened(member.denoiser(batch.noisy))
        error = (batch.by_copy(images) - batch.x).square().mean()
        stability = F.cross_entropy(logits, answers.repeat(batch.copies))
        return self.mse * error + self.stability * stability, {"mse": error, "stability": stability}
