"""Denoised smoothing (Salman et al. 2020): train a denoiser D_i before a classifier F that is held fixed.

    MSE        1/P || D_i(x + eps) - x ||_2^2        P pixels
    stability  CE( F(D_i(x + eps)), c(x) ),          c(x) = argmax_c F(x)_c

Labels are not used. The gradient of the stability loss goes through F, whose weights stay as they are.

D_i(x + eps) (m * B, C, H, W); F(D_i(x + eps)) (m * B, K); c(x) (B,).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import UserError, describe
from shieldwall.models.denoised import Denoised
from shieldwall.training.objective import MemberObjective, NoisyBatch, widened


@dataclass(frozen=True)
class Denoising(MemberObjective):
    """L = sum_i 1/m sum_j [ mse * 1/P |D_i(x + eps_j) - x|^2 + stability * CE( F(D_i(x + eps_j)), c(x) ) ].

    Members are `sw.Denoised(D_i, F)`; c(x) is the answer of F at the image x without noise.
    """

    mse: float = 1.0
    """The weight of the mean squared error of the denoised image."""
    stability: float = 1.0
    """The weight of the cross-entropy from the classifier's answer at the clean image."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("mse", self.mse), ("stability", self.stability)):
            if not 0 <= value < math.inf:
                raise UserError(f"{name} must be a number that is not negative; given: {value}")
        if not self.mse and not self.stability:
            raise UserError("mse and stability are both 0, so there is nothing to train")

    def member_loss(
        self, member: nn.Module, batch: NoisyBatch, logits: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if not isinstance(member, Denoised):
            raise UserError(
                f"a denoiser is trained before its classifier: members must be sw.Denoised(denoiser, "
                f"classifier); given: {describe(member)}"
            )
        with torch.no_grad():
            answers = member.classifier(batch.x).argmax(-1).repeat(batch.copies)
        loss = self.stability * (stability := F.cross_entropy(logits, answers))
        terms = {"stability": stability.detach()}
        if self.mse:
            clean = batch.x.repeat(batch.copies, *(1 for _ in batch.x.shape[1:]))
            error = F.mse_loss(widened(member.denoiser(batch.noisy)), clean)
            loss, terms["mse"] = loss + self.mse * error, error.detach()
        return loss, terms
