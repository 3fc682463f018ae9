"""What members start from: those of trained runs, or weights of other programs.

runs/a                                   all members of a run, or of a pretrained name
runs/a/members/member-2.safetensors      one member of a run
resnet.pth, resnet.safetensors           a state dict, also one of `DataParallel`, or under `state_dict`
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml
from torch import Tensor, nn

from shieldwall.errors import UserError
from shieldwall.files import load_tensors, load_weights
from shieldwall.models.registry import models_of
from shieldwall.recipes import Recipe
from shieldwall.results.checks import Sums
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.pretrained import resolve_sources


@dataclass(frozen=True)
class Start:
    path: Path  # the weights of one member
    run: RunFolder | None  # the run that they are of; None where that is not known
    model: str | None

    def load_into(self, member: nn.Module) -> None:
        state = _state(self.path)
        if state.keys() != member.state_dict().keys():
            state = {name.replace("module.", ""): value for name, value in state.items()}
        network = getattr(member, "network", None)
        if isinstance(network, nn.Module) and state.keys() == network.state_dict().keys():
            member = network  # published weights, without the normalisation
        load_weights(member, state, self.path)

    def description(self) -> str:  # the recipes that made them, or what file they are
        if self.run is None:
            digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
            return yaml.safe_dump({"weights": self.path.name, "sha256": digest}, sort_keys=False)
        before = self.run.path / "start.yaml"
        return "---\n".join([self.run.recipe.to_yaml(), *([before.read_text()] if before.is_file() else [])])


def starting_members(recipe: Recipe) -> list[Start]:
    """What the members start from, one for each, or none; refused where it cannot be theirs."""
    if recipe.init_from is None:
        return []
    starts = [start for source in resolve_sources(recipe.init_from) for start in _starts(source)]
    if len(starts) != recipe.members:
        raise _no_start(recipe.init_from, f"it has {len(starts)} members, the recipe {recipe.members}")
    own = models_of(recipe.model, recipe.members)
    models = [start.model or model for start, model in zip(starts, own, strict=True)]
    advice = ",".join(dict.fromkeys(models) if len(set(models)) == 1 else models)
    for start, ours, theirs in zip(starts, own, models, strict=True):
        if theirs != ours:
            what = f"its model is {theirs!r}, the recipe's {ours!r}; --set model={advice}"
            raise _no_start(start.path, what)
        if start.run and (data := start.run.recipe.data) != recipe.data:
            raise _no_start(start.run.path, f"its data is {data!r}, the recipe's {recipe.data!r}")
    return starts


def _no_start(source: object, reason: str) -> UserError:
    return UserError(f"cannot start from {source}: {reason}")


def warnings_of(recipe: Recipe, starts: Iterable[Start]) -> list[str]:
    """How the members to start from were trained in another way than the recipe expects."""
    warnings = []
    for start in starts:
        if start.run is None:
            warnings.append(f"{start.path} does not say with which noise and method it was trained")
            continue
        theirs = start.run.recipe
        noises = [f"{recipe.noise}({recipe.sigma:g})" for recipe in (recipe, theirs)]
        for what, (own, other) in (("noise", noises), ("method", [_base(recipe), _base(theirs)])):
            if own != other:
                warnings.append(f"{start.run.path} was trained with the {what} {other}, not {own}")
    return list(dict.fromkeys(warnings))


def _starts(source: Path) -> list[Start]:
    if source.is_file() and not (source.parent.parent / "recipe.yaml").is_file():
        return [Start(source, None, None)]
    run = RunFolder(source.parent.parent if source.is_file() else source)
    run.check_trained()
    pairs = zip(run.member_paths(), models_of(run.recipe.model, run.recipe.members), strict=True)
    chosen = [Start(path, run, model) for path, model in pairs if not source.is_file() or path == source]
    Sums.read(run.path).check_files([f"members/{start.path.name}" for start in chosen])
    return chosen


def _base(recipe: Recipe) -> str:
    """The method that trains each member by itself."""
    objective = recipe.objective
    base = objective.get("base", {"name": "gaussian"}) if objective["name"] == "drt" else objective
    return str(base.get("name"))


def _state(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return load_tensors(path)[0]
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises nearly anything on a file that it did not write
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} is not a file of weights that torch.load reads safely: {reason}") from error
    content = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{path} holds no state dict: give one of `torch.save(model.state_dict(), path)`")
    return content
