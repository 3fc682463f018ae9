"""A diagnosis: what the theory says about trained members at one input, and about a run at many inputs.

At each input, the rival class with the largest ERI decides whether a vote's conditions hold. `plain` is about
the members without smoothing, `soft` about the soft-smoothed members. The latter are beta-smooth with
beta = 2 / sigma^2 (the paper's), or 0.484 / sigma^2, the least valid one
(`smoothness.sharp_smoothness_bound`), so the radii of `theory.conditions` follow. Members without smoothing
have no known beta, and no radii.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations

import numpy as np
import torch
from torch import Tensor, nn

from shieldwall.ensembles.ensemble import confidences
from shieldwall.ensembles.votes import default_vote_names, default_votes
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Gaussian
from shieldwall.smoothing.confidences import noisy_confidences
from shieldwall.theory.conditions import Conditions, cosines, max_margin_conditions, weighted_conditions
from shieldwall.theory.first_order import (
    FirstOrder,
    Floats,
    Labels,
    cosine,
    first_order,
    jackknife,
    max_margin_estimate,
    max_margin_radius_estimate,
    smoothed_first_order,
    weighted_estimate,
)
from shieldwall.theory.smoothness import sharp_smoothness_bound, smoothness_bound
from shieldwall.theory.strategies import PREMISES_FAIL, PairWins, pair_wins
from shieldwall.theory.transferability import Proxies, Roc, Transfer, proxies, roc
from shieldwall.vocabulary import MME, WE

EQUAL = "equal"
CONFIDENCES_PER_GRADIENT = 5
"""Samples of confidences for each sample of gradients, because a gradient costs more."""


@dataclass(frozen=True)
class VoteIndicator:
    """A vote against the rival class with its largest ERI; NaN, or -1, where the theory has no number."""

    rival: int = -1
    margin: float = math.nan
    slope: float = math.nan
    """The norm of the margin's gradient."""
    eri: float = math.nan
    eri_error: float = 0.0
    """The standard error of `eri`."""
    certified_radius: float = math.nan
    """The largest radius with the sufficient condition, for beta = 2 / sigma^2."""
    certified_radius_sharp: float = math.nan
    """The same for the least valid beta."""
    certified_radius_error: float = 0.0
    """The standard error of `certified_radius_sharp`."""
    possible_radius: float = math.nan
    """The largest radius with the necessary condition, for the least valid beta; infinite if all have it."""


@dataclass(frozen=True)
class AtInput:
    """Everything about one input; votes are `member-1`, ..., `we` and `mme`, pairs `1-2` and so on."""

    idx: int
    truth: int
    plain: Mapping[str, VoteIndicator]
    soft: Mapping[str, VoteIndicator]
    cosines: Mapping[str, float]
    """The cosines of two members' gradients against WE's rival, by pair."""
    soft_cosines: Mapping[str, float]
    pairs: Mapping[str, PairWins]
    """The corollary on smoothing before or after an ensemble, by pair."""
    proxies: Proxies
    answers: Mapping[str, int]
    """Each vote's label without noise."""
    predicted: Mapping[str, int]
    """Each smoothed vote's certified label, or ABSTAIN."""
    radii: Mapping[str, float]
    """Each smoothed vote's certified radius."""

    def radius_around_truth(self, vote: str) -> float:
        return self.radii[vote] if self.predicted[vote] == self.truth else 0.0

    @property
    def measured_winner(self) -> str:
        """Which of WE and MME has the larger certified radius around the truth, or `equal`."""
        we, mme = self.radius_around_truth(WE), self.radius_around_truth(MME)
        return EQUAL if we == mme else WE if we > mme else MME

    @property
    def predicted_winner(self) -> str:
        """Which of WE and MME the corollary predicts to have it, or `premises fail`."""
        return PREMISES_FAIL if np.isnan(self.proxies.x) else MME if self.proxies.x > 0 else WE


@dataclass(frozen=True)
class Diagnosis:
    """A run at M inputs."""

    inputs: Sequence[AtInput]
    r: float
    """The radius of ERI."""
    sigma: float
    attack: float
    """The L2 length of the attacks."""
    transfer: Transfer
    """From the members (rows) to the members, WE and MME (columns)."""
    settings: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.inputs:
            raise UserError("a diagnosis needs at least one input; none was given")

    @property
    def votes(self) -> list[str]:
        return list(self.inputs[0].plain)

    def values(self, kind: str, vote: str, name: str) -> Floats:
        """A number of a vote's indicator, `plain` or `soft`, at every input.  -> (M,)"""
        return np.array([getattr(getattr(at_input, kind)[vote], name) for at_input in self.inputs])

    def proxy(self, name: str) -> Floats:
        return np.array([getattr(at_input.proxies, name) for at_input in self.inputs])

    def radii_around_truth(self, vote: str) -> Floats:
        return np.array([at_input.radius_around_truth(vote) for at_input in self.inputs])

    def with_both_winners(self) -> list[AtInput]:
        """The inputs at which both the corollary and the certificates prefer WE or MME."""
        votes = (WE, MME)
        return [a for a in self.inputs if a.predicted_winner in votes and a.measured_winner in votes]

    @cached_property
    def curve(self) -> Roc | None:
        """fig:roc over the inputs whose radii differ; None if all of these favour one vote."""
        inputs = self.with_both_winners()
        mme = [at_input.measured_winner == MME for at_input in inputs]
        return roc([at_input.proxies.x for at_input in inputs], mme) if len(set(mme)) > 1 else None


