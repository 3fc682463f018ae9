"""Methods whose loss is a sum over members, each of one member at noisy images: what DRT can wrap."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import UserError, check, check_name, checked, describe
from shieldwall.models.attack import smoothed_pgd
from shieldwall.models.denoised import Denoised
from shieldwall.noise.distributions import Gaussian
from shieldwall.training.objective import MemberLoss, MemberObjective, NoisyBatch, log_mean_exp, widened

DIVERGENCES = ("kl", "renyi", "cross_entropy")


@checked
@dataclass(frozen=True)
class GaussianAugmentation(MemberObjective):
    """Cohen et al. 2019: L = sum_i E_eps CE(f_i(x + eps), y), as the mean over `num_noise` copies."""

    def member_loss(self, member: nn.Module, batch: NoisyBatch, logits: Tensor) -> MemberLoss:
        loss = F.cross_entropy(logits, batch.labels)
        return loss, {"cross_entropy": loss}


@checked
@dataclass(frozen=True)
class SmoothAdv(GaussianAugmentation):
    """Salman et al. 2019, cross-entropy under attack: L = sum_i 1/m sum_j CE(f_i(x'_i + eps_j), y).

        x'_i = argmax over ||x' - x||_2 <= epsilon of -log( 1/m sum_j softmax(f_i(x' + eps_j))_y )

    Each member i is attacked on its own, with the noise it is then trained on: the attack and the loss see
    the same m draws eps_j. The ball grows linearly to epsilon over the first `warmup` epochs.
    """

    epsilon: float = 1.0  #: the radius of the attack's L2 ball
    steps: int = 10  #: PGD steps, each of length 2 epsilon / steps
    warmup: int = 10  #: epochs until the ball has its full radius; 0 for none
    accuracy_name: ClassVar[str] = "adversarial_accuracy"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_positive("epsilon")
        check(self.steps >= 1, "steps (of the attack) must be at least 1", self.steps)
        self._check_not_negative("warmup")

    def at_epoch(self, epoch: int) -> Self:
        return replace(self, epsilon=self._warmed_up(epoch, self.warmup) * self.epsilon, warmup=0)

    def inputs(self, member: nn.Module, batch: NoisyBatch) -> Tensor:
        noise = batch.by_copy(batch.noise)
        adversarial = smoothed_pgd(member, batch.x, batch.y, noise, self.epsilon, self.steps)
        return (adversarial + noise).flatten(0, 1)


@checked
@dataclass(frozen=True)
class MACER(MemberObjective):
    """Zhai et al. 2020, without an attack: L = sum_i 1/B sum_x [ -log p_y + lam * R ].

        p   = 1/k sum_j softmax(f_i(x + eps_j)),            eps_j ~ N(0, sigma^2 I)
        q   = 1/k sum_j softmax(beta f_i(x + eps_j))
        gap = Phi^-1(q_y) - Phi^-1(max_{c != y} q_c),       the certified radius is sigma/2 gap
        R   = sigma/2 (gamma - gap) where 0 < gap < gamma, else 0

    Only images that the smoothed member gets right (gap > 0) have a radius to widen. The sum of R is divided
    by the size B of the whole batch, as in the original, not by their number. beta sharpens softmax towards
    the argmax that certification counts.
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
        accuracy = (log_p.argmax(-1) == batch.y).float().mean()
        terms = {"classification": classification, "robustness": robustness, "smoothed_accuracy": accuracy}
        return classification + self.lam * robustness, terms


def certified_gap(q: Tensor, y: Tensor) -> Tensor:
    """Phi^-1(q_y) - Phi^-1(max_{c != y} q_c).  (B, K), (B,) -> (B,)"""
    # The ends of float32's open interval (0, 1), beyond which Phi^-1 is infinite.
    lowest, highest = torch.finfo(q.dtype).tiny, 1 - torch.finfo(q.dtype).eps
    labelled = torch.zeros_like(q, dtype=torch.bool).scatter(1, y[:, None], True)
    q_y = q.gather(1, y[:, None])[:, 0].clamp(lowest, highest)
    runner_up = q.masked_fill(labelled, 0).amax(1).clamp(lowest, highest)
    return torch.special.ndtri(q_y) - torch.special.ndtri(runner_up)  # type: ignore[no-any-return]


@checked
@dataclass(frozen=True)
class Stability(MemberObjective):
    """Li et al. 2019: L = sum_i CE(f_i(x), y) + lam * 1/m sum_j D( P_i(x), P_i(x + eps_j) ).

        kl             D(P, Q) = KL(P || Q)      = sum_c P_c (log P_c - log Q_c)
        renyi          D(P, Q) = D_a(P || Q)     = log( sum_c P_c^a Q_c^(1-a) ) / (a - 1),   a = order
        cross_entropy  D(P, Q) = KL(P || Q) + H(P) = -sum_c P_c log Q_c

    P_i = softmax f_i. Labels are at the clean image only, and both sides of D are trained. This paper writes
    of `renyi`, whose limit at order 1 is `kl`; the literature's code takes the cross-entropy, which also
    rewards confidence at the clean image.
    """

    lam: float = 2.0  #: the weight of the divergence
    divergence: str = "kl"  #: one of kl, renyi and cross_entropy
    order: float = 2.0  #: the order a of the Rényi divergence

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_not_negative("lam")
        check_name("divergence", self.divergence, DIVERGENCES)
        rule = "must be a positive number other than 1, where it is divergence: kl"
        fits = 0 < self.order < math.inf and self.order != 1
        check(fits, f"order (of the Rényi divergence) {rule}", self.order)

    def member_loss(self, member: nn.Module, batch: NoisyBatch, logits: Tensor) -> MemberLoss:
        clean = widened(member(batch.x))
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
    """Jeong & Shin 2020: L = sum_i 1/m sum_j [ CE(f_i(x + eps_j), y) + lam * KL(P || P_j) ] + eta * H(P).

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
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def renyi(log_p: Tensor, log_q: Tensor, order: float) -> Tensor:
    return (order * log_p + (1 - order) * log_q).logsumexp(-1) / (order - 1)


@dataclass(frozen=True)
class Denoising(MemberObjective):
    """L = sum_i 1/m sum_j [ mse * 1/P |D_i(x + eps_j) - x|^2 + stability * CE( F(D_i(x + eps_j)), c(x) ) ].

    Denoised smoothing (Salman et al. 2020): member i is `sw.Denoised(D_i, F)`, P = C H W, and c(x) =
    argmax_c F(x)_c the answer of F at the image without noise. No labels are used.
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
