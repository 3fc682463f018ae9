"""Members by name, each with its normalisation inside, or from a user's own function.

A model is a function `(num_classes) -> nn.Module` whose module maps images in [0, 1] to logits. Several
names, separated by commas, are those of the members one by one.
"""

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shieldwall import seeds
from shieldwall.errors import UserError, unknown_name
from shieldwall.models.classifier import Classifier, member_scores
from shieldwall.models.networks import digits_cnn, lenet, resnet20, resnet50, resnet110

ModelFactory = Callable[[int], nn.Module]
HUGGING_FACE = "hf:"
"""What the name of a Hugging Face checkpoint in a folder starts with."""

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
            raise unknown_name("model", name, [*MODELS, "module:function", "hf:FOLDER"])
        return MODELS[name]
    if name.startswith(HUGGING_FACE):
        return lambda num_classes: Classifier.from_pretrained(name.removeprefix(HUGGING_FACE))
    module_name, _, function_name = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may fail in any way
        raise UserError(f"model {name!r}: cannot import {module_name!r}: {_one_line(error)}") from error
    finally:
        sys.path.remove(here)
    function: object = getattr(module, function_name, None)
    if not callable(function):
        raise UserError(f"model {name!r}: {module_name!r} has no function {function_name!r}")
    return function


def _is_own(name: str) -> bool:
    return ":" in name and not name.startswith(HUGGING_FACE)


def code_digest(names: str) -> str | None:
    """The SHA-256 of the files with a user's functions; None for the networks of this package."""
    code = b""
    for name in filter(_is_own, names.split(",")):
        factory(name)
        file = getattr(sys.modules[name.partition(":")[0]], "__file__", None)
        code += Path(file).read_bytes() if file and Path(file).is_file() else b""
    return hashlib.sha256(code).hexdigest() if code else None


def models_of(names: str, count: int) -> list[str]:
    """The model of each of `count` members."""
    each = names.split(",")
    if len(each) not in (1, count):
        raise UserError(f"model takes one name, or one for each member: {count}; given: {len(each)}, {names}")
    return each * count if len(each) == 1 else each


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def build_members(
    names: str, count: int, num_classes: int, shape: tuple[int, int, int], seed: int
) -> list[nn.Module]:
    """`count` freshly initialised members, each from a seed of its own, checked against the data's shape."""
    members: list[nn.Module] = []
    each = models_of(names, count)
    while len(members) < count:
        name = each[len(members)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds.derive(seed, "member", len(members)))
            made = own_members(name, num_classes)
        for member in made:
            check_member(name, member, num_classes, shape)
        members += made
    if len(members) > count:
        raise UserError(f"model {name!r} makes {len(made)} members at a time; the recipe has {count}")
    return members


def own_members(name: str, num_classes: int) -> list[nn.Module]:
    """The model or the models that a function returns, or that `module:name` is, as modules."""
    make: Any = factory(name)
    try:
        is_model = isinstance(make, nn.Module) or hasattr(make, "predict_proba")
        takes = not is_model and len(inspect.signature(make).parameters)
        made = make if is_model else make(num_classes) if takes else make()
    except Exception as error:  # so may a user's function
        raise UserError(f"model {name!r} cannot be built: {_one_line(error)}") from error
    listed = list(made) if isinstance(made, list | tuple | nn.ModuleList) else [made]
    return [one if isinstance(one, nn.Module) else Classifier(one) for one in listed]


def check_member(name: str, member: nn.Module, num_classes: int, shape: tuple[int, int, int]) -> None:
    """One dry run: images of the data's shape in, one logit per class out."""
    was_training = member.training
    member.eval()
    try:
        with torch.inference_mode():
            outs = member_scores(member, torch.zeros(2, *shape))
    except Exception as error:
        raise UserError(
            f"model {name!r} does not accept images of shape {shape}: {_one_line(error)}"
        ) from error
    finally:
        member.train(was_training)
    given = tuple(outs[0].shape) if isinstance(outs[0], Tensor) else type(outs[0]).__name__
    if given != (2, num_classes):
        raise UserError(
            f"model {name!r} returns {given} for 2 images of {num_classes} classes; "
            f"expected: {(2, num_classes)}"
        )
