"""What may be certified: the inputs, the device they go to, the mode the classifier is in."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from shieldwall import devices
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise, check_noise
from shieldwall.smoothing.batch_size import is_out_of_memory


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
            "(shieldwall.models.Normalize), or pass value_range=None"
        )
    noise.check(x)


def numbered(x: Tensor, indices: Sequence[int] | None) -> list[tuple[int, Tensor]]:
    """Each input with its index, which is its place in x unless it is given."""
    indices = range(len(x)) if indices is None else indices
    if len(indices) != len(x):
        raise UserError(f"{len(x)} inputs need {len(x)} indices; given: {len(indices)}")
    return list(zip(map(int, indices), x, strict=True))


@contextmanager
def naming(shape: Sequence[int]) -> Iterator[None]:
    """Say at which inputs a model fails, if it does. What has been said, and a lack of memory, pass."""
    try:
        yield
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if isinstance(error, UserError) or is_out_of_memory(error):
            raise
        hint = "; x is a batch (M, ...): for a single image pass x[None]" if len(shape) == 2 else ""
        reason = str(error).partition("\n")[0]
        raise UserError(f"the model fails at inputs of shape {tuple(shape)}: {reason}{hint}") from error


def device_of(owners: Sequence[object], x: Tensor, device: torch.device | str | None = None) -> torch.device:
    """The device asked for; else where the first parameter lives, or the inputs if there is none."""
    if device is not None:
        return devices.usable(device)
    for owner in owners:
        if isinstance(owner, nn.Module):
            for parameter in owner.parameters():
                return parameter.device
    return x.device


def prefers_channels_last(owners: Sequence[object]) -> bool:
    """Whether the weights of convolutions are laid out with the channels last."""
    return any(
        parameter.ndim == 4
        and parameter.is_contiguous(memory_format=torch.channels_last)
        and not parameter.is_contiguous()
        for owner in owners
        if isinstance(owner, nn.Module)
        for parameter in owner.parameters()
    )


@contextmanager
def evaluation_mode(owners: Sequence[object]) -> Iterator[None]:
    """Modules in evaluation mode; afterwards every part has the mode it had."""
    parts = [part for owner in owners if isinstance(owner, nn.Module) for part in owner.modules()]
    were_training = [part for part in parts if part.training]
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part in were_training:
            part.training = True


@contextmanager
def evaluating(owners: Sequence[object]) -> Iterator[None]:
    """Modules in evaluation mode, and no gradients."""
    with evaluation_mode(owners), torch.inference_mode():
        yield
