"""The draws of noise for one input: a sequence that its name alone decides.

    draw 0, 1, 2, ...  of input i under seed s   =   successive chunks from the generator (s, "draws", i)

The first n0 of them choose the class and those after it bound its probability, so the two samples are
disjoint. The sizes of the chunks depend on the input's shape and the kind of device alone: how the
sequence is cut into batches for the members, what other inputs share a batch, and where a run was
interrupted change no draw.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from shieldwall import seeds
from shieldwall.noise.distributions import Noise

FIRST_CHUNK = 2**14
"""Random numbers in the first chunk, few enough to waste none on short runs; chunks double from there."""
LARGEST_CHUNK = {"cpu": 2**18}
"""Enough to keep the device busy, little enough for a CPU's cache."""
LARGEST_CHUNK_ELSEWHERE = 2**22


class NoiseStream:
    """The sequence of noise draws for one input of the given shape."""

    def __init__(
        self, noise: Noise, shape: Sequence[int], device: torch.device, seed: int, index: int
    ) -> None:
        self._noise = noise
        self._shape = tuple(shape)
        self._generator = seeds.generator(device, seed, "draws", index)
        self._chunk = FIRST_CHUNK
        self._largest = LARGEST_CHUNK.get(device.type, LARGEST_CHUNK_ELSEWHERE)
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
