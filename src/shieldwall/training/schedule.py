"""How long and how fast to train."""

from dataclasses import dataclass, fields

from shieldwall.errors import UserError, check_int, check_number


@dataclass(frozen=True)
class Schedule:
    """SGD with momentum; the learning rate is multiplied by `decay` every `decay_every` epochs."""

    epochs: int = 90
    batch_size: int = 256
    """Images per step, before noisy copies are made of them."""
    lr: float = 0.01
    """The learning rate of the first epoch."""
    momentum: float = 0.9
    weight_decay: float = 1e-4
    """The L2 penalty on all parameters."""
    decay_every: int = 30
    decay: float = 0.1
    clip: float | None = None
    """The most that the L2 norm of a member's gradient may be: a longer one is shortened to it."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "decay_every"):
            check_int(f"schedule.{name}", getattr(self, name))
        for name in ("lr", "decay", "momentum", "weight_decay"):
            check_number(f"schedule.{name}", getattr(self, name))
        for name in ("epochs", "batch_size", "decay_every", "lr", "decay"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UserError(f"schedule.{name} must be positive; given: {getattr(self, name)}")
        if self.clip is not None and not 0 < self.clip < float("inf"):
            raise UserError(f"schedule.clip must be positive, or null for none; given: {self.clip}")
        if not 0 <= self.momentum < 1:
            raise UserError(f"schedule.momentum must lie in [0, 1); given: {self.momentum}")
        if not 0 <= self.weight_decay < float("inf"):
            raise UserError(f"schedule.weight_decay must not be negative; given: {self.weight_decay}")

    def lr_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        return self.lr * self.decay ** (epoch // self.decay_every)

    def __str__(self) -> str:
        return ", ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))
