"""How long, how fast and in what precision to train."""

import math
from dataclasses import dataclass, fields

from shieldwall.arguments import check_number, check_whole
from shieldwall.errors import UserError

CURVES = ("step", "cosine")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Schedule:
    """SGD with momentum. With t the number of updates made, of T in all, and w = warmup, the learning rate is

    step      lr * min(1, (t + 1) / w) * decay^(epoch // decay_every)
    cosine    lr * min(1, (t + 1) / w) * (1 + cos(pi t / T)) / 2
    """

    epochs: int = 90
    batch_size: int = 256
    """Images per step, before noisy copies are made of them."""
    lr: float = 0.01
    """The highest learning rate."""
    momentum: float = 0.9
    weight_decay: float = 1e-4
    """The L2 penalty on all parameters."""
    curve: str = "step"
    """How the learning rate falls: in steps, or as half a cosine."""
    decay_every: int = 30
    """Epochs between two steps."""
    decay: float = 0.1
    """What the learning rate is multiplied by at each step."""
    warmup: int = 0
    """Updates over which the learning rate grows linearly at the start."""
    clip: float | None = None
    """The largest L2 norm of a member's gradient: a longer one is scaled down to it."""
    precision: str = "float32"
    """float32, or bfloat16: forward passes run in bfloat16 (autocast), weights and losses in float32."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "decay_every", "warmup"):
            check_whole(f"schedule.{name}", getattr(self, name))
        for name in ("lr", "decay", "momentum", "weight_decay"):
            check_number(f"schedule.{name}", getattr(self, name))
        for name in ("epochs", "batch_size", "decay_every", "lr", "decay"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UserError(f"schedule.{name} must be positive; given: {getattr(self, name)}")
        if self.warmup < 0:
            raise UserError(f"schedule.warmup (updates) must not be negative; given: {self.warmup}")
        if self.clip is not None and not 0 < self.clip < float("inf"):
            raise UserError(f"schedule.clip must be positive, or null for none; given: {self.clip}")
        if not 0 <= self.momentum < 1:
            raise UserError(f"schedule.momentum must lie in [0, 1); given: {self.momentum}")
        if not 0 <= self.weight_decay < float("inf"):
            raise UserError(f"schedule.weight_decay must not be negative; given: {self.weight_decay}")
        for name, choices in (("curve", CURVES), ("precision", PRECISIONS)):
            if getattr(self, name) not in choices:
                raise UserError(
                    f"schedule.{name} must be one of {', '.join(choices)}; given: {getattr(self, name)!r}"
                )

    def lr_at(self, update: int, updates_per_epoch: int) -> float:
        """The learning rate of an update, counted from 0."""
        rise = min(1.0, (update + 1) / self.warmup) if self.warmup else 1.0
        if self.curve == "cosine":
            return rise * self.lr * (1 + math.cos(math.pi * update / (self.epochs * updates_per_epoch))) / 2
        return rise * (self.lr * self.decay ** (update // updates_per_epoch // self.decay_every))

    def __str__(self) -> str:
        return ", ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))
