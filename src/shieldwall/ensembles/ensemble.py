"""Ensembles: members and a vote, as an ordinary module any other tool can use."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from shieldwall.ensembles import votes
from shieldwall.errors import UserError
from shieldwall.models.members import as_member_list


def confidences(members: Iterable[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
    """Softmax of every member's logits at the same inputs, in float32 or better.  -> (N, B, K)"""
    outputs = [member(x) for member in members]
    for k, logits in enumerate(outputs):
        if logits.ndim != 2 or len(logits) != len(x):
            raise UserError(
                f"member {k + 1} returns shape {tuple(logits.shape)} for {len(x)} inputs; "
                "logits (B, K) are expected"
            )
        if logits.shape != outputs[0].shape:
            raise UserError(
                f"member {k + 1} has {logits.shape[1]} classes but member 1 has {outputs[0].shape[1]}; "
                "all members must share the classes"
            )
    if outputs[0].shape[1] < 2:
        raise UserError("members return a single class; at least two are needed to vote")
    logits = torch.stack(outputs)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)


class Ensemble(nn.Module, ABC):
    """Any number of members under one vote. The argmax of the output (B, K) is the vote."""

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(as_member_list(members))
        if not self.members:
            raise UserError("an ensemble needs at least one member; none was given")

    @abstractmethod
    def scores(self, confidences: Tensor) -> Tensor:
        """(N, B, K) -> (B, K)"""

    def forward(self, x: Tensor) -> Tensor:
        first = next((weight for weight in self.parameters() if weight.is_floating_point()), x)
        return self.scores(confidences(self.members, x.to(first.dtype)))


class WeightedEnsemble(Ensemble):
    """WE: the weighted mean of the members' confidences (def:weighted-ensemble)."""

    weights: Tensor

    def __init__(self, members: Iterable[nn.Module], weights: Sequence[float] | Tensor | None = None) -> None:
        super().__init__(members)
        given = [1.0] * len(self.members) if weights is None else weights
        self.register_buffer("weights", votes.checked_weights(given, len(self.members)))

    def scores(self, confidences: Tensor) -> Tensor:
        return votes.weighted(confidences, self.weights)


class MaxMarginEnsemble(Ensemble):
    """MME: the confidences of the most confident member (def:maximum-margin-ensemble)."""

    def scores(self, confidences: Tensor) -> Tensor:
        return votes.max_margin(confidences)
