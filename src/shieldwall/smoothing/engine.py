"""The engine: noise, members, votes and counts on the device, in batches that cross inputs.

    inputs in line -> draws of several fill one batch -> members -> votes -> counts[input, vote, class]

Every batch has the same shape, so that a draw is classified by the same kernels whatever shares its
batch. With T draws per input, draw j of the k-th input sits in row (k T + j) mod B of its batch, wherever
the work began: some GPU kernels round by row. An input stops after T draws, or at a look at which its
stopping rule says so; looks are fixed numbers of draws, so no decision depends on the batches (the rows
then do, on what other inputs needed). On an accelerator the counts of one batch are read while the next
one runs: the device never waits for the host.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from shieldwall.errors import UserError
from shieldwall.smoothing.batch_size import is_out_of_memory
from shieldwall.smoothing.classify import Classify
from shieldwall.smoothing.inputs import evaluating, prefers_channels_last
from shieldwall.smoothing.noise import Noise
from shieldwall.smoothing.precision import DTYPES, arithmetic
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


@dataclass
class _Input:
    """An input whose draws are under way."""

    order: int
    index: int
    image: Tensor
    slot: int
    stream: NoiseStream
    drawn: int = 0
    looks_done: int = 0
    is_due: bool = False
    """Whether its draws are made up to the next look, which decides whether there will be more."""


class _Read(NamedTuple):
    """Counts on their way to the host, and the inputs to be looked at in them."""

    counts: Tensor
    """(2 (slots + 1), V, K + 2)"""
    inputs: list[_Input]
    arrived: torch.cuda.Event | None


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
        yield from _Queue(self, _Batch(self), iter(inputs), first_place).run()

    def try_out(self) -> None:
        """Classify a batch of no input's draws."""
        _Batch(self).count()


class _Batch:
    """The one batch that is filled and counted again and again, and the table of counts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        shortest = engine.n0 + engine.stopping.looks()[0]
        batches_ahead = 3 if engine.device.type == "cuda" else 2
        self.slots = 2 + batches_ahead * math.ceil(engine.batch_size / shortest)
        """Inputs that may be under way at a time: enough to fill batches whatever the looks decide."""
        self._of_no_input = 2 * self.slots
        self.allocate(engine.batch_size)

    def allocate(self, size: int) -> None:
        """Room for `size` draws, and no counts yet."""
        engine = self._engine
        self.size = size
        self.rows = 0
        channels_last = len(engine.shape) == 3 and prefers_channels_last(engine.owners)
        self._noisy = torch.zeros(
            (size, *engine.shape),
            dtype=DTYPES[engine.precision],
            device=engine.device,
        ).contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
        self._cells = torch.full((size,), self._of_no_input, device=engine.device)
        self._counts: Tensor | None = None

    def add(self, one: _Input, count: int) -> None:
        """Put the next `count` draws of an input into the batch."""
        for piece in one.stream.take(count):
            noisy = self._engine.noise.perturb(one.image, piece)
            self._noisy[self.rows : self.rows + len(piece)].copy_(noisy)
            choosing = min(len(piece), max(0, self._engine.n0 - one.drawn))
            cells = self._cells[self.rows : self.rows + len(piece)]
            cells[:choosing].fill_(2 * one.slot)
            cells[choosing:].fill_(2 * one.slot + 1)
            self.rows += len(piece)
            one.drawn += len(piece)

    def count(self) -> None:
        """Classify the batch and add up who won; rows that were not filled are counted for no input."""
        with evaluating(self._engine.owners), arithmetic(self._engine.precision):
            labels, num_classes = self._engine.classify(self._noisy)
        kinds = num_classes + 2  # each class, nobody, not a number
        if self._counts is None:
            rows = 2 * (self.slots + 1)
            self._counts = torch.zeros(rows, len(labels), kinds, dtype=torch.int64, device=labels.device)
        votes = torch.arange(len(labels), device=labels.device)[:, None]
        where = (self._cells * len(labels) + votes) * kinds + labels
        self._counts.view(-1).scatter_add_(0, where.view(-1), torch.ones_like(where).view(-1))
        self._cells.fill_(self._of_no_input)
        self.rows = 0

    def read(self, inputs: list[_Input]) -> _Read:
        """The table of counts as it is after the batches so far, on its way to the host."""
        assert self._counts is not None
        if self._counts.device.type != "cuda":
            return _Read(self._counts, inputs, None)
        counts = torch.empty(self._counts.shape, dtype=self._counts.dtype, pin_memory=True)
        counts.copy_(self._counts, non_blocking=True)
        arrived: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        return _Read(counts, inputs, arrived)

    def clear(self, slot: int) -> None:
        if self._counts is not None:
            self._counts[2 * slot : 2 * slot + 2].zero_()


class _Queue:
    """Which input's draws come next: those of the earliest input that has draws to make."""

    def __init__(
        self, engine: Engine, batch: _Batch, source: Iterator[tuple[int, Tensor]], first_place: int
    ) -> None:
        self._engine = engine
        self._batch = batch
        self._source = source
        self._source_has_ended = False
        self._first_place = first_place
        self._looks = engine.stopping.looks()
        self._under_way: dict[int, _Input] = {}
        self._free = deque(range(batch.slots))
        self._complete: dict[int, Counted] = {}
        self._taken = 0
        self._given = 0
        self._go_to_row_of(0)

    def run(self) -> Iterator[Counted]:
        reads: deque[_Read] = deque()
        delay = 1 if self._engine.device.type == "cuda" else 0
        while self._under_way or not self._source_has_ended:
            try:
                due = self._fill(reads)
                if self._batch.rows:
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

    def _fill(self, reads: deque[_Read]) -> list[_Input]:
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

    def _earliest(self) -> _Input | None:
        """The earliest input that has draws to make."""
        return next((one for one in self._under_way.values() if not one.is_due), None)

    def _take(self) -> _Input | None:
        """Begin the next input, if there is one and room for it."""
        if self._source_has_ended or not self._free or self._taken - self._given >= MOST_WAITING:
            return None
        found = next(self._source, None)
        if found is None:
            self._source_has_ended = True
            return None
        index, image = found
        one = _Input(self._taken, index, self._sent(image), self._free.popleft(), self._stream(index))
        self._under_way[one.order] = one
        self._taken += 1
        return one

    def _look(self, read: _Read) -> None:
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

    def _settled(self, inputs: list[_Input], counts: Tensor) -> list[bool]:
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
