"""Gaussian augmentation (Cohen et al. 2019): training as under the noise of certification."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.training.objective import Loss, MemberObjective, NoisyBatch, accuracy


@dataclass(frozen=True)
class GaussianAugmentation(MemberObjective):
    """Cross-entropy on noisy copies of each image: L = sum_i E_eps CE(f_i(x + eps), y).

    The expectation over the noise eps is the mean over `num_noise` copies, the same for every member i.
    """

    def member_loss(
        self,
        member: nn.Module,
        batch: NoisyBatch,
        noisy_logits: Callable[[], Tensor],
        generator: torch.Generator,
    ) -> Loss:
        logits = noisy_logits()
        loss = F.cross_entropy(logits, batch.labels)
        terms = {"cross_entropy": loss.detach(), "noisy_accuracy": accuracy(logits, batch.labels)}
        return Loss(loss, terms)
