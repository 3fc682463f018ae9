"""One optimisation step: recorded once as a CUDA graph and replayed, or run as it is."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shieldwall.distributed import SINGLE, ProcessGroup
from shieldwall.recipes.recipe import Schedule
from shieldwall.training.objective import Loss, Objective

WARM_UP = 3  #: steps run as they are before recording, so that kernels are chosen and memory is laid out


def make_optimizer(members: Sequence[nn.Module], schedule: Schedule, device: torch.device) -> torch.optim.SGD:
    """SGD over the members' weights. On CUDA its learning rate is a tensor, which a recorded graph reads."""
    on_cuda = device.type == "cuda"
    return torch.optim.SGD(
        [parameter for member in members for parameter in member.parameters() if parameter.requires_grad],
        lr=torch.tensor(schedule.lr, device=device) if on_cuda else schedule.lr, momentum=schedule.momentum,
        weight_decay=schedule.weight_decay, fused=on_cuda,
    )  # fmt: skip


class Step:
    """Loss, gradients and update at one batch, for one objective.

    On CUDA the kernels of a step are launched far faster from a graph than one by one. A recorded step
    reads its batch and its learning rate from fixed buffers; a batch of another size runs as it is, and so
    does every step of several processes, which then wait for one another, and of an objective that changes
    with the update.
    """

    def __init__(
        self, members: Sequence[nn.Module], objective: Objective, optimizer: torch.optim.Optimizer,
        generator: torch.Generator, schedule: Schedule, world: ProcessGroup = SINGLE,
    ) -> None:  # fmt: skip
        self.objective, self._members, self._optimizer = objective, members, optimizer
        self._generator, self._schedule, self._world = generator, schedule, world
        self._parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._steps_of_this_size = 0
        self._batch: tuple[Tensor, Tensor] | None = None
        self._recorded: tuple[torch.cuda.CUDAGraph, Loss] | None = None
        is_constant = world.size == 1 and objective.at_update(1) == objective
        on_cuda = generator.device.type == "cuda"
        self._stream = torch.cuda.Stream() if on_cuda and is_constant else None  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor, y: Tensor, lr: float, update: int = 0) -> Loss:
        """Update the members; return the loss, detached, over this process's rows of the batch."""
        for group in self._optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr
        if self._stream is None:
            return self._run(x, y, update)
        if self._batch is not None and x.shape == self._batch[0].shape:
            self._batch[0].copy_(x)
            self._batch[1].copy_(y)
            if self._recorded is None:
                self._recorded = self._record(*self._batch)
            graph, loss = self._recorded
            graph.replay()
            return loss
        # Graphs are recorded on a stream of their own, and so the steps before must run there too.
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            loss = self._run(x, y)
        torch.cuda.current_stream().wait_stream(self._stream)
        self._steps_of_this_size += 1
        if self._steps_of_this_size == WARM_UP:
            self._batch = (x.clone(), y.clone())
        return loss

    def _record(self, x: Tensor, y: Tensor) -> tuple[torch.cuda.CUDAGraph, Loss]:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        self._optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph, stream=self._stream):
            return graph, self._run(x, y)

    def _run(self, x: Tensor, y: Tensor, update: int = 0) -> Loss:
        batch = self.objective.draw(x, y, self._generator)
        if self._world.size > 1:
            batch = batch.rows_of(self._world)
        in_bfloat16 = self._schedule.precision == "bfloat16"
        with torch.autocast(x.device.type, torch.bfloat16, enabled=in_bfloat16):
            loss = self.objective.at_update(update)(self._members, batch)
        self._optimizer.zero_grad(set_to_none=True)
        loss.total.backward(inputs=self._parameters)  # type: ignore[no-untyped-call]
        if batch.share is not None:
            self._world.reduce_gradients(self._parameters, batch.share)
        if self._schedule.clip is not None:
            for member in self._members:
                nn.utils.clip_grad_norm_(member.parameters(), self._schedule.clip)
        self._optimizer.step()
        return loss._replace(total=loss.total.detach())
