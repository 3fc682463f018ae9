"""The contract of every training method.

An objective turns members and a batch of clean images into one loss. It draws its own noise from the
generator it is handed and holds no state, so that the loop can resume anywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from shieldwall.errors import UserError, check_int
from shieldwall.noise.distributions import Noise, check_noise


class Loss(NamedTuple):
    total: Tensor
    """What the optimizer minimises: a scalar with gradients to every member."""
    terms: dict[str, Tensor]
    """What the log shows: detached scalars, averaged over the batch."""


class Objective(ABC):
    """What training minimises."""

    @abstractmethod
    def __call__(
        self, members: Sequence[nn.Module], x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Loss:
        """The loss at clean images x (B, C, H, W) in [0, 1] with labels y (B,)."""

    def check_members(self, count: int) -> None:
        """Refuse a number of members that the method cannot train."""
        if count < 1:
            raise UserError(f"training needs at least one member; given: {count}")

    def at_epoch(self, epoch: int) -> Self:
        """The objective as it stands in this epoch, counted from 0: warm-ups and deferrals live here."""
        return self


@dataclass(frozen=True)
class NoisyBatch:
    """A batch and `copies` noisy versions of each of its images, the same for every member."""

    x: Tensor
    """(B, C, H, W), clean."""
    y: Tensor
    """(B,)"""
    noise: Tensor
    """(copies * B, C, H, W): copy after copy of the whole batch."""
    noisy: Tensor
    """(copies * B, C, H, W) = x + noise, not clipped."""
    labels: Tensor
    """(copies * B,)"""

    @classmethod
    def draw(
        cls, x: Tensor, y: Tensor, noise: Noise, copies: int, generator: torch.Generator
    ) -> "NoisyBatch":
        repeated = x.repeat(copies, *(1 for _ in x.shape[1:]))
        drawn = noise.sample(repeated.shape, generator)
        return cls(x, y, drawn, repeated + drawn, y.repeat(copies))

    @property
    def copies(self) -> int:
        return len(self.noisy) // len(self.x)

    def by_copy(self, values: Tensor) -> Tensor:
        """(copies * B, ...) -> (copies, B, ...)"""
        return values.reshape(self.copies, len(self.x), *values.shape[1:])


def check_copies(noise: Noise, num_noise: int) -> None:
    """Refuse noise that is none, and fewer than one noisy copy."""
    check_noise(noise)
    check_int("num_noise (noisy copies per image)", num_noise)
    if num_noise < 1:
        raise UserError(f"num_noise (noisy copies per image) must be at least 1; given: {num_noise}")


@dataclass(frozen=True)
class MemberObjective(Objective):
    """An objective that is the sum of one loss per member: what DRT can wrap."""

    noise: Noise
    num_noise: int = 2
    """Noisy copies of each image."""

    def __post_init__(self) -> None:
        check_copies(self.noise, self.num_noise)

    def noisy_inputs(self, member: nn.Module, batch: NoisyBatch) -> Tensor:
        """Where this member's loss is taken (copies * B, C, H, W): the batch's own, unless overridden."""
        return batch.noisy

    @property
    def has_own_inputs(self) -> bool:
        """Whether each member's loss is taken at inputs of its own, such as adversarial ones."""
        return type(self).noisy_inputs is not MemberObjective.noisy_inputs

    @abstractmethod
    def member_loss(
        self,
        member: nn.Module,
        batch: NoisyBatch,
        noisy_logits: Callable[[], Tensor],
        generator: torch.Generator,
    ) -> Loss:
        """One member's loss. `noisy_logits()` are its logits at `noisy_inputs(member, batch)`."""

    def __call__(
        self, members: Sequence[nn.Module], x: Tensor, y: Tensor, generator: torch.Generator
    ) -> Loss:
        batch = NoisyBatch.draw(x, y, self.noise, self.num_noise, generator)
        return summed(
            [
                self.member_loss(one, batch, partial(one, self.noisy_inputs(one, batch)), generator)
                for one in members
            ]
        )


ACCURACY_OF = "accuracy of member "
"""Before a member's number: the terms that hold each member's own accuracy."""


def summed(losses: Sequence[Loss]) -> Loss:
    """The members' losses added up, and their terms averaged; accuracies also one by one."""
    stacked = {name: torch.stack([one.terms[name] for one in losses]) for name in losses[0].terms}
    terms = {name: values.mean() for name, values in stacked.items()}
    for name, values in stacked.items():
        if name.endswith("accuracy"):
            terms |= {f"{ACCURACY_OF}{k}": value for k, value in enumerate(values, start=1)}
    return Loss(torch.stack([one.total for one in losses]).sum(), terms)


def accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """The fraction of logits (B, K) whose argmax is the label."""
    return (logits.argmax(-1) == labels).float().mean()
