"""The noise of an input, and the batch that is filled, classified and counted again and again.

    draw 0, 1, 2, ...  of input i under seed s   =   successive chunks from the generator (s, "draws", i)
    noisy (B, *shape),  cells (B,)  ->  labels (V, B)  ->  counts[cell, vote, label] += 1

The first n0 draws select the class, those after it bound its probability. The sizes of the chunks depend on
the input's shape and the kind of device alone, so no batch, other input or interruption changes a draw. A
cell is an input under way and which of both the draw does; rows that hold no draw have a cell of their own.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from shieldwall import seeds
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise
from shieldwall.results.certificates import Ints
from shieldwall.smoothing.inference import Labeler

FIRST_CHUNK = 2**14  # random numbers, few enough to waste none on short runs; chunks double from there
LARGEST_CHUNK = {"cpu": 2**18}  # enough to keep the device busy, little enough for a CPU's cache
LARGEST_CHUNK_ELSEWHERE = 2**22
MARGIN = 1e-4  # sums of N confidences in float32 are off by less than N * 1e-6


class NoiseStream:
    """The sequence of noise draws for one input of the given shape."""

    def __init__(
        self, noise: Noise, shape: Sequence[int], device: torch.device, seed: int, index: int
    ) -> None:
        self._noise, self._shape = noise, tuple(shape)
        self._generator = seeds.generator(device, seed, "draws", index)
        self._chunk, self._largest = FIRST_CHUNK, LARGEST_CHUNK.get(device.type, LARGEST_CHUNK_ELSEWHERE)
        self._rest = torch.empty(0, *shape, device=device)

    def take(self, count: int) -> Iterator[Tensor]:
        """The next `count` draws in pieces (some, *shape), which the caller may overwrite."""
        while count:
            if not len(self._rest):
                draws = max(1, self._chunk // math.prod(self._shape))
                self._rest = self._noise.sample((draws, *self._shape), self._generator)
                self._chunk = min(2 * self._chunk, self._largest)
            piece, self._rest = self._rest[:count], self._rest[count:]
            count -= len(piece)
            yield piece


@dataclass
class PendingInput:
    order: int
    index: int
    image: Tensor
    slot: int
    stream: NoiseStream
    drawn: int = 0
    looks_done: int = 0
    is_due: bool = False  # whether its draws are made up to the next look, which says if there will be more


class CountSnapshot(NamedTuple):
    """Counts on their way to the host, and the inputs to be looked at in them."""

    table: Tensor  # (slots + 1, 2, V, K + 1)
    inputs: list[PendingInput]
    arrived: torch.cuda.Event | None

    def read(self) -> Ints:
        """The inputs' counts (T, 2, V, K) on the draws that choose and that bound, once they are here."""
        if self.arrived is not None:
            self.arrived.synchronize()
        counts: Ints = self.table.cpu().numpy()[[pending.slot for pending in self.inputs]]
        if counts[..., -1].any():
            raise UserError("the classifier returned NaN scores for a noisy input; check its weights")
        return counts[..., :-1]


class DrawBuffer:
    """The one batch that is filled and counted again and again, and the table of counts."""

    def __init__(
        self, labeler: Labeler, noise: Noise, n0: int, shape: Sequence[int], size: int, slots: int
    ) -> None:
        self._labeler, self._noise, self._n0, self._shape = labeler, noise, n0, tuple(shape)
        self.slots = slots  # inputs that may be under way at a time
        self.allocate(size)

    def allocate(self, size: int) -> None:
        """Room for `size` draws, and no counts yet."""
        labeler, nobody = self._labeler, 2 * self.slots
        self.size, self.rows = size, 0
        self._noisy = torch.zeros((size, *self._shape), dtype=labeler.dtype, device=labeler.device)
        self._noisy = self._noisy.contiguous(memory_format=labeler.memory_format(self._shape))
        self._cells = torch.full((size,), nobody, device=labeler.device)
        self._undecided = UndecidedRows(labeler, size, nobody) if labeler.skips_members else None
        self._counts: Tensor | None = None

    def add(self, pending: PendingInput, count: int) -> None:
        """Put the next `count` draws of an input into the batch."""
        for piece in pending.stream.take(count):
            rows = slice(self.rows, self.rows + len(piece))
            self._noisy[rows].copy_(self._noise.perturb(pending.image, piece))
            choosing = min(len(piece), max(0, self._n0 - pending.drawn))
            cells = self._cells[rows]
            cells[:choosing].fill_(2 * pending.slot)
            cells[choosing:].fill_(2 * pending.slot + 1)
            self.rows += len(piece)
            pending.drawn += len(piece)

    def count(self) -> None:
        """Classify the batch and add up who won; rows that were not filled are counted for no input."""
        if self._undecided is None:
            self._add_up(*self._labeler(self._noisy), self._cells)
        else:
            for decided in self._undecided.labels(self._noisy, self._cells):
                self._add_up(*decided)
        self._cells.fill_(2 * self.slots)
        self.rows = 0

    def _add_up(self, labels: Tensor, num_classes: int, cells: Tensor) -> None:
        kinds = num_classes + 1  # each class, and what is not a number
        if self._counts is None:
            shape = self.slots + 1, 2, len(labels), kinds
            self._counts = torch.zeros(shape, dtype=torch.int64, device=labels.device)
        votes = torch.arange(len(labels), device=labels.device)[:, None]
        where = (cells * len(labels) + votes) * kinds + labels
        self._counts.view(-1).scatter_add_(0, where.view(-1), torch.ones_like(where).view(-1))

    def snapshot(self, inputs: list[PendingInput]) -> CountSnapshot:
        """The table of counts as it is after the batches so far, on its way to the host."""
        for decided in self._undecided.rest() if self._undecided else ():
            self._add_up(*decided)
        assert self._counts is not None
        if self._counts.device.type != "cuda":
            return CountSnapshot(self._counts, inputs, None)
        table = torch.empty(self._counts.shape, dtype=self._counts.dtype, pin_memory=True)
        table.copy_(self._counts, non_blocking=True)
        arrived: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        return CountSnapshot(table, inputs, arrived)

    def clear(self, slot: int) -> None:
        if self._counts is not None:
            self._counts[slot].zero_()


