"""Members by name, each with its normalisation inside, or from a user's own function.

A model is a function `(num_classes) -> nn.Module` whose module maps images in [0, 1] to logits.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from shieldwall import seeds
from shieldwall.errors import UserError, unknown
from shieldwall.models.cifar_resnet import resnet20, resnet110
from shieldwall.models.normalize import Normalize
from shieldwall.models.resnet50 import resnet50
from shieldwall.models.small import digits_cnn, lenet

__all__ = ["MODELS", "Normalize", "build_members", "factory", "place"]

ModelFactory = Callable[[int], nn.Module]

MODELS: dict[str, ModelFactory] = {
    "digits-cnn": digits_cnn,
    "lenet": lenet,
    "resnet20": resnet20,
    "resnet110": resnet110,
    "resnet50": resnet50,
}


def factory(name: str) -> ModelFactory:
    """The model called `name`, or the function that `module:function` names."""
    if ":" not in name:
        if name not in MODELS:
            raise unknown("model", name, [*MODELS, "module:function"])
        return MODELS[name]
    module_name, _, function_name = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: object = getattr(importlib.import_module(module_name), function_name)
    except ImportError as error:
        raise UserError(f"model {name!r}: cannot import {module_name!r}: {error}") from error
    except AttributeError as error:
        raise UserError(f"model {name!r}: {module_name!r} has no function {function_name!r}") from error
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise UserError(f"model {name!r}: {function_name!r} is not a function of the number of classes")
    return found


def place(member: nn.Module, device: torch.device) -> nn.Module:
    """The member on the device, its weights laid out for fast convolutions; in place."""
    return member.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def build_members(
    name: str, count: int, num_classes: int, shape: tuple[int, int, int], seed: int
) -> list[nn.Module]:
    """`count` freshly initialised members, each from a seed of its own, checked against the data's shape."""
    make = factory(name)
    members = []
    for k in range(count):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds.derive(seed, "member", k))
            members.append(make(num_classes))
    check_member(name, members[0], num_classes, shape)
    return members


def check_member(name: str, member: object, num_classes: int, shape: tuple[int, int, int]) -> None:
    """One dry run: images of the data's shape in, one logit per class out."""
    if not isinstance(member, nn.Module):
        raise UserError(f"model {name!r} must return an nn.Module; returned: {type(member).__name__}")
    was_training = member.training
    member.eval()
    try:
        with torch.inference_mode():
            out = member(torch.zeros(2, *shape))
    except (RuntimeError, ValueError, TypeError) as error:
        first_line = str(error).partition("\n")[0]
        raise UserError(f"model {name!r} does not accept images of shape {shape}: {first_line}") from error
    finally:
        member.train(was_training)
    if tuple(out.shape) != (2, num_classes):
        raise UserError(
            f"model {name!r} returns shape {tuple(out.shape)} for 2 images of {num_classes} classes; "
            f"expected: {(2, num_classes)}"
        )
