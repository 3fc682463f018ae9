"""Members in use: type checks, device, mode, and errors."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

from shieldwall.devices import is_out_of_memory, resolve_device
from shieldwall.errors import UserError, describe

Member = TypeVar("Member")


def check_model(model: object) -> None:
    """Refuse what cannot be called with images, and a class in place of a model of it."""
    if isinstance(model, type):
        raise UserError(
            f"a model is needed, not the class {model.__name__}; pass an instance, {model.__name__}(...)"
        )
    if not callable(model):
        raise UserError(
            "a model must be a module or a function from images (B, ...) to scores (B, K); "
            f"given: {describe(model)}"
        )


def as_member_list(members: Iterable[Member]) -> list[Member]:
    """The members as a list. One model alone is refused: its layers would be taken for members."""
    alone = isinstance(members, nn.Module) and not isinstance(members, nn.ModuleList)
    if alone or not isinstance(members, Iterable):
        raise UserError(
            f"members must be a list of models; given: {describe(members)}; "
            "write [model] for one model, ensemble.members for those of an ensemble"
        )
    listed = list(members)
    for member in listed:
        check_model(member)
    return listed


def to_device(member: nn.Module, device: torch.device) -> nn.Module:
    """The member on the device, its weights laid out for fast convolutions; in place."""
    return member.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


@contextmanager
def model_errors(shape: Sequence[int]) -> Iterator[None]:
    """Re-raise a model's errors as UserError with the input shape, except out-of-memory errors."""
    try:
        yield
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if isinstance(error, UserError) or is_out_of_memory(error):
            raise
        hint = "; x is a batch (M, ...): for a single image pass x[None]" if len(shape) == 2 else ""
        reason = str(error).partition("\n")[0]
        raise UserError(f"the model fails at inputs of shape {tuple(shape)}: {reason}{hint}") from error


def infer_device(
    owners: Sequence[object], x: Tensor, device: torch.device | str | None = None
) -> torch.device:
    """The device asked for; else that of the first parameter, or of the inputs if there is none."""
    if device is not None:
        return resolve_device(device)
    for owner in owners:
        if isinstance(owner, nn.Module):
            for parameter in owner.parameters():
                return parameter.device
    return x.device


def is_channels_last(owners: Sequence[object]) -> bool:
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
def eval_mode(owners: Sequence[object]) -> Iterator[None]:
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
def inference(owners: Sequence[object]) -> Iterator[None]:
    """Modules in evaluation mode, and no gradients."""
    with eval_mode(owners), torch.inference_mode():
        yield
