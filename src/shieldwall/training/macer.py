"""MACER (Zhai et al. 2020): maximise the certified radius itself, without an attack.

    p   = 1/k sum_j softmax(f_i(x + eps_j)),            eps_j ~ N(0, sigma^2 I)
    q   = 1/k sum_j softmax(beta f_i(x + eps_j))
    gap = Phi^-1(q_y) - Phi^-1(max_{c != y} q_c),       the certified radius is sigma/2 gap
    R   = sigma/2 (gamma - gap) where 0 < gap < gamma, else 0

Only images that the smoothed member gets right (gap > 0) have a radius to widen. The sum of R is divided by
the size B of the whole batch, as in the original, not by their number. beta sharpens softmax towards the
argmax that certification counts.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from shieldwall.errors import check, checked
from shieldwall.noise.distributions import Gaussian
from shieldwall.training.objective import MemberLoss, MemberObjective, NoisyBatch, accuracy, log_mean_exp


@checked
@dataclass(frozen=True)
class MACER(MemberObjective):
    """The likelihood and the radius of smoothed members: L = sum_i 1/B sum_x [ -log p_y + lam * R ].

    p is member i's mean prediction over k noisy copies of x, R what its certified radius lacks.
    """

    num_noise: int = 16  #: k, the noisy copies of each image
    lam: float = 16.0  #: the weight of the robustness term
    gamma: float = 8.0  #: the gap beyond which a radius is wide enough
    beta: float = 16.0  #: the inverse temperature of the robustness term
    defer: int = 0  #: epochs of classification alone, before the robustness term sets in

    def __post_init__(self) -> None:
        super().__post_init__()
        check(isinstance(self.noise, Gaussian), "MACER's radius is that of Gaussian noise", self.noise)
        self._check_not_negative("lam", "defer")
        self._check_positive("gamma", "beta")

    def at_epoch(self, epoch: int) -> Self:
        return replace(self, lam=self.lam if epoch >= self.defer else 0.0, defer=0)

    def member_loss(self, member: nn.Module, batch: NoisyBatch, logits: Tensor) -> MemberLoss:
        assert isinstance(self.noise, Gaussian)
        by_copy = batch.by_copy(logits)
        log_p = log_mean_exp(by_copy.log_softmax(-1))
        classification = -log_p.gather(-1, batch.y[:, None]).mean()
        gap = certified_gap(log_mean_exp((self.beta * by_copy).log_softmax(-1)).exp(), batch.y)
        hinged = torch.where((gap > 0) & (gap < self.gamma), self.gamma - gap, 0.0)
        robustness = self.noise.sigma / 2 * hinged.mean()
        terms = {
            "classification": classification, "robustness": robustness,
            "smoothed_accuracy": accuracy(log_p, batch.y),
        }  # fmt: skip
        return classification + self.lam * robustness, terms


def certified_gap(q: Tensor, y: Tensor) -> Tensor:
    """Phi^-1(q_y) - Phi^-1(max_{c != y} q_c).  (B, K), (B,) -> (B,)"""
    # The ends of float32's open interval (0, 1), beyond which Phi^-1 is infinite.
    lowest, highest = torch.finfo(q.dtype).tiny, 1 - torch.finfo(q.dtype).eps
    labelled = torch.zeros_like(q, dtype=torch.bool).scatter(1, y[:, None], True)
    q_y = q.gather(1, y[:, None])[:, 0].clamp(lowest, highest)
    runner_up = q.masked_fill(labelled, 0).amax(1).clamp(lowest, highest)
    gap: Tensor = torch.special.ndtri(q_y) - torch.special.ndtri(runner_up)
    return gap
