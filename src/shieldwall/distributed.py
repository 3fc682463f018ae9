"""Several processes that train together, each on its share of every batch, with torch.distributed.

    torchrun --nproc-per-node 4 -m shieldwall train RECIPE

All processes see the same batches in the same order, and each takes consecutive rows of them. Noise is drawn
for the whole batch, from generators with equal seeds, and each process keeps its rows. With B_r of B rows and
L_r the mean loss over them,

    L = sum_r (B_r / B) L_r,        grad L = sum_r (B_r / B) grad L_r

are those of a single process, up to rounding. The gradients are added up after the backward pass, not by
hooks of torch's DDP, which do not see the gradients of gradients that DRT and GAL need.

Values that are not means over images differ: each process has its own batch-norm statistics (as in torch's
DDP), and rank 0's are copied to all after each epoch; DRT's logged cosine is a mean of the processes' means.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shieldwall.errors import UserError

TIMEOUT = timedelta(minutes=10)  # how long a process waits for the others before it gives up

TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

T = TypeVar("T")


@dataclass(frozen=True)
class Share:
    """The consecutive rows of a batch that one process works on."""

    start: int
    count: int  # never zero: see `is_padding`
    total: int  # the size of the whole batch
    # Whether the batch has no row for this process. It then works on the first row, without effect on the
    # sums, so that its generator, gradients and terms stay the same as the others'.
    is_padding: bool = False

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.count)

    @property
    def num_rows(self) -> int:  # those that count in sums over all processes
        return 0 if self.is_padding else self.count


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train together, seen from one of them; a single process is a group of size 1. All
    processes must call every method marked collective, in the same order; for size 1 they do nothing."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # the rank among the processes of this machine

    @classmethod
    def from_environment(cls) -> "ProcessGroup":
        if not all(name in os.environ for name in TORCHRUN):
            return cls()
        given = {name: os.environ[name] for name in TORCHRUN}
        with suppress(ValueError):
            rank, local_rank, size, port = (int(given[name]) for name in (*TORCHRUN[:3], "MASTER_PORT"))
            if 0 <= rank < size and 0 <= local_rank < size and 0 < port < 2**16:
                return cls(rank, size, local_rank)
        said = ", ".join(f"{name}={value!r}" for name, value in given.items())
        advice = "start them with torchrun, or unset these variables"
        raise UserError(f"the environment does not describe a group of processes: {said}; {advice}")

    @property
    def is_main(self) -> bool:  # the process that writes and reports
        return self.rank == 0

    def device_name(self, asked: str | None) -> str | None:
        """A different GPU for each process of a machine, unless a device is named."""
        if self.size > 1 and asked in (None, "cuda") and torch.cuda.is_available():
            return f"cuda:{self.local_rank}"
        return asked

    @contextmanager
    def connected(self, device: torch.device, *, shared: bool = False,
                  patience: timedelta = TIMEOUT) -> Iterator[None]:  # fmt: skip
        """Connect the processes for the block, and end it together. `shared` says that processes of one
        machine use the same device. No process waits longer than `patience` for the others."""
        if self.size == 1:
            yield
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        # NCCL wants a GPU for each process; where they share one, gloo carries its tensors too.
        backend = "nccl" if device.type == "cuda" and not shared else "gloo"
        dist.init_process_group(backend, timeout=patience, device_id=device if backend == "nccl" else None)
        try:
            yield
            # Not after an error: leaving in order would wait for the others, while they wait for this one.
            _together(dist.barrier)
        except BaseException:
            if backend == "gloo":  # which waits for nobody, and aborts where its threads outlive the program
                dist.destroy_process_group()
            raise
        dist.destroy_process_group()

    def share(self, total: int) -> Share:
        """This process's rows of a batch of `total`: no process has two more than another."""
        each, extra = divmod(total, self.size)
        count = each + (self.rank < extra)
        if count == 0:
            return Share(0, 1, total, is_padding=True)
        return Share(self.rank * each + min(self.rank, extra), count, total)

    def broadcast(self, value: T) -> T:
        """Rank 0's value, on every rank (collective)."""
        if self.size == 1:
            return value
        box = [value]
        _together(dist.broadcast_object_list, box, src=0)
        return box[0]

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes (collective)."""
        if self.size > 1:
            _together(dist.all_reduce, values)
        return values

    def broadcast_tensors(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors with those of rank 0 (collective)."""
        for tensor in tensors if self.size > 1 else ():
            plain = tensor.detach().contiguous()  # the order in memory may differ between processes
            _together(dist.broadcast, plain, src=0)
            tensor.detach().copy_(plain)

    def reduce_gradients(self, parameters: Sequence[Tensor], share: Share) -> None:
        """Turn the gradients of the shares' mean losses into those of the batch's mean loss (collective).
        Which parameters have a gradient must not depend on the images."""
        if self.size == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients]).mul_(share.num_rows / share.total)
        parts = torch.split(self.sum(flat), [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view(gradient.shape))


SINGLE = ProcessGroup()


def _together(collective: Callable[..., object], *arguments: object, **options: object) -> None:
    """Turn a lost process into a UserError; that process itself says why."""
    try:
        collective(*arguments, **options)
    except RuntimeError as error:
        reason = re.sub(r"^\[\S+\] ", "", str(error).partition("\n")[0]).partition(". ")[0]
        message = f"lost contact with another process ({reason}); run the same command to resume"
        raise UserError(message) from error


def copy_state_from_first(world: ProcessGroup, members: Sequence[nn.Module],
                          optimizers: Sequence[torch.optim.Optimizer]) -> None:  # fmt: skip
    """Copy rank 0's weights, statistics and momentum to every process (collective)."""
    world.broadcast_tensors(value for member in members for value in member.parameters())
    copy_buffers_from_first(world, members)
    groups = [(optimizer, group) for optimizer in optimizers for group in optimizer.param_groups]
    states = [(p, optimizer.state[p]) for optimizer, group in groups for p in group["params"]]
    with_momentum = [k for k, (_, state) in enumerate(states) if state.get("momentum_buffer") is not None]
    moving = world.broadcast(with_momentum)
    for parameter, state in (states[k] for k in moving):
        state.setdefault("momentum_buffer", torch.zeros_like(parameter))
    world.broadcast_tensors(states[k][1]["momentum_buffer"] for k in moving)


def copy_buffers_from_first(world: ProcessGroup, members: Sequence[nn.Module]) -> None:
    """Copy rank 0's batch-norm statistics to every process (collective)."""
    world.broadcast_tensors(value for member in members for value in member.buffers())
