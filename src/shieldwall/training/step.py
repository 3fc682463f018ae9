"""One optimisation step: recorded once as a CUDA graph and replayed, or run as it is."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shieldwall.distributed import SINGLE, ProcessGroup
from shieldwall.training.objective import Objective
from shieldwall.training.parallel import on_share

WARM_UP = 3
"""Steps run as they are before recording, so that kernels are chosen and memory is laid out."""


class Step:
    """Loss, gradients and update at one batch, for one objective and learning rate.

    On CUDA the kernels of a step are launched far faster from a graph than one by one. A recorded step
    reads its batch from fixed buffers; a batch of another size runs as it is, and so does every step of
    several processes, which then wait for one another.
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        lr: float,
        generator: torch.Generator,
        world: ProcessGroup = SINGLE,
        clip: float | None = None,
    ) -> None:
        self.objective = objective
        self.lr = lr
        for group in optimizer.param_groups:
            group["lr"] = lr
        self._members = members
        self._optimizer = optimizer
        self._generator = generator
        self._world = world
        self._clip = clip
        self._parameters = [one for group in optimizer.param_groups for one in group["params"]]
        self._seen = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: tuple[Tensor, Tensor] | None = None
        self._found: dict[str, Tensor] = {}
        recorded = generator.device.type == "cuda" and world.size == 1
        self._stream = torch.cuda.Stream() if recorded else None  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Update the members; return the loss and its terms, over this process's share of the batch."""
        if self._stream is None:
            return self._run(x, y)
        if self._batch is not None and x.shape == self._batch[0].shape:
            self._batch[0].copy_(x)
            self._batch[1].copy_(y)
            if self._graph is None:
                self._record()
            assert self._graph is not None
            self._graph.replay()
            return self._found
        # Graphs are recorded on a stream of their own, and so the steps before must run there too.
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            found = self._run(x, y)
        torch.cuda.current_stream().wait_stream(self._stream)
        self._seen += 1
        if self._seen == WARM_UP:
            self._batch = (x.clone(), y.clone())
        return found

    def _record(self) -> None:
        assert self._batch is not None
        self._graph = torch.cuda.CUDAGraph()
        self._graph.register_generator_state(self._generator)
        self._optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self._graph, stream=self._stream):
            self._found = self._run(*self._batch)

    def _run(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        where, objective = x.device.type, self.objective
        share = self._world.share(len(x))
        if self._world.size > 1:
            objective, x, y = on_share(objective, share), x[share.rows], y[share.rows]
        with torch.autocast(where, torch.bfloat16, enabled=where == "cuda"):
            loss, terms = objective(self._members, x, y, self._generator)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward(inputs=self._parameters)  # type: ignore[no-untyped-call]
        self._world.reduce_gradients(self._parameters, share)
        if self._clip is not None:
            for member in self._members:
                nn.utils.clip_grad_norm_(member.parameters(), self._clip)
        self._optimizer.step()
        return {"loss": loss.detach(), **terms}
