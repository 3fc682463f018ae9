"""The paper's numerical experiments (adx-subsec:3-4): certified radii from drawn scores, or from bounds.

    r = sigma Phi^-1(p_lower),    p_lower: Clopper-Pearson from k right answers in n; r = 0 if p_lower <= 1/2

`transferability` draws the scores of N members, uniform on [a, b]. The wrong classes are as strong as the
portions lambda_1 and lambda_2 allow, so WE is right where X1-hat > 0, and MME where X2-hat > 0.

`relation` draws nothing: k / n is the lower bound of the theorems for uniform scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.binomial import check_draws, clopper_pearson_lower
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Gaussian
from shieldwall.seeds import derive
from shieldwall.theory.statistical import Floats, threshold_score
from shieldwall.theory.uniform import mme_bound_uniform, single_bound_uniform, we_bound_uniform

LAMBDA_2 = 0.95


@dataclass(frozen=True)
class TransferabilityPanel:
    """One number of members; the arrays have a number for each instance."""

    members: int
    ratio: Floats
    """lambda_1 / lambda_2."""
    a: Floats
    b: Floats
    """Scores are uniform on [a, b]."""
    r_we: Floats
    r_mme: Floats

    @property
    def difference(self) -> Floats:
        """r_MME - r_WE."""
        return self.r_mme - self.r_we


@dataclass(frozen=True)
class RelationSetting:
    """Scores uniform on [a, b], and the portions lambda of WE, MME and the single model."""

    a: float
    b: float
    lam1: float
    lam2: float
    lam3: float


PAPER_SETTINGS = (
    RelationSetting(a=0.2, b=0.3, lam1=0.29, lam2=0.31, lam3=0.30),
    RelationSetting(a=0.3, b=0.4, lam1=0.48, lam2=0.50, lam3=0.49),
)


@dataclass(frozen=True)
class RelationPanel:
    """One setting; the arrays have a radius for each of N = 1, 2, ..."""

    setting: RelationSetting
    members: NDArray[np.int64]
    r_single: float
    r_we: Floats
    r_we_printed: Floats
    """From the bound of WE as the paper prints it, whose tail is twice what its proof gives."""
    r_mme: Floats

    @property
    def mme_wins_from(self) -> int | None:
        """The N from which the radius of MME stays above that of WE, or none up to the last N."""
        behind = np.flatnonzero(self.r_mme <= self.r_we)
        first = behind[-1] + 1 if len(behind) else 0
        return int(self.members[first]) if first < len(self.members) else None


def transferability(
    *,
    members: Sequence[int] = (3, 10, 20),
    instances: int = 4000,
    n: int = 100_000,
    alpha: float = 0.001,
    sigma: float = 1.0,
    seed: int = 0,
) -> list[TransferabilityPanel]:
    """fig:transferability: r_MME - r_WE against lambda_1 / lambda_2, from n samples for every instance.

    Each instance has lambda_2 = 0.95, lambda_1 uniform on [0.8, 0.95), a on [0.3, 1) and b on [a, 1). An
    instance depends on the seed and its number, not on how many there are. If every answer of both votes is
    right, for example because all of [a, b] is enough for both, the radii are equal.
    """
    check_draws(1, n, alpha)
    if instances < 1 or not members or min(members) < 1:
        raise UserError(
            f"at least one instance and one member are needed; given: {instances} instances, "
            f"members {list(members)}"
        )
    panels = []
    for count in members:
        settings, right = np.empty((3, instances)), np.empty((2, instances), dtype=np.int64)
        for k in range(instances):
            generator = np.random.default_rng(derive(seed, "transferability", count, k))
            lam1 = generator.uniform(0.8, LAMBDA_2)
            a = generator.uniform(0.3, 1.0)
            b = generator.uniform(a, 1.0)
            settings[:, k] = lam1 / LAMBDA_2, a, b
            right[:, k] = _right_answers(generator, count, n, lam1, a, b)
        panels.append(TransferabilityPanel(count, *settings, *certified_radius(right, n, alpha, sigma)))
    return panels


def relation(
    *,
    settings: Sequence[RelationSetting] = PAPER_SETTINGS,
    most_members: int = 100,
    p: float = 0.01,
    n: int = 100_000,
    alpha: float = 0.001,
    sigma: float = 1.0,
) -> list[RelationPanel]:
    """fig:relation-ensemble-robustness-params: the radii that the uniform bounds certify, against N.

    Every model is (eps, lambda, p)-confident with its own lambda, and WE has equal weights.
    """
    check_draws(1, n, alpha)
    if most_members < 1 or not settings:
        raise UserError(
            f"at least one setting and one member are needed; given: {len(settings)} settings, "
            f"up to {most_members} members"
        )
    counts = np.arange(1, most_members + 1)

    def radius(bound: Floats) -> Floats:
        return certified_radius(np.floor(n * np.nan_to_num(np.maximum(bound, 0.0))), n, alpha, sigma)

    return [
        RelationPanel(
            setting=setting,
            members=counts,
            r_single=float(radius(single_bound_uniform(setting.a, setting.b, setting.lam3, p))),
            r_we=radius(we_bound_uniform(setting.a, setting.b, setting.lam1, p, 1 / counts)),
            r_we_printed=radius(we_bound_uniform(setting.a, setting.b, setting.lam1, p, 2 / counts)),
            r_mme=radius(mme_bound_uniform(setting.a, setting.b, setting.lam2, p, counts)),
        )
        for setting in settings
    ]


def certified_radius(right: ArrayLike, n: int, alpha: float, sigma: float) -> Floats:
    """The radius from `right` answers in n (lem:rand-smooth-vanilla-certify), 0 for a bound up to 1/2."""
    return Gaussian(sigma).radius(np.maximum(clopper_pearson_lower(right, n, alpha), 0.5))


def _right_answers(
    generator: np.random.Generator, members: int, n: int, lam1: float, a: float, b: float
) -> tuple[int, int]:
    """How often X1-hat, with equal weights, and X2-hat are positive at n samples of the members' scores.

    X1-hat > 0 if the mean score exceeds t(lambda_1), X2-hat > 0 if the mean of the least and the largest
    score exceeds t(lambda_2).
    """
    t1, t2 = threshold_score(lam1), threshold_score(LAMBDA_2)
    if a > t2:
        # Every score is enough for both votes, as in most instances: there is nothing to draw.
        return n, n
    scores = generator.random((members, n), dtype=np.float32)
    scores *= b - a
    scores += a
    we = np.count_nonzero(scores.mean(0) > t1)
    mme = np.count_nonzero((scores.max(0) + scores.min(0)) / 2 > t2)
    return int(we), int(mme)
