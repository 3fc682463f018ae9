"""Ensembles: members and a vote, as an ordinary module any other tool can use."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from shieldwall.ensembles import votes
from shieldwall.errors import UserError, require
from shieldwall.files import load_tensors, load_weights, save_tensors, write_output
from shieldwall.models.classifier import Classifier, count_members, member_scores
from shieldwall.models.members import as_member_list
from shieldwall.models.registry import factory

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
            numbers = f"member {k} has {classes} classes but member 1 has {first}"
            raise UserError(f"{numbers}; all members must share the classes")
        if classes < 2:
            raise UserError("members return a single class; at least two are needed to vote")
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
        given = [1.0] * count if weights is None else weights
        self.register_buffer("weights", votes.checked_weights(given, count))

    def scores(self, confidences: Tensor) -> Tensor:
        return votes.weighted(confidences, self.weights)


class MaxMarginEnsemble(Ensemble):
    """MME: the confidences of the most confident member (def:maximum-margin-ensemble)."""

    def scores(self, confidences: Tensor) -> Tensor:
        return votes.max_margin(confidences)
