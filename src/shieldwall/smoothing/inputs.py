"""What may be certified: the inputs, the device they go to, the mode the classifier is in."""

from collections.abc import Sequence

import torch
from torch import Tensor

from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise, check_noise


def check_inputs(x: Tensor, noise: Noise, value_range: tuple[float, float] | None) -> None:
    """A batch of finite float inputs within the range that noise is meant for, and the noise."""
    check_noise(noise)
    if not isinstance(x, Tensor):
        raise UserError(f"inputs must be a torch tensor (M, ...); given: {type(x).__name__}")
    if x.ndim < 2 or not len(x) or not x[0].numel():
        raise UserError(
            f"inputs must be a batch (M, ...) of at least one image; given shape: {tuple(x.shape)}"
            + ("; for a single image pass x[None]" if x.ndim == 1 else "")
        )
    if x.dtype != torch.float32:
        hint = "divide by 255 first" if x.dtype == torch.uint8 else "call .float() first"
        raise UserError(f"inputs must be float32; given: {x.dtype}; {hint}")
    if not bool(torch.isfinite(x).all()):
        raise UserError("inputs contain NaN or infinity")
    if value_range is not None and (x.min() < value_range[0] or x.max() > value_range[1]):
        raise UserError(
            f"inputs must lie in [{value_range[0]:g}, {value_range[1]:g}]; given: "
            f"[{x.min():g}, {x.max():g}]; keep pixels in that range and normalise inside the model "
            "(shieldwall.Normalize), or pass value_range=None"
        )
    noise.check(x)


def numbered(x: Tensor, indices: Sequence[int] | None) -> list[tuple[int, Tensor]]:
    """Each input with its index, which is its place in x unless it is given."""
    indices = range(len(x)) if indices is None else indices
    if len(indices) != len(x):
        raise UserError(f"{len(x)} inputs need {len(x)} indices; given: {len(indices)}")
    return list(zip(map(int, indices), x, strict=True))
