"""Counts as a caller hands them over: how often each class won."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from shieldwall.errors import UserError


def whole_counts(name: str, given: Tensor | ArrayLike) -> Tensor:
    """The counts as int64 on the CPU; parts of draws, and fewer than none, are refused."""
    counts = given.cpu() if isinstance(given, Tensor) else torch.from_numpy(np.array(given))
    if counts.is_floating_point() or counts.is_complex() or counts.dtype == torch.bool:
        kind = str(counts.dtype).removeprefix("torch.")
        raise UserError(f"{name} must be whole numbers, such as int64; given: {kind}")
    counts = counts.long()
    if bool((counts < 0).any()):
        raise UserError(f"{name} must not be negative; given: {int(counts.min())}")
    return counts
