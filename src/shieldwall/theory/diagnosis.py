"""A diagnosis: what the theory says about trained members at one input, and about a run at many inputs.

At each input, the rival class with the largest ERI decides whether a vote's conditions hold. `plain` is about
the members without smoothing, `soft` about the soft-smoothed members. The latter are beta-smooth with
beta = 2 / sigma^2 (the paper's), or 0.484 / sigma^2, the least valid one, so the radii of `theory.conditions`
follow. Members without smoothing have no known beta, and no radii.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shieldwall.ensembles.votes import confidences, default_votes
from shieldwall.noise.distributions import Gaussian
from shieldwall.smoothing.certify import noisy_confidences
from shieldwall.theory import conditions, first_order
from shieldwall.theory.conditions import Conditions, Floats, sharp_smoothness_bound, smoothness_bound
from shieldwall.theory.first_order import FirstOrder, jackknife, max_margin_radius_estimate
from shieldwall.theory.statistical import Roc, proxies, roc
from shieldwall.theory.strategies import PREMISES_FAIL, pair_wins
from shieldwall.vocabulary import MME, WE

ToConditions = Callable[..., Conditions]  #: the conditions of a vote from margins, gradients and beta
EQUAL = "equal"
CONFIDENCES_PER_GRADIENT = 5  #: samples of confidences for each of gradients, because a gradient costs more


@dataclass(frozen=True)
class VoteIndicator:
    """A vote against the rival class with its largest ERI; NaN, or -1, where the theory has no number."""

    rival: int = -1
    margin: float = math.nan
    slope: float = math.nan  #: the norm of the margin's gradient
    eri: float = math.nan
    eri_error: float = 0.0  #: the standard error of `eri`
    certified_radius: float = math.nan  #: the largest with the sufficient condition, for beta = 2 / sigma^2
    certified_radius_sharp: float = math.nan  #: the same for the least valid beta
    certified_radius_error: float = 0.0  #: the standard error of `certified_radius_sharp`
    possible_radius: float = math.nan  #: the largest with the necessary condition, for the least valid beta


@dataclass(frozen=True)
class Diagnosis:
    """A run at M inputs."""

    rows: Sequence[Mapping[str, Any]]  #: `diagnose_input` of each; votes are `member-1`, `we`, pairs `1-2`
    r: float  #: the radius of ERI
    sigma: float
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def votes(self) -> list[str]:
        return [name.removesuffix("_answer") for name in self.rows[0] if name.endswith("_answer")]

    @property
    def pairs(self) -> list[str]:
        return [name.removeprefix("verdict_") for name in self.rows[0] if name.startswith("verdict_")]

    def column(self, name: str) -> NDArray[Any]:
        """One value of every input, (M,)."""
        return np.array([row[name] for row in self.rows])

    def radii_around_truth(self, vote: str) -> Floats:
        """The certified radii around the true class, 0 where another class is certified, (M,)."""
        is_right = self.column(f"{vote}_predict") == self.column("truth")
        return np.where(is_right, self.column(f"{vote}_radius"), 0.0)

    def with_both_winners(self) -> list[Mapping[str, Any]]:
        """The inputs at which both the corollary and the certificates prefer WE or MME."""
        return [row for row in self.rows if {row["predicted_winner"], row["measured_winner"]} <= {WE, MME}]

    @cached_property
    def curve(self) -> Roc | None:
        """fig:roc over the inputs whose radii differ; None if all of these favour one vote."""
        rows = self.with_both_winners()
        mme = [row["measured_winner"] == MME for row in rows]
        return roc([row["x"] for row in rows], mme) if len(set(mme)) > 1 else None


def diagnose_input(
    members: Sequence[nn.Module], x: Tensor, truth: int, noise: Gaussian, *, r: float, draws: int, seed: int,
    index: int, predicted: Mapping[str, int], radii: Mapping[str, float],
) -> dict[str, Any]:  # fmt: skip
    """Every number about one input x (C, H, W) on the members' device, given its certificates by vote.

    `r` is the radius of ERI, `draws` the noise samples for the gradients of soft-smoothed members; seed and
    index determine the noise. Each vote has its label without noise (`answer`), its certificate, and its two
    indicators. Each pair has the cosines of its gradients against the strongest rival of WE, and the
    corollary on smoothing before or after an ensemble. Then come the proxies, and which of WE and MME has
    the larger certified radius around the truth: as measured, and as the corollary predicts.
    """
    y = torch.tensor([truth], device=x.device)
    plain = first_order.first_order(members, x[None], y)
    soft = first_order.smoothed_first_order(
        members, x[None], y, noise, draws=draws, seed=seed, indices=[index]
    )
    noisy = noisy_confidences(
        members, x[None], noise, copies=CONFIDENCES_PER_GRADIENT * draws, seed=seed, stream="proxies",
        indices=[index], dtype=torch.float64, device=x.device,
    )[:, 0]  # fmt: skip
    with torch.no_grad():
        without_noise = confidences(members, x[None])
    indicators = {"plain": plain_indicators(plain, r), "soft": soft_indicators(soft, r, noise.sigma)}
    row: dict[str, Any] = {"idx": index, "truth": truth}
    for vote in default_votes(len(members)):
        row |= {f"{vote.name}_answer": int(vote(without_noise)), f"{vote.name}_predict": predicted[vote.name]}
        row[f"{vote.name}_radius"] = radii[vote.name]
        for kind, of_votes in indicators.items():
            row |= {f"{vote.name}_{kind}_{name}": value for name, value in vars(of_votes[vote.name]).items()}
    g, soft_g = _against(plain, row["we_plain_rival"]), _against(soft, row["we_soft_rival"])
    for i, j in combinations(range(len(members)), 2):
        pair, wins = f"{i + 1}-{j + 1}", pair_wins(noisy[[i, j]], truth)
        row[f"cosine_{pair}"] = float(conditions.cosines(g[i], g[j]))
        row[f"soft_cosine_{pair}"] = float(first_order.cosine(soft_g[:, i], soft_g[:, j]))
        row |= {f"p_{i + 1}": wins.p_a, f"p_{j + 1}": wins.p_b, f"p_ab_{pair}": wins.p_ab}
        row |= {f"p_{pair}": wins.p, f"verdict_{pair}": wins.verdict}
    proxy = proxies(noisy.numpy(), truth)
    we, mme = (radii[vote] if predicted[vote] == truth else 0.0 for vote in (WE, MME))
    measured = EQUAL if we == mme else WE if we > mme else MME
    prediction = PREMISES_FAIL if math.isnan(proxy.x) else MME if proxy.x > 0 else WE
    return {**row, **vars(proxy), "x": proxy.x, "measured_winner": measured, "predicted_winner": prediction}


def plain_indicators(plain: FirstOrder, r: float) -> dict[str, VoteIndicator]:
    """Every member, WE and MME at the one input of `first_order`; MME has an ERI of two members only."""
    margins, gradients = plain.margins, plain.gradients
    votes = _by_vote(len(margins), conditions.weighted_conditions, conditions.max_margin_conditions)
    at_0 = {name: vote and vote(margins, gradients, beta=0.0) for name, vote in votes.items()}
    return {name: _at_strongest(of, plain, r) if of else VoteIndicator() for name, of in at_0.items()}


def soft_indicators(soft: FirstOrder, r: float, sigma: float) -> dict[str, VoteIndicator]:
    """The same at the one input of `smoothed_first_order`, with radii and standard errors."""
    members = soft.margins.shape[1]
    votes = _by_vote(members, first_order.weighted_estimate, first_order.max_margin_estimate)
    return {name: _estimated(vote, soft, r, sigma) for name, vote in votes.items()}


def _by_vote(
    members: int, weighted: ToConditions, max_margin: ToConditions
) -> dict[str, ToConditions | None]:
    """By vote: each member alone, all of them equally, and MME, None for more members than two."""
    weights = (*np.eye(members), np.ones(members))
    votes = [*(partial(weighted, weights=w) for w in weights), max_margin if members == 2 else None]
    return {vote.name: how for vote, how in zip(default_votes(members), votes, strict=True)}


def _estimated(vote: ToConditions | None, soft: FirstOrder, r: float, sigma: float) -> VoteIndicator:
    of_run = soft.margins, soft.gradients
    beta, least_beta = smoothness_bound(sigma), sharp_smoothness_bound(sigma)
    if vote is None:
        printed = max_margin_radius_estimate(*of_run, beta=beta)
        radius = jackknife(partial(max_margin_radius_estimate, beta=least_beta), *of_run)
        return VoteIndicator(
            certified_radius=float(printed[0]), certified_radius_sharp=float(radius.value[0]),
            certified_radius_error=float(radius.error[0]),
        )  # fmt: skip
    sharp = vote(*of_run, beta=least_beta)
    strongest = int(sharp.eri(r)[0].argmax())

    def eri_and_radius(*left: Floats) -> Floats:
        of_left = vote(*left, beta=least_beta)
        return np.array([of_left.eri(r)[0, strongest], of_left.certified_radius()[0]])

    eri_error, radius_error = jackknife(eri_and_radius, *of_run).error
    return replace(
        _at_strongest(sharp, soft, r), eri_error=float(eri_error),
        certified_radius=float(vote(*of_run, beta=beta).certified_radius()[0]),
        certified_radius_sharp=float(sharp.certified_radius()[0]),
        certified_radius_error=float(radius_error), possible_radius=float(sharp.possible_radius()[0]),
    )  # fmt: skip


def _at_strongest(of_vote: Conditions, order: FirstOrder, r: float) -> VoteIndicator:
    eri, rivals = of_vote.eri(r)[0], order.rivals[0]
    strongest = int(eri.argmax())
    # For MME the rivals are pairs of classes, the first member's varying slowest: that one is reported.
    rival = rivals[strongest * len(rivals) // len(eri)]
    numbers = (of_vote.margin[0, strongest], of_vote.slope[0, strongest], eri[strongest])
    return VoteIndicator(int(rival), *map(float, numbers))


def _against(order: FirstOrder, rival: int) -> Floats:
    return order.gradients[..., 0, int(np.flatnonzero(order.rivals[0] == rival)[0]), :]
