"""The contract of every training method: members and a batch of noisy images in, one loss out.

The loop draws the batch and the noise, so an objective draws nothing and holds no state: training can
resume anywhere, and several processes can each take their rows of a batch.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from shieldwall.distributed import SINGLE, ProcessGroup, Share
from shieldwall.errors import check, check_int
from shieldwall.noise.distributions import Noise, check_noise

MemberLoss = tuple[Tensor, dict[str, Tensor]]  #: a scalar with gradients to one member, and the log's terms


class Loss(NamedTuple):
    total: Tensor  #: what the optimizer minimises: a scalar with gradients to every member
    terms: dict[str, Tensor]  #: what the log shows: detached scalars, averaged over the batch
    accuracies: Tensor  #: (N,): each member's own accuracy on the batch, so that a member that dies is seen


@dataclass(frozen=True)
class NoisyBatch:
    """A batch and `copies` noisy versions of each of its images, the same for every member."""

    x: Tensor  #: (B, C, H, W), clean, in [0, 1]
    y: Tensor  #: (B,)
    noise: Tensor  #: (copies * B, C, H, W): copy after copy of the whole batch
    noisy: Tensor  #: (copies * B, C, H, W) = x + noise, not clipped
    labels: Tensor  #: (copies * B,)
    share: Share | None = None  #: the rows that these are of a larger batch; None for all of them
    world: ProcessGroup = SINGLE  #: the processes that have the other rows

    def rows_of(self, world: ProcessGroup) -> "NoisyBatch":
        """One process's rows of this batch, under the noise that was drawn for all of it."""
        share = world.share(len(self.x))
        copied = (self.by_copy(values)[:, share.rows] for values in (self.noise, self.noisy, self.labels))
        noise, noisy, labels = (values.flatten(0, 1) for values in copied)
        return NoisyBatch(self.x[share.rows], self.y[share.rows], noise, noisy, labels, share, world)

    @property
    def copies(self) -> int:
        return len(self.noisy) // len(self.x)

    def by_copy(self, values: Tensor) -> Tensor:
        """(copies * B, ...) -> (copies, B, ...)"""
        return values.reshape(self.copies, len(self.x), *values.shape[1:])

    def accuracies(self, logits: Tensor | Sequence[Tensor]) -> Tensor:
        """Each member's accuracy, from its logits at the noisy images, (N,)."""
        return torch.stack([(own.detach().argmax(-1) == self.labels).float().mean() for own in logits])

    def weights(self, valid: Tensor) -> Tensor:
        """Weights w of entries, from their validity v (0. or 1.): sum(w * values) is the valid ones' mean.

        It is 0 if none is valid. With C valid entries in all processes together, w = v / C. A process has B_r
        of B rows, and its loss counts B_r / B in theirs: there w = (B / B_r) v / C.
        """
        count, scale = valid.sum(), 1.0
        if self.share is not None:
            count = self.world.sum(torch.zeros_like(count) if self.share.is_padding else count)
            scale = self.share.total / self.share.count
        return valid * (scale / count.clamp_min(1))


class Objective(ABC):
    """What training minimises."""

    noise: Noise  #: what is added to the images
    num_noise: int  #: noisy copies of each image
    min_members: ClassVar[int] = 1
    is_separable: ClassVar[bool] = False  #: whether the loss is a sum over members, so each can train alone

    @abstractmethod
    def __call__(self, members: Sequence[nn.Module], batch: NoisyBatch) -> Loss:
        """The loss of the members at a batch."""

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> NoisyBatch:
        """The clean images x (B, C, H, W) in [0, 1] with labels y (B,), and their noisy copies."""
        repeated = x.repeat(self.num_noise, *(1 for _ in x.shape[1:]))
        noise = self.noise.sample(repeated.shape, generator)
        return NoisyBatch(x, y, noise, repeated + noise, y.repeat(self.num_noise))

    def check_members(self, count: int) -> None:
        members = "one member" if self.min_members == 1 else f"{self.min_members} members"
        check(count >= self.min_members, f"{type(self).__name__} needs at least {members}", count)

    def at_epoch(self, epoch: int) -> Self:
        """The objective for this epoch, counted from 0, after warm-ups and deferrals."""
        return self

    def at_update(self, update: int) -> Self:
        """The objective for this update of an epoch, counted from 0."""
        return self

    def _check_not_negative(self, *options: str) -> None:
        for name, value in ((name, getattr(self, name)) for name in options):
            check(0 <= value < math.inf, f"{name} must be a number that is not negative", value)

    def _check_positive(self, *options: str) -> None:
        for name, value in ((name, getattr(self, name)) for name in options):
            check(0 < value < math.inf, f"{name} must be a positive number", value)

    @staticmethod
    def _warmed_up(epoch: int, warmup: int) -> float:
        """The share of its full size that a weight has, growing linearly over the first `warmup` epochs."""
        return min(1.0, (epoch + 1) / warmup) if warmup else 1.0


@dataclass(frozen=True)
class NoisyObjective(Objective):
    noise: Noise
    num_noise: int = 2  #: noisy copies of each image

    def __post_init__(self) -> None:
        check_noise(self.noise)
        check_int("num_noise (noisy copies per image)", self.num_noise)
        check(self.num_noise >= 1, "num_noise (noisy copies per image) must be at least 1", self.num_noise)


@dataclass(frozen=True)
class MemberObjective(NoisyObjective):
    """An objective that is the sum of one loss per member: what DRT can wrap."""

    is_separable: ClassVar[bool] = True
    accuracy_name: ClassVar[str] = "noisy_accuracy"  #: what the log calls it at the members' inputs

    def inputs(self, member: nn.Module, batch: NoisyBatch) -> Tensor:
        """Where this member's loss is taken (copies * B, C, H, W): the batch's own, unless overridden."""
        return batch.noisy

    @abstractmethod
    def member_loss(self, member: nn.Module, batch: NoisyBatch, logits: Tensor) -> MemberLoss:
        """One member's loss and its terms for the log, from its logits (copies * B, K) at `inputs`."""

    def __call__(self, members: Sequence[nn.Module], batch: NoisyBatch) -> Loss:
        logits = [widened(member(self.inputs(member, batch))) for member in members]
        return self.sum_of_losses(members, batch, logits)

    def sum_of_losses(
        self, members: Sequence[nn.Module], batch: NoisyBatch, logits: Sequence[Tensor]
    ) -> Loss:
        """The members' losses added up, and their terms averaged, from the logits of each."""
        pairs = [self.member_loss(m, batch, own) for m, own in zip(members, logits, strict=True)]
        losses, terms = zip(*pairs, strict=True)
        accuracies = batch.accuracies(logits)
        means = {name: torch.stack([own[name] for own in terms]).detach().mean() for name in terms[0]}
        return Loss(torch.stack(losses).sum(), {**means, self.accuracy_name: accuracies.mean()}, accuracies)


def widened(tensor: Tensor) -> Tensor:
    """In float32 or better: half precision has too few digits for a loss."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def log_mean_exp(values: Tensor) -> Tensor:
    """log( 1/k sum_j exp values_j ), finite also where a softmax, whose logarithm this is, saturates."""
    return values.logsumexp(0) - math.log(len(values))
