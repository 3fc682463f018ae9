"""Votes, pure functions of the members' confidences, and ensembles, modules that carry members and a vote.

Confidences have shape (N members, B inputs, K classes). A vote turns them into scores (B, K), and its label
is the first largest score. Ties go to the lowest class, and equal margins to the lowest member, so that a
vote is a function in the strict sense and a certificate of it is well defined.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from shieldwall.errors import UserError, check, check_name, require
from shieldwall.files import load_tensors, load_weights, save_tensors, write_output
from shieldwall.models.classifier import Classifier, count_members, member_scores
from shieldwall.models.members import as_member_list
from shieldwall.models.registry import factory
from shieldwall.vocabulary import EAS, MME, WE, member_number, member_vote


def weighted(confidences: Tensor, weights: Tensor | None = None) -> Tensor:
    """WE, def:weighted-ensemble: argmax_k sum_j w_j f_j(x)_k, equal weights unless given.

    The sum is divided by that of the weights, so scores are confidences.  (N, B, K), (N,) -> (B, K)
    """
    w = confidences.new_ones(len(confidences)) if weights is None else weights.to(confidences)
    return (w[:, None, None] * confidences).sum(0) / w.sum()


class WeightedBy:
    """WE with these weights, kept on the device of the confidences: each move there makes a GPU wait."""

    def __init__(self, weights: Tensor) -> None:
        self._weights = weights

    def __call__(self, confidences: Tensor) -> Tensor:
        self._weights = self._weights.to(confidences)
        return weighted(confidences, self._weights)


def max_margin(confidences: Tensor) -> Tensor:
    """MME, def:maximum-margin-ensemble: the confidences of the member with the widest margin.

    F_c(x) with c = argmax_i f_i(x)_top - f_i(x)_runner-up.  (N, B, K) -> (B, K)
    """
    top, runner_up = confidences.topk(2, dim=-1).values.unbind(-1)
    winner = (top - runner_up).argmax(0)
    return confidences[winner, torch.arange(len(winner), device=winner.device)]


@dataclass(frozen=True)
class Vote:
    """A named vote. `scores` maps confidences (N, B, K) to scores (B, K); calling it gives labels (B,)."""

    name: str
    scores: Callable[[Tensor], Tensor]

    def __call__(self, confidences: Tensor) -> Tensor:
        return self.scores(confidences).argmax(-1)


def default_votes(num_members: int) -> list[Vote]:
    """Every single member, then WE and MME: the rows of a certification table."""
    members = [Vote(member_vote(k + 1), itemgetter(k)) for k in range(num_members)]
    return [*members, Vote(WE, weighted), Vote(MME, max_margin)]


@dataclass(frozen=True)
class VoteSet:
    """The votes that are counted, and the votes that are certified from these counts."""

    counted: tuple[Vote, ...]  # one row of counts each
    reported: tuple[str, ...]  # names of those counted, and perhaps `eas`, from the members' rows

    @property
    def member_rows(self) -> list[int]:
        """The rows of the members' own votes, by member."""
        numbers = [member_number(vote.name) for vote in self.counted]
        return [row for _, row in sorted((n, row) for row, n in enumerate(numbers) if n is not None)]


def vote_set(
    votes: Iterable[Vote | str] | None, num_members: int, tuned: Mapping[str, Sequence[float]] | None = None
) -> VoteSet:
    """Votes given as objects or by name: each member's, `we`, `mme`, `eas`, or `we-METHOD` of tuned weights.

    By default all of them; one member alone has no `eas`. Names must differ.
    """
    by_name = {vote.name: vote for vote in default_votes(num_members)}
    for method, weights in (tuned or {}).items():
        scores = WeightedBy(checked_weights(weights, num_members))
        by_name[f"{WE}-{method}"] = Vote(f"{WE}-{method}", scores)
    known = [*by_name, *([EAS] if num_members > 1 else [])]
    chosen = known if votes is None else list(votes) if isinstance(votes, Iterable) else [votes]
    counted: dict[str, Vote] = {}
    reported = []
    for vote in chosen:
        name = vote.name if isinstance(vote, Vote) else vote
        if not isinstance(vote, Vote):
            check_name("vote", vote, known)
        if name in reported or (name == EAS and isinstance(vote, Vote)):
            raise UserError(f"votes need names of their own; {name!r} is taken")
        reported.append(name)
        if name != EAS:
            counted[name] = by_name[name] if isinstance(vote, str) else vote
    if not reported:
        raise UserError(f"at least one vote is needed; choose from {', '.join(known)}")
    if EAS in reported:
        for vote in default_votes(num_members)[:num_members]:
            counted.setdefault(vote.name, vote)
    return VoteSet(tuple(counted.values()), tuple(reported))