def diagnose_input(
    members: Sequence[nn.Module],
    x: Tensor,
    truth: int,
    noise: Gaussian,
    *,
    r: float,
    draws: int,
    seed: int,
    index: int,
    predicted: Mapping[str, int],
    radii: Mapping[str, float],
) -> AtInput:
    """Diagnose one input x (C, H, W) on the members' device, given its certificates by vote.

    Args:
        r: the radius of ERI.
        draws: noise samples for the gradients of soft-smoothed members.
        seed, index: determine the noise.
    """
    y = torch.tensor([truth], device=x.device)
    plain = first_order(members, x[None], y)
    soft = smoothed_first_order(members, x[None], y, noise, draws=draws, seed=seed, indices=[index])
    noisy = noisy_confidences(
        members, x[None], noise, copies=CONFIDENCES_PER_GRADIENT * draws, seed=seed, stream="proxies",
        indices=[index], dtype=torch.float64, device=x.device,
    )[:, 0]  # fmt: skip
    indicators, soft_votes = plain_indicators(plain, r), soft_indicators(soft, r, noise.sigma)
    gradients = plain.gradients[:, 0, _column(plain, indicators[WE].rival)]
    soft_gradients = soft.gradients[:, :, 0, _column(soft, soft_votes[WE].rival)]
    pairs = {f"{i + 1}-{j + 1}": (i, j) for i, j in combinations(range(len(members)), 2)}
    with torch.no_grad():
        without_noise = confidences(members, x[None])
    return AtInput(
        idx=index,
        truth=truth,
        plain=indicators,
        soft=soft_votes,
        cosines={pair: float(cosines(gradients[i], gradients[j])) for pair, (i, j) in pairs.items()},
        soft_cosines={
            pair: float(cosine(soft_gradients[:, i], soft_gradients[:, j])) for pair, (i, j) in pairs.items()
        },
        pairs={pair: pair_wins(noisy[[i, j]], truth) for pair, (i, j) in pairs.items()},
        proxies=proxies(noisy.numpy(), truth),
        answers={vote.name: int(vote(without_noise)) for vote in default_votes(len(members))},
        predicted=predicted,
        radii=radii,
    )


def plain_indicators(plain: FirstOrder, r: float) -> dict[str, VoteIndicator]:
    """Every member, WE and MME at the one input of `first_order`; MME has an ERI of two members only."""
    members, of_run = len(plain.margins), (plain.margins, plain.gradients)
    conditions = [weighted_conditions(*of_run, weights, beta=0.0) for weights in _weights(members)]
    indicators = [_strongest_rival(of_vote, plain.rivals, r) for of_vote in conditions]
    mme = VoteIndicator()
    if members == 2:
        mme = _strongest_rival(max_margin_conditions(*of_run, beta=0.0), plain.rivals, r)
    return dict(zip(default_vote_names(members), [*indicators, mme], strict=True))


def soft_indicators(soft: FirstOrder, r: float, sigma: float) -> dict[str, VoteIndicator]:
    """The same at the one input of `smoothed_first_order`, with radii and standard errors."""
    betas = smoothness_bound(sigma), sharp_smoothness_bound(sigma)
    members = soft.margins.shape[1]
    estimators = [partial(weighted_estimate, weights=weights) for weights in _weights(members)]
    indicators = [_estimated(estimator, soft, r, betas) for estimator in estimators]
    if members == 2:
        mme = _estimated(max_margin_estimate, soft, r, betas)
    else:
        printed = max_margin_radius_estimate(soft.margins, soft.gradients, beta=betas[0])
        sharp = jackknife(partial(max_margin_radius_estimate, beta=betas[1]), soft.margins, soft.gradients)
        mme = VoteIndicator(
            certified_radius=float(printed[0]),
            certified_radius_sharp=float(sharp.value[0]),
            certified_radius_error=float(sharp.error[0]),
        )
    return dict(zip(default_vote_names(members), [*indicators, mme], strict=True))


def _estimated(
    conditions: Callable[..., Conditions], soft: FirstOrder, r: float, betas: tuple[float, float]
) -> VoteIndicator:
    printed, sharp = (conditions(soft.margins, soft.gradients, beta=beta) for beta in betas)
    strongest = int(sharp.eri(r)[0].argmax())

    def eri_and_radius(margins: Floats, gradients: Floats) -> Floats:
        left_out = conditions(margins, gradients, beta=betas[1])
        return np.array([left_out.eri(r)[0, strongest], left_out.certified_radius()[0]])

    eri_error, radius_error = jackknife(eri_and_radius, soft.margins, soft.gradients).error
    return replace(
        _strongest_rival(sharp, soft.rivals, r),
        eri_error=float(eri_error),
        certified_radius=float(printed.certified_radius()[0]),
        certified_radius_sharp=float(sharp.certified_radius()[0]),
        certified_radius_error=float(radius_error),
        possible_radius=float(sharp.possible_radius()[0]),
    )


def _strongest_rival(conditions: Conditions, rivals: Labels, r: float) -> VoteIndicator:
    eri = conditions.eri(r)[0]
    strongest = int(eri.argmax())
    # For MME the rivals are pairs of classes, the first member's varying slowest: that one is reported.
    rival = rivals[0, strongest * rivals.shape[1] // len(eri)]
    numbers = (conditions.margin[0, strongest], conditions.slope[0, strongest], eri[strongest])
    return VoteIndicator(int(rival), *map(float, numbers))


def _weights(members: int) -> list[Floats]:
    """Each member alone, then all of them equally."""
    return [*np.eye(members), np.ones(members)]


def _column(order: FirstOrder, rival: int) -> int:
    """The place of a rival class among those of the one input."""
    return int(np.flatnonzero(order.rivals[0] == rival)[0])
