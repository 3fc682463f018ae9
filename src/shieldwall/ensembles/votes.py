"""Votes: pure functions of the members' confidences, and of nothing else.

Confidences have shape (N members, B inputs, K classes). A vote turns them into scores (B, K), and
its label is the first largest score. Ties go to the lowest class, and equal margins to the lowest
member, so that a vote is a function in the strict sense and a certificate of it is well defined.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from shieldwall.errors import UserError, unknown_name
from shieldwall.vocabulary import MME, WE, member_vote


def weighted(confidences: Tensor, weights: Tensor | None = None) -> Tensor:
    """WE, def:weighted-ensemble: argmax_k sum_j w_j f_j(x)_k, equal weights unless given.

    The sum is divided by that of the weights, so that scores are confidences again.
    (N, B, K), (N,) -> (B, K)
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


def single(confidences: Tensor, member: int) -> Tensor:
    """One member alone, counted from 0.  (N, B, K) -> (B, K)"""
    return confidences[member]


def agreement(confidences: Tensor) -> Tensor:
    """The class that all members return, or nobody's: 1 for it and 0 elsewhere.  (N, B, K) -> (B, K + 1)"""
    labels = confidences.argmax(-1)
    num_classes = confidences.shape[-1]
    agreed = torch.where((labels == labels[0]).all(0), labels[0], num_classes)
    return (agreed[:, None] == torch.arange(num_classes + 1, device=agreed.device)).to(confidences)


@dataclass(frozen=True)
class Vote:
    """A named vote. `scores` maps confidences (N, B, K) to scores (B, K); calling it gives labels (B,).

    Scores (B, K + 1) make a vote that may elect nobody: label K wins for no class. Such a vote is counted,
    but is no classifier to certify.
    """

    name: str
    scores: Callable[[Tensor], Tensor]
    may_elect_nobody: bool = False

    def __call__(self, confidences: Tensor) -> Tensor:
        return self.scores(confidences).argmax(-1)


def named(name: str, num_members: int, weights: Sequence[float] | None = None) -> Vote:
    """The vote called `we`, `mme` or `member-1` to `member-N`.

    Of two members a < b alone, `mme-a-b` is the max-margin vote, and `agree-a-b` is their common class
    or nobody's.
    """
    if name == WE:
        return Vote(name, weighted if weights is None else WeightedBy(checked_weights(weights, num_members)))
    if name == MME:
        return Vote(name, max_margin)
    if match := re.fullmatch(r"member-([1-9][0-9]*)", name):
        member = int(match[1]) - 1
        if member < num_members:
            return Vote(name, lambda confidences: single(confidences, member))
    if match := re.fullmatch(r"(mme|agree)-([1-9][0-9]*)-([1-9][0-9]*)", name):
        first, second = int(match[2]) - 1, int(match[3]) - 1
        if first < second < num_members:
            pair = slice(first, second + 1, second - first)
            among = max_margin if match[1] == "mme" else agreement
            return Vote(name, lambda confidences: among(confidences[pair]), among is agreement)
    raise unknown_name("vote", name, standard_names(num_members) + pair_names(num_members))


def standard_names(num_members: int) -> list[str]:
    """Every single member, then WE and MME: the rows of a certification table."""
    return [*(member_vote(k + 1) for k in range(num_members)), WE, MME]


def pair_names(num_members: int) -> list[str]:
    """`mme-a-b` and `agree-a-b` for every pair a < b of members: what a comparison of strategies counts."""
    pairs = combinations(range(1, num_members + 1), 2)
    return [f"{kind}-{a}-{b}" for a, b in pairs for kind in ("mme", "agree")]


def standard(num_members: int, weights: Sequence[float] | None = None) -> list[Vote]:
    return [named(name, num_members, weights) for name in standard_names(num_members)]


def resolve(votes: Iterable[Vote | str] | None, num_members: int) -> list[Vote]:
    """Votes given as objects or by name, or all the standard ones; names must differ."""
    if votes is None:
        return standard(num_members)
    resolved = [vote if isinstance(vote, Vote) else named(vote, num_members) for vote in votes]
    names = [vote.name for vote in resolved]
    if not names or len(set(names)) < len(names):
        raise UserError(f"votes need distinct names, and at least one of them; given: {names}")
    return resolved


def checked_weights(weights: Sequence[float] | Tensor, num_members: int) -> Tensor:
    """Weights as a tensor (N,), after checking that they can be weights at all."""
    tensor = torch.as_tensor(weights, dtype=torch.float32)
    if tensor.shape != (num_members,):
        raise UserError(f"{num_members} members need {num_members} weights; given: {tensor.tolist()}")
    if not bool(torch.isfinite(tensor).all()) or bool((tensor < 0).any()) or not bool(tensor.sum() > 0):
        raise UserError(f"weights must be finite, not negative and not all zero; given: {tensor.tolist()}")
    return tensor
