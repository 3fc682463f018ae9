"""How many noisy inputs are classified at a time."""

import math
from collections.abc import Callable, Sequence

import torch

PROBE = 32
"""Rows of the batch that shows how much memory a row takes."""
SHARE = 0.5
"""The part of the free memory that a batch may take."""


def default_batch_size(device: torch.device, shape: Sequence[int], draws: int) -> int:
    """Near the fastest on CPUs, whose caches are small, and on accelerators, which want much at a time.

    `draws` per input: on a CPU there is nothing to gain from batches of more. There, powers of two suit
    matrix products in half precision: 256 for 28x28, 64 for 3x32x32.
    """
    pixels = math.prod(shape)
    if device.type == "cpu":
        fitting = 1 << (2**18 // pixels).bit_length() >> 1
        return min(draws, max(64, min(2_048, fitting)))
    return max(16, min(10_000, 2**25 // pixels))


def that_fits(size: int, classify_rows: Callable[[int], object]) -> int:
    """The size, or the largest smaller one that fits into the GPU's free memory by the measure of a probe."""
    classify_rows(1)  # what libraries set aside once is not counted
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    classify_rows(PROBE)
    per_row = (torch.cuda.max_memory_allocated() - before) / PROBE
    reserved = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    free = torch.cuda.mem_get_info()[0] + reserved
    return max(1, min(size, int(SHARE * free / max(1.0, per_row))))