def checked_weights(weights: Sequence[float] | Tensor, num_members: int) -> Tensor:
    """Weights as a tensor (N,), after checking that they can be weights at all."""
    try:
        tensor = torch.as_tensor(weights, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError):
        raise UserError(f"weights must be numbers, one for each member; given: {weights!r}") from None
    rule = f"{num_members} members need {num_members} weights"
    check(tensor.shape == (num_members,), rule, tensor.tolist())
    are_weights = torch.isfinite(tensor).all() and (tensor >= 0).all() and tensor.sum() > 0
    check(are_weights, "weights must be finite, not negative and not all zero", tensor.tolist())
    return tensor


_CARD = """---
library_name: shieldwall
tags: [image-classification, certified-robustness, randomized-smoothing]
---

# {folder}

A {name} of {members} members ({model}), from images in [0, 1], (B, C, H, W), to scores (B, K).

```python
import shieldwall as sw

ensemble = sw.{name}.from_pretrained("{folder}")
```
"""


class HasMarkdown(Protocol):
    def to_markdown(self) -> str: ...


def confidences(
    members: Iterable[Callable[[Tensor], Tensor]], x: Tensor, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Softmax of every member's logits at the same inputs, in this type or better.  -> (N, B, K)"""
    outputs = [scores for member in members for scores in member_scores(member, x)]
    for k, logits in enumerate(outputs, start=1):
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(x):
            given = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
            raise UserError(f"member {k} returns {given} for {len(x)} inputs; logits (B, K) are expected")
        classes, first = logits.shape[1], outputs[0].shape[1]
        if classes != first:
            raise UserError(f"member {k} has {classes} classes but member 1 has {first}; all must share them")
        check(classes >= 2, "members need at least two classes to vote", classes)
    logits = torch.stack(outputs)
    return logits.to(torch.promote_types(logits.dtype, dtype)).softmax(-1)


class Ensemble(nn.Module, ABC):
    """Any number of members under one vote. The argmax of the output (B, K) is the vote."""

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        modules = (m if isinstance(m, nn.Module) else Classifier(m) for m in as_member_list(members))
        self.members = nn.ModuleList(modules)
        if not self.members:
            raise UserError("an ensemble needs at least one member; none was given")

    @abstractmethod
    def scores(self, confidences: Tensor) -> Tensor:
        """(N, B, K) -> (B, K)"""

    def save_pretrained(
        self, folder: str | Path, *, model: str, num_classes: int, table: "HasMarkdown | None" = None
    ) -> None:
        """Write config.json, model.safetensors and README.md, a model card, for `from_pretrained`.

        `model`, a model of this package or module:function of your own, builds a member of `num_classes`
        classes. The card shows `table`, such as `sw.compare(votes, labels)`.
        """
        folder, name = Path(folder), type(self).__name__
        config = {"ensemble": name, "members": len(self.members), "model": model, "num_classes": num_classes}
        card = _CARD.format(name=name, members=len(self.members), model=model, folder=folder.name)
        card += "" if table is None else f"\n## Certified\n\n{table.to_markdown()}"
        write_output(folder / "config.json", (json.dumps(config, indent=2) + "\n").encode())
        write_output(folder / "README.md", card.encode())
        save_tensors(folder / "model.safetensors", self.state_dict())

    @staticmethod
    def from_pretrained(source: str | Path, *, members: Iterable[nn.Module] | None = None) -> "Ensemble":
        """The ensemble that `save_pretrained` wrote to a folder, or one of the Hugging Face Hub.

        `members`, where given, are built as before and take the weights.
        """
        folder = Path(source)
        if not folder.exists():
            require("hub", f"{source}: it is no folder, and an ensemble of the Hugging Face Hub")
            from huggingface_hub import snapshot_download

            folder = Path(snapshot_download(str(source)))
        try:
            config = json.loads((folder / "config.json").read_text())
            kind = {kind.__name__: kind for kind in Ensemble.__subclasses__()}[config["ensemble"]]
            count, name, num_classes = (config[key] for key in ("members", "model", "num_classes"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder} has no config.json of an ensemble of shieldwall: {error}") from None
        built = [factory(name)(num_classes) for _ in range(count)] if members is None else members
        ensemble: Ensemble = kind(built)
        load_weights(ensemble, load_tensors(folder / "model.safetensors")[0], folder / "model.safetensors")
        return ensemble.eval()

    def forward(self, x: Tensor) -> Tensor:
        first = next((weight for weight in self.parameters() if weight.is_floating_point()), x)
        return self.scores(confidences(self.members, x.to(first.dtype)))


class WeightedEnsemble(Ensemble):
    """WE: the weighted mean of the members' confidences (def:weighted-ensemble)."""

    weights: Tensor

    def __init__(self, members: Iterable[nn.Module], weights: Sequence[float] | Tensor | None = None) -> None:
        super().__init__(members)
        count = count_members(self.members)
        self.register_buffer("weights", checked_weights([1.0] * count if weights is None else weights, count))

    def scores(self, confidences: Tensor) -> Tensor:
        return weighted(confidences, self.weights)


class MaxMarginEnsemble(Ensemble):
    """MME: the confidences of the most confident member (def:maximum-margin-ensemble)."""

    def scores(self, confidences: Tensor) -> Tensor:
        return max_margin(confidences)
