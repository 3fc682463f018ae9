"""Members by name or from a user's own function `(num_classes) -> module`, from images in [0, 1] to logits.

Several names, separated by commas, are those of the members one by one.
"""

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shieldwall import seeds
from shieldwall.errors import UserError, check, check_int, checked, unknown_name
from shieldwall.models.classifier import Classifier, member_scores
from shieldwall.models.members import inference
from shieldwall.models.networks import cifar_resnet, digits_cnn, lenet, resnet50

ModelFactory = Callable[[int], nn.Module]
MODELS: dict[str, ModelFactory] = {
    "digits-cnn": digits_cnn, "lenet": lenet, "resnet20": partial(cifar_resnet, depth=20),
    "resnet110": partial(cifar_resnet, depth=110), "resnet50": resnet50,
}  # fmt: skip
HUGGING_FACE = "hf:"  # what the name of a Hugging Face checkpoint in a folder starts with
TRUST = "SHIELDWALL_TRUST_CODE"  # names the code of recipes that may run, module:function by commas, or all


def factory(name: str) -> ModelFactory:
    """The model called `name`, or the function that `module:function` names."""
    if name in MODELS:
        return MODELS[name]
    if not isinstance(name, str) or ":" not in name:
        raise unknown_name("model", name, [*MODELS, "module:function", "hf:FOLDER"])
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


def _own(names: str) -> list[str]:
    """Those that name a user's functions."""
    return [name for name in names.split(",") if ":" in name and not name.startswith(HUGGING_FACE)]


def code_digest(names: str) -> str | None:
    """The SHA-256 of the files with a user's functions; None for the networks of this package."""
    code = b"".join(file.read_bytes() for file in map(_code_file, _own(names)) if file)
    return hashlib.sha256(code).hexdigest() if code else None


def _code_file(name: str) -> Path | None:
    """The file with the function, found without running it."""
    module = name.partition(":")[0]
    loaded = getattr(sys.modules.get(module), "__file__", None)
    homes = [Path(folder, *module.split(".")) for folder in (str(Path.cwd()), *sys.path)]
    files = [file for home in homes for file in (home / "__init__.py", home.with_name(f"{home.name}.py"))]
    return next(filter(Path.is_file, [Path(str(loaded))] if loaded else files), None)


def models_of(names: str, count: int) -> list[str]:
    listed, rule = names.split(","), f"model takes one name, or one for each member: {count}"
    check(len(listed) in (1, count), rule, f"{len(listed)}, {names}")
    return listed * count if len(listed) == 1 else listed


def trust(name: str) -> None:
    """Let this process, and those that it starts, run the code of this name, or `all` code."""
    os.environ[TRUST] = ",".join(filter(None, [os.environ.get(TRUST), name]))


def check_trusted(names: str) -> None:
    """Refuse code that a recipe names and that this user has not trusted before, as it is now.

    What is trusted is written down by its SHA-256, so that later commands on the run need not be told again.
    """
    home = Path(os.path.expanduser(os.environ.get("XDG_STATE_HOME") or "~/.local/state"))  # noqa: PTH111
    file, said = home / "shieldwall" / "trusted-code", set(os.environ.get(TRUST, "").split(","))
    known = file.read_text(errors="replace").splitlines() if file.is_file() else []
    for name in _own(names):
        digest = code_digest(name)
        if digest is not None and f"{digest}  {name}" in known:
            continue
        if not {name, "all"} & said:
            what = f"the recipe names code, {name!r}, which is new here or has changed"
            advice = f"read it, then add --trust-code (in Python: set {TRUST}={name})"
            raise UserError(f"{what}; code can do all that you can: {advice}")
        if digest is not None and home.is_absolute():
            with suppress(OSError):  # without a home to write to, it must be said each time
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("a") as trusted:
                    trusted.write(f"{digest}  {name}\n")


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


@checked
def build_members(
    names: str, count: int, num_classes: int, shape: tuple[int, int, int], seed: int
) -> list[nn.Module]:
    """`count` freshly initialised members, each from a seed of its own, checked against the data's shape."""
    check_int("the number of members", count)
    members: list[nn.Module] = []
    models = models_of(names, count)
    while len(members) < count:
        name = models[len(members)]
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
    if not listed:
        raise UserError(f"model {name!r} returns an empty list; it must return one model or more")
    try:
        return [model if isinstance(model, nn.Module) else Classifier(model) for model in listed]
    except UserError as error:
        raise UserError(f"model {name!r}: {error}") from None


def check_member(name: str, member: nn.Module, num_classes: int, shape: tuple[int, int, int]) -> None:
    """One dry run: images of the data's shape in, one logit per class out."""
    try:
        with inference([member]):
            scores = member_scores(member, torch.zeros(2, *shape))[0]
    except Exception as error:
        reason = _one_line(error)
        raise UserError(f"model {name!r} does not accept images of shape {shape}: {reason}") from error
    given = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
    if given != (2, num_classes):
        images = f"2 images of {num_classes} classes; expected: {(2, num_classes)}"
        raise UserError(f"model {name!r} returns {given} for {images}")
