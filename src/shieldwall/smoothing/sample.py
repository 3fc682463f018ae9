"""Draws: noisy copies of one input, classified and counted where they were made.

The draws of an input form one sequence, fixed by (seed, input index). The first n0 choose the class
and the next n bound its probability, so the two samples are disjoint, and one pass counts both. The
sequence is drawn in chunks whose size depends on the input's shape alone: how it is cut into batches
for the members changes no draw.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from shieldwall import seeds
from shieldwall.errors import UserError
from shieldwall.smoothing.classify import Classify
from shieldwall.smoothing.inputs import check_inputs, device_of, evaluating
from shieldwall.smoothing.noise import Noise

CHUNK_ELEMENTS = 2**18
"""Random numbers per chunk: enough to keep the generator busy, few enough to waste none on short runs."""


class NoiseStream:
    """The sequence of noise draws for one input."""

    def __init__(self, noise: Noise, shape: Sequence[int], generator: torch.Generator) -> None:
        self._noise = noise
        self._generator = generator
        self._chunk_shape = (max(1, CHUNK_ELEMENTS // math.prod(shape)), *shape)
        self._rest = torch.empty(0, *shape, device=generator.device)

    def take(self, count: int) -> Tensor:
        """The next `count` draws (count, *shape); the caller may overwrite them."""
        parts = []
        while count:
            if not len(self._rest):
                self._rest = self._noise.sample(self._chunk_shape, self._generator)
            part, self._rest = self._rest[:count], self._rest[count:]
            parts.append(part)
            count -= len(part)
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def count_draws(
    classify: Classify, x: Tensor, noise: Noise, n0: int, n: int, generator: torch.Generator, batch_size: int
) -> Tensor:
    """How often each class won, on the first n0 draws and on the n after them.

    x (*shape) -> counts (V votes, 2 phases, K classes), int64, on the CPU.
    """
    total = n0 + n
    batch_size = math.ceil(total / math.ceil(total / batch_size))  # even batches: no small one at the end
    stream = NoiseStream(noise, x.shape, generator)
    counts = torch.zeros(0)
    for start in range(0, total, batch_size):
        size = min(batch_size, total - start)
        labels, num_classes = classify(stream.take(size).add_(x))
        cells = num_classes + 1  # the last one holds draws without a valid score
        if not start:
            counts = torch.zeros(len(labels), 2 * cells, dtype=torch.int64, device=x.device)
        phase = (torch.arange(start, start + size, device=x.device) >= n0).long()
        counts.scatter_add_(1, labels + cells * phase, torch.ones_like(labels))
    counts = counts.view(len(counts), 2, -1).cpu()
    if counts[..., -1].any():
        raise UserError("the classifier returned NaN scores for a noisy input; check its weights")
    return counts[..., :-1]


def stream_counts(
    classify: Classify,
    owners: Sequence[object],
    x: Tensor,
    noise: Noise,
    n0: int,
    n: int,
    *,
    seed: int,
    indices: Sequence[int] | None = None,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    value_range: tuple[float, float] | None = (0.0, 1.0),
) -> Iterator[Tensor]:
    """The counts (V, 2, K) of one input after the other, each as soon as it is complete.

    `owners` are what `classify` calls: the modules among them are held in evaluation mode.
    """
    check_inputs(x, value_range)
    indices = range(len(x)) if indices is None else indices
    if len(indices) != len(x):
        raise UserError(f"{len(x)} inputs need {len(x)} indices; given: {len(indices)}")
    where = torch.device(device) if device is not None else device_of(owners, x)
    size = default_batch_size(where, x.shape[1:]) if batch_size is None else batch_size
    if size < 1:
        raise UserError(f"batch_size must be at least 1; given: {size}")
    for index, image in zip(indices, x, strict=True):
        source = seeds.generator(where, seed, "draws", int(index))
        with evaluating(owners):
            counts = count_draws(classify, image.to(where), noise, n0, n, source, size)
        yield counts


def default_batch_size(device: torch.device, shape: Sequence[int]) -> int:
    """Near the fastest on CPUs, whose caches are small; on an accelerator as much as is sure to fit."""
    pixels = math.prod(shape)
    if device.type == "cpu":
        return max(64, min(2_048, 2**18 // pixels))
    return max(16, min(10_000, 2**23 // pixels))
