"""Members in use: type checks, the modules inside them, device, mode, and errors."""

import dis
import gc
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import TypeVar

import torch
from torch import Tensor, nn

from shieldwall.devices import is_out_of_memory, resolve_device
from shieldwall.errors import UserError, check, describe

Member = TypeVar("Member")
MOST_VISITED = 10_000  # objects that a search for modules looks into, the nearest first
_WITHOUT_MODULES = (str, bytes, int, float, complex, type(None), type, ModuleType, Tensor)


def check_model(model: object) -> None:
    """Refuse what cannot be called with images, and a class in place of a model of it."""
    if isinstance(model, type):
        name = model.__name__
        raise UserError(f"a model is needed, not the class {name}; pass an instance, {name}(...)")
    rule = "a model must be a module or a function from images (B, ...) to scores (B, K)"
    check(callable(model), rule, describe(model))


def as_member_list(members: Iterable[Member]) -> list[Member]:
    """The members as a list. One model alone is refused: its layers would be taken for members."""
    if isinstance(members, nn.Module) and isinstance(getattr(members, "num_estimators", None), int):
        return [members]  # type: ignore[list-item]  # several members in one module (models/classifier.py)
    alone = isinstance(members, nn.Module) and not isinstance(members, nn.ModuleList)
    if alone or not isinstance(members, Iterable):
        advice = "write [model] for one model, ensemble.members for those of an ensemble"
        raise UserError(f"members must be a list of models; given: {describe(members)}; {advice}")
    listed = list(members)
    for member in listed:
        check_model(member)
    return listed


def modules_of(owners: Iterable[object]) -> list[nn.Module]:
    """The modules that callables use, with all their parts, the nearest first.

    A function uses what its closure, its defaults and the globals in its code refer to; other objects what
    they hold, and their class's `__call__`.
    """
    waiting = deque(owners)
    others: dict[int, object] = {}  # holds the objects, so that none gets the id of another
    modules: dict[int, nn.Module] = {}
    while waiting:
        owner = waiting.popleft()
        if isinstance(owner, _WITHOUT_MODULES) or id(owner) in others or id(owner) in modules:
            continue
        if isinstance(owner, nn.Module):
            for part in owner.modules():
                modules[id(part)] = part
                waiting.extend(value for name, value in vars(part).items() if not name.startswith("_"))
        elif len(others) < MOST_VISITED:
            others[id(owner)] = owner
            waiting.extend(_referred_to(owner))
    return list(modules.values())


def _referred_to(owner: object) -> Iterator[object]:
    if isinstance(owner, FunctionType):
        yield from (owner.__closure__, owner.__defaults__, owner.__kwdefaults__, vars(owner))
        if not (owner.__module__ or "").startswith("torch."):
            yield from (owner.__globals__.get(name) for name in _global_names(owner.__code__))
    else:
        yield from gc.get_referents(owner)
        yield from (vars(base).get("__call__") for base in type(owner).__mro__)


def _global_names(code: CodeType) -> set[str]:
    """The names of globals that a function's code refers to, in functions inside it too."""
    names = {part.argval for part in dis.get_instructions(code) if part.opname == "LOAD_GLOBAL"}
    return names.union(*(_global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


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
    for module in modules_of(owners):
        for parameter in module.parameters(recurse=False):
            return parameter.device
    return x.device


def is_channels_last(owners: Sequence[object]) -> bool:
    """Whether the weights of convolutions are laid out with the channels last."""
    modules = [owner for owner in owners if isinstance(owner, nn.Module)]
    kernels = [weight for module in modules for weight in module.parameters() if weight.ndim == 4]
    turned = [kernel for kernel in kernels if kernel.is_contiguous(memory_format=torch.channels_last)]
    return not all(kernel.is_contiguous() for kernel in turned)


@contextmanager
def evaluating(parts: Iterable[nn.Module]) -> Iterator[None]:
    """Modules, given with all their parts, in evaluation mode; afterwards each has the mode it had."""
    were_training = [part for part in parts if part.training]
    for part in were_training:
        part.training = False
    try:
        yield
    finally:
        for part in were_training:
            part.training = True


@contextmanager
def inference(owners: Sequence[object]) -> Iterator[None]:
    """The modules that owners use in evaluation mode, and no gradients."""
    with evaluating(modules_of(owners)), torch.inference_mode():
        yield
