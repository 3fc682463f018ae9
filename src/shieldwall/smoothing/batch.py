"""The batch that the engine fills, classifies and counts, again and again.

    noisy (B, *shape),  cells (B,)  ->  labels (V, B)  ->  counts[cell, vote, label] += 1

A cell is an input under way and whether the draw chooses its class or bounds it. Rows that hold no draw have
a cell of their own, which nobody reads.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from shieldwall.models.members import inference, is_channels_last
from shieldwall.smoothing.precision import DTYPES, arithmetic
from shieldwall.smoothing.sample import NoiseStream

if TYPE_CHECKING:
    from shieldwall.smoothing.engine import Engine


@dataclass
class InProgress:
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


class Read(NamedTuple):
    """Counts on their way to the host, and the inputs to be looked at in them."""

    counts: Tensor
    """(2 (slots + 1), V, K + 2)"""
    inputs: list[InProgress]
    arrived: torch.cuda.Event | None


class Batch:
    """The one batch that is filled and counted again and again, and the table of counts."""

    def __init__(self, engine: "Engine") -> None:
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
        channels_last = len(engine.shape) == 3 and is_channels_last(engine.owners)
        self._noisy = torch.zeros(
            (size, *engine.shape),
            dtype=DTYPES[engine.precision],
            device=engine.device,
        ).contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
        self._cells = torch.full((size,), self._of_no_input, device=engine.device)
        self._counts: Tensor | None = None

    def add(self, one: InProgress, count: int) -> None:
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
        with inference(self._engine.owners), arithmetic(self._engine.precision):
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

    def read(self, inputs: list[InProgress]) -> Read:
        """The table of counts as it is after the batches so far, on its way to the host."""
        assert self._counts is not None
        if self._counts.device.type != "cuda":
            return Read(self._counts, inputs, None)
        counts = torch.empty(self._counts.shape, dtype=self._counts.dtype, pin_memory=True)
        counts.copy_(self._counts, non_blocking=True)
        arrived: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        return Read(counts, inputs, arrived)

    def clear(self, slot: int) -> None:
        if self._counts is not None:
            self._counts[2 * slot : 2 * slot + 2].zero_()
