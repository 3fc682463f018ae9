"""The device to work on, and whether its memory ran out."""

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

from shieldwall.errors import UserError


def resolve_device(name: torch.device | str | None = None) -> torch.device:
    """The device with this name, checked by a small computation. None is the fastest available device."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"device {str(name)!r} cannot be used here: {reason}") from error
    return device


def device_of(worker: int, device: str | None) -> str | None:
    """That of a worker by its number: they are spread over the GPUs."""
    if device is None and torch.cuda.is_available():
        return f"cuda:{worker % torch.cuda.device_count()}"
    return device


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """Use this number of threads for a while, where one is given: rounding depends on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if number is None else number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def keep_freed_memory() -> None:
    """Let the process keep the memory of tensors that it frees. glibc gives large blocks back to the system,
    which clears every page again before its next use: a third of the time of a training step on a CPU."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        trim_threshold, mmap_threshold = -1, -3
        libc.mallopt(trim_threshold, 2**31 - 1)
        libc.mallopt(mmap_threshold, 2**30)


def check_memory(what: str, *shape: int) -> None:
    """Refuse a tensor of float32 that takes more than half of this machine's memory, before it is made."""
    needed = 4 * math.prod(shape)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else needed
    if needed > there / 2:
        sizes = [f"{number / 2**30:,.1f} GB" for number in (needed, there)]
        raise UserError(f"{what} would take {sizes[0]} of memory, and there are {sizes[1]}; take fewer")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error says that memory ran out, on an accelerator or on the host."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)
