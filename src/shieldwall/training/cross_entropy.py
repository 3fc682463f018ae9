"""Cross-entropy at noisy images (Cohen, Lecuyer et al. 2019), or adversarial ones (Salman et al. 2019)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from torch import Tensor, nn
from torch.nn import functional as F

from shieldwall.errors import check, checked
from shieldwall.models.attack import smoothed_pgd
from shieldwall.training.objective import MemberLoss, MemberObjective, NoisyBatch


@checked
@dataclass(frozen=True)
class GaussianAugmentation(MemberObjective):
    """L = sum_i E_eps CE(f_i(x + eps), y), the expectation as the mean over `num_noise` copies."""

    def member_loss(self, member: nn.Module, batch: NoisyBatch, logits: Tensor) -> MemberLoss:
        loss = F.cross_entropy(logits, batch.labels)
        return loss, {"cross_entropy": loss}


@checked
@dataclass(frozen=True)
class SmoothAdv(GaussianAugmentation):
    """Cross-entropy under attack: L = sum_i 1/m sum_j CE(f_i(x'_i + eps_j), y).

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
