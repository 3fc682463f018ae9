"""Batch size, number of threads and whether to compile, by a short trial on a CPU.

The choice changes speed, and rounding where kernels depend on it. So it is made once, written to the settings
of the certificates and kept by whatever continues them.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from shieldwall.errors import UserError
from shieldwall.smoothing.sampler import Sampler

LEAST_FORWARDS = 2_000_000  # passes of single images, over all members, below which nothing is tried
LEAST_NOTED = 50_000  # the same, below which what the work will cost is not said
SIZES = (64, 128, 256, 512, 1_024)
BATCH_SECONDS = 1.0  # how long a batch may take: only between batches is an interruption heard
COMPILE_SECONDS = 600.0  # work for which compiling is tried: it takes up to a minute
GAIN = 1.05  # how many times as fast another choice must be than the default
TRIAL_SECONDS, MOST_BATCHES = 0.3, 200  # where the trial of one choice ends, at the first of both

Clock = Callable[[], float]


class Build(Protocol):
    def __call__(self, *, batch_size: int | None, compile: bool) -> Sampler: ...


def fastest(
    build: Build, draws: int, threads: Sequence[int], *, batch_size: int | None = None,
    compile: bool | None = None, clock: Clock = time.perf_counter,
) -> Sampler:  # fmt: skip
    """The sampler for this number of draws, as far as it is left open; torch has the best of `threads`."""
    sampler = build(batch_size=batch_size, compile=False)
    seconds = {}
    for number in threads:
        torch.set_num_threads(number)
        seconds[number] = seconds_per_draw(sampler, sampler.batch_size, clock)
    torch.set_num_threads(_best(seconds, threads[0]))
    per_draw = min(seconds.values())
    if batch_size is None:
        sizes = [size for size in SIZES if size * per_draw < BATCH_SECONDS]
        by_size = {size: seconds_per_draw(sampler, size, clock) for size in (sampler.batch_size, *sizes)}
        sampler = build(batch_size=_best(by_size, sampler.batch_size), compile=False)
        per_draw = min(by_size.values())
    if compile is False or (compile is None and draws * per_draw < COMPILE_SECONDS):
        return sampler
    try:
        compiled = build(batch_size=sampler.batch_size, compile=True)
    except UserError:  # there is no compiler
        if compile:
            raise
        return sampler
    plain, new = (seconds_per_draw(choice, sampler.batch_size, clock) for choice in (sampler, compiled))
    return compiled if compile or new * GAIN < plain else sampler


def cost_note(sampler: Sampler, inputs: int, option: str, clock: Clock = time.perf_counter) -> str:
    """What long work will cost at most, by a trial; nothing where it takes less than a minute."""
    looks = sampler.stopping.looks()
    draws, is_fixed = sampler.n0 + looks[-1], len(looks) == 1
    if draws * inputs < LEAST_NOTED:
        return ""
    seconds = draws * seconds_per_draw(sampler, sampler.batch_size, clock)
    if (total := seconds * inputs / 60) < 1:
        return ""
    whole = f"{total:.0f} minutes" if total < 120 else f"{total / 60:.0f} hours"
    advice = f"; {option} stops at an image once these radii are decided" if is_fixed else ""
    each = f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.2g}"
    return f"{'about' if is_fixed else 'at most'} {each} s an image, {whole} in all{advice}"


def _best(seconds: dict[int, float], default: int) -> int:
    """The choice that takes least time, or the default if it is hardly slower."""
    best = min(seconds, key=seconds.__getitem__)
    return best if seconds[best] * GAIN < seconds[default] else default


def seconds_per_draw(sampler: Sampler, size: int, clock: Clock) -> float:
    """The mean time per row of batches of this size, after one that does not count."""
    labeler = sampler.labeler
    batch = torch.randn(size, *sampler.shape, generator=torch.Generator().manual_seed(0))
    batch = batch.to(labeler.device, labeler.dtype, memory_format=labeler.memory_format(sampler.shape))

    def classify() -> None:
        labels, _ = labeler(batch)
        labels[0, 0].item()  # waits for a GPU

    classify()
    began, seconds, batches = clock(), 0.0, 0
    while batches < 2 or (seconds < TRIAL_SECONDS and batches < MOST_BATCHES):
        classify()
        batches += 1
        seconds = clock() - began
    return seconds / (batches * size)
