"""The engine: noise, members, votes and counts on the device, in batches that cross inputs.

    inputs in line -> draws of several fill one batch -> members -> votes -> counts[input, vote, class]

Every batch has the same shape, so that a draw is classified by the same kernels whatever shares its
batch. With T draws per input, draw j of the k-th input sits in row (k T + j) mod B of its batch, wherever
the work began: some GPU kernels round by row. An input stops after T draws, or at a look at which its
stopping rule says so; looks are fixed numbers of draws, so no decision depends on the batches (the rows
then do, on what other inputs needed). On an accelerator the counts of one batch are read while the next
one runs: the device never waits for the host.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shieldwall.devices import is_out_of_memory
from shieldwall.errors import UserError
from shieldwall.models.members import model_errors
from shieldwall.noise.distributions import Noise
from shieldwall.smoothing.batch import Batch, InProgress, Read
from shieldwall.smoothing.classify import Classify
from shieldwall.smoothing.sample import NoiseStream
from shieldwall.smoothing.stopping import Stopping

MOST_WAITING = 1_024
"""Inputs that may be complete before an earlier one is, which bounds what is held in memory."""


@dataclass(frozen=True)
class Counted:
    """How often each class won at one input, for every vote."""

    index: int
    selection: Tensor
    """(V, K) int64, on the CPU: the n0 draws that choose the class."""
    counts: Tensor
    """(V, K) int64, on the CPU: the draws after them."""


@dataclass(frozen=True)
class Engine:
    """Counts how often each class wins under noise.

    `owners` are what `classify` calls: the modules among them are held in evaluation mode.
    """

    classify: Classify
    owners: Sequence[object]
    noise: Noise
    n0: int
    stopping: Stopping
    seed: int
    device: torch.device
    shape: tuple[int, ...]
    """The shape of every input."""
    batch_size: int
    """The size of the first batch; it halves when memory runs out."""
    precision: str = "float32"

    def counts(self, inputs: Iterable[tuple[int, Tensor]], first_place: int = 0) -> Iterator[Counted]:
        """The counts of one (index, image) after the other, in the order given.

        Inputs are taken when there is room for them: a source that ends early ends the work after the
        inputs taken so far. `first_place` is the first one's place in a longer list of which these inputs
        are a part.
        """
        yield from _Queue(self, Batch(self), iter(inputs), first_place).run()

    def try_out(self) -> None:
        """Classify a batch of no input's draws."""
        Batch(self).count()


class _Queue:
    """Which input's draws come next: those of the earliest input that has draws to make."""

    def __init__(
        self, engine: Engine, batch: Batch, source: Iterator[tuple[int, Tensor]], first_place: int
    ) -> None:
        self._engine = engine
        self._batch = batch
        self._source = source
        self._source_has_ended = False
        self._first_place = first_place
        self._looks = engine.stopping.looks()
        self._under_way: dict[int, InProgress] = {}
        self._free = deque(range(batch.slots))
        self._complete: dict[int, Counted] = {}
        self._taken = 0
        self._given = 0
        self._go_to_row_of(0)

    def run(self) -> Iterator[Counted]:
        reads: deque[Read] = deque()
        delay = 1 if self._engine.device.type == "cuda" else 0
        while self._under_way or not self._source_has_ended:
            try:
                due = self._fill(reads)
                if self._batch.rows:
                    with model_errors(self._engine.shape):
                        self._batch.count()
                if due:
                    reads.append(self._batch.read(due))
                while len(reads) > delay:
                    self._look(reads.popleft())
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                reads.clear()
                self._start_over_in_smaller_batches(error)
            while self._given in self._complete:
                yield self._complete.pop(self._given)
                self._given += 1

    def _fill(self, reads: deque[Read]) -> list[InProgress]:
        """Fill the batch; return the inputs to be looked at after it."""
        due = []
        while room := self._batch.size - self._batch.rows:
            one = self._earliest() or self._take()
            if one is not None:
                wanted = self._engine.n0 + self._looks[one.looks_done]
                self._batch.add(one, min(wanted - one.drawn, room))
                one.is_due = one.drawn == wanted
                if one.is_due:
                    due.append(one)
            elif reads:
                self._look(reads.popleft())  # which may want more draws
            else:
                break
        return due

    def _earliest(self) -> InProgress | None:
        """The earliest input that has draws to make."""
        return next((one for one in self._under_way.values() if not one.is_due), None)

    def _take(self) -> InProgress | None:
        """Begin the next input, if there is one and room for it."""
        if self._source_has_ended or not self._free or self._taken - self._given >= MOST_WAITING:
            return None
        found = next(self._source, None)
        if found is None:
            self._source_has_ended = True
            return None
        index, image = found
        one = InProgress(self._taken, index, self._sent(image), self._free.popleft(), self._stream(index))
        self._under_way[one.order] = one
        self._taken += 1
        return one

    def _look(self, read: Read) -> None:
        """Complete the inputs that are settled; the others go on."""
        if read.arrived is not None:
            read.arrived.synchronize()
        slots = torch.tensor([one.slot for one in read.inputs])
        counts = torch.stack([read.counts[2 * slots], read.counts[2 * slots + 1]], dim=2)  # (T, V, 2, K + 2)
        if counts[..., -1].any():
            raise UserError("the classifier returned NaN scores for a noisy input; check its weights")
        counts = counts[..., :-2]
        settled = self._settled(read.inputs, counts)
        for one, found, is_settled in zip(read.inputs, counts, settled, strict=True):
            one.is_due = False
            one.looks_done += 1
            if is_settled:
                self._complete[one.order] = Counted(one.index, found[:, 0].clone(), found[:, 1].clone())
                self._batch.clear(one.slot)
                self._free.append(one.slot)
                del self._under_way[one.order]

    def _settled(self, inputs: list[InProgress], counts: Tensor) -> list[bool]:
        at_end = [one.looks_done + 1 == len(self._looks) for one in inputs]
        if all(at_end):
            return at_end
        chosen = counts[:, :, 0].argmax(-1).numpy()
        by_vote = self._engine.stopping.settled(chosen, counts[:, :, 1].numpy())
        return [end or bool(votes.all()) for end, votes in zip(at_end, by_vote, strict=True)]

    def _start_over_in_smaller_batches(self, error: Exception) -> None:
        """Halve the batch and begin the inputs under way again: their draws come out the same."""
        if self._batch.size == 1:
            raise UserError("one noisy input at a time does not fit into memory") from error
        self._batch.allocate(self._batch.size // 2)
        if self._engine.device.type == "cuda":
            torch.cuda.empty_cache()
        self._free = deque(range(self._batch.slots))
        for one in self._under_way.values():
            one.slot, one.stream = self._free.popleft(), self._stream(one.index)
            one.drawn, one.looks_done, one.is_due = 0, 0, False
        self._go_to_row_of(min(self._under_way, default=self._taken))

    def _go_to_row_of(self, order: int) -> None:
        """Leave rows empty, so that this input's draws come to sit in the rows of its place."""
        if len(self._looks) == 1:
            draws = self._engine.n0 + self._looks[0]
            self._batch.rows = (self._first_place + order) * draws % self._batch.size

    def _sent(self, image: Tensor) -> Tensor:
        """The image on the device, without waiting for it."""
        if self._engine.device.type == "cuda" and image.device.type == "cpu":
            image = image.pin_memory()
        return image.to(self._engine.device, non_blocking=True)

    def _stream(self, index: int) -> NoiseStream:
        engine = self._engine
        return NoiseStream(engine.noise, engine.shape, engine.device, engine.seed, index)