class UndecidedRows:
    """WE of N members without the passes that cannot change its label.

    members that have run: k,  s = the sum of their confidences (B, K)
    the label is decided if    s_first - s_second > N - k

    because each member to come adds at most 1 to a class and takes nothing away. The next member runs once
    the undecided rows fill a batch, so that every member sees batches of one size. On three and five LeNets,
    MNIST at sigma 1, 24 and 30 % of the passes are spared.
    """

    def __init__(self, labeler: Labeler, size: int, nobody: int) -> None:
        self._labeler, self._size, self._nobody = labeler, size, nobody
        self._members = len(labeler.modules)
        self._first = self._members // 2 + 1  # the members that every row needs
        self._waiting: dict[int, list[tuple[Tensor, Tensor, Tensor]]] = {}

    def labels(self, noisy: Tensor, cells: Tensor) -> Iterator[tuple[Tensor, int, Tensor]]:
        """Labels (1, R), the number of classes and cells (R,), for rows that are decided now."""
        yield from self._decide(noisy, cells, self._labeler.confidences(noisy, slice(self._first)))

    def rest(self) -> Iterator[tuple[Tensor, int, Tensor]]:
        """The same for all rows that wait, in batches that are filled up."""
        for k in range(self._first, self._members):
            yield from self._run(k, fewest=1)

    def _decide(self, noisy: Tensor, cells: Tensor, seen: Tensor) -> Iterator[tuple[Tensor, int, Tensor]]:
        k, _, num_classes = seen.shape
        if k == self._members:
            yield self._labeler.of_votes(seen), num_classes, cells
            return
        total = seen.sum(0)
        first, second = total.topk(2, dim=-1).values.unbind(-1)
        is_decided = first - second > self._members - k + MARGIN
        yield total[is_decided].argmax(-1)[None], num_classes, cells[is_decided]
        left = (~is_decided & (cells != self._nobody)).nonzero()[:, 0]
        self._waiting.setdefault(k, []).append((noisy[left], cells[left], seen[:, left]))
        yield from self._run(k, fewest=self._size)

    def _run(self, k: int, fewest: int) -> Iterator[tuple[Tensor, int, Tensor]]:
        """The next member on the rows that k have seen, while there are `fewest` of them."""
        waiting = self._waiting.get(k, [])
        while (rows := sum(len(cells) for _, cells, _ in waiting)) >= fewest:
            noisy, cells = (torch.cat([parts[k] for parts in waiting]) for k in (0, 1))
            seen = torch.cat([parts[2] for parts in waiting], dim=1)
            taken = min(rows, self._size)
            batch = noisy[torch.arange(self._size).clamp(max=taken - 1)]
            batch = batch.contiguous(memory_format=self._labeler.memory_format(batch.shape[1:]))
            waiting[:] = [(noisy[taken:], cells[taken:], seen[:, taken:])] if rows > taken else []
            more = self._labeler.confidences(batch, slice(k, k + 1))[:, :taken]
            yield from self._decide(batch[:taken], cells[:taken], torch.cat([seen[:, :taken], more]))
