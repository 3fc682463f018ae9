"""Votes: pure functions of the members' confidences.

Confidences have shape (N members, B inputs, K classes). A vote turns them into scores (B, K), and
its label is the first largest score. Ties go to the lowest class, and equal margins to the lowest
member, so that a vote is a function in the strict sense and a certificate of it is well defined.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import torch
from torch import Tensor

from shieldwall.errors import UserError, check, unknown_name
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


def default_vote_names(num_members: int) -> list[str]:
    return [vote.name for vote in default_votes(num_members)]


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
        if not isinstance(vote, Vote) and vote not in known:
            raise unknown_name("vote", vote, known)
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
