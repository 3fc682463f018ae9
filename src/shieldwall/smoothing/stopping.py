"""When to stop drawing: after a fixed number, or as soon as what is asked of a certificate is known.

After t <= n draws, S of them for class A:

    certified at r    the `Sequential` bound of S among t gives a radius of at least r
    given up at r     P(H <= S) < give_up sqrt(t / n),  H ~ Hypergeometric(n, S_r, t)

where S_r is the number of successes that certifies r at the last look, n. A rule cannot make a certificate
wrong: its `bound` holds at every t at once. It can lose one by giving up, and how often is known. If the
n draws would hold S_r successes or more, then which of the draws they are is chance, and the first t hold
S or fewer with probability P(H <= S) at most, whatever p is. So that is the share, at one look, of what the
last look would certify and what is given up nonetheless; 0 where the draws that are left are too few.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.binomial import (
    check_alpha,
    clopper_pearson_lower,
    clopper_pearson_upper,
    smallest_certifying_n,
)
from shieldwall.errors import UserError
from shieldwall.smoothing.confidence import (
    LAST_LOOK,
    Bound,
    Counts,
    Floats,
    OneSided,
    Sequential,
    successes_of,
)

FIRST_LOOK = 40
LOOK_RATIO = 1.2
_ONE_SIDED = OneSided()


class HasRadius(Protocol):
    """Noise, or a ball of some norm around it."""

    def radius(self, p_a: ArrayLike, p_b: ArrayLike | None = None) -> NDArray[np.float64]: ...


class Stopping(ABC):
    """A rule that says, from the counts alone, whether an input needs more draws."""

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """The bound that stays valid under this rule."""

    @abstractmethod
    def looks(self) -> list[int]:
        """The numbers of draws at which `settled` is asked, increasing; the last is the most drawn."""

    @abstractmethod
    def settled(self, chosen: Counts, counts: Counts) -> NDArray[np.bool_]:
        """Whether the inputs of chosen classes (...,) and counts (..., K) so far need no more draws."""


@dataclass(frozen=True)
class FixedDraws(Stopping):
    """n draws, whatever they show."""

    n: int
    bound: Bound = _ONE_SIDED

    def looks(self) -> list[int]:
        return [self.n]

    def settled(self, chosen: Counts, counts: Counts) -> NDArray[np.bool_]:
        return np.asarray(counts.sum(-1) >= self.n)


@dataclass(frozen=True)
class AtRadii(Stopping):
    """Stops when each of the radii is certified or given up. 0, clean accuracy, is always among them.

    What is decided depends on t and S only, and each decision is a threshold on S: the thresholds are
    found once for every look, with the very functions that make certificates. Radii share one lower
    bound, so however many there are, alpha is spent once.
    """

    radii: Sequence[float]
    noise: HasRadius
    n: int
    alpha: float
    give_up: float = 0.1
    _thresholds: dict[int, tuple[Counts, Counts]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        _check_plan(self.n, self.alpha, self.give_up)
        if not len(self.radii):
            raise UserError("radii to decide must be given; given: none")
        for radius in self.radii:
            if not (math.isfinite(radius) and radius >= 0):
                raise UserError(f"radii must be finite numbers from 0 up; given: {radius}")
        object.__setattr__(self, "radii", tuple(sorted({0.0, *map(float, self.radii)})))
        self._find_thresholds(self.looks())

    @property
    def bound(self) -> Sequential:
        return Sequential(self.n)

    def looks(self) -> list[int]:
        return _geometric_looks(self.n)

    def settled(self, chosen: Counts, counts: Counts) -> NDArray[np.bool_]:
        draws = np.asarray(counts.sum(-1))
        numbers, where = np.unique(draws, return_inverse=True)
        self._find_thresholds([int(t) for t in numbers if int(t) not in self._thresholds])
        certifying, losing = (
            np.stack([self._thresholds[int(t)][side] for t in numbers])[where].reshape(*draws.shape, -1)
            for side in (0, 1)
        )
        successes = successes_of(chosen, counts)[..., None]
        decided = (successes >= certifying) | (successes <= losing)
        return np.asarray(decided.all(-1) | (draws >= self.n))

    def _find_thresholds(self, looks: Sequence[int]) -> None:
        """For each t and radius, the fewest successes that certify it, and the most that lose it."""
        if not looks:
            return
        draws = np.repeat([[*looks, self.n]], len(self.radii), axis=0).T
        certifying = _fewest(lambda successes: self._certified(successes, draws), draws)
        for t, row in zip(looks, certifying[:-1], strict=True):
            level = self.give_up * math.sqrt(t / self.n)
            losing = [_most_that_lose(int(needed), t, self.n, level) for needed in certifying[-1]]
            self._thresholds[t] = row, np.array(losing)

    def _certified(self, successes: Counts, draws: Counts) -> NDArray[np.bool_]:
        radius = _radius(self.noise, self.bound.lower(successes, draws, self.alpha))
        return (radius > 0) & (radius >= np.array(self.radii))


@dataclass(frozen=True)
class Within(Stopping):
    """Stops when no more draws, up to n, could raise the radius by more than `tolerance`.

    The radius now is that of the `Sequential` bound. The best to come is that of the last look at

        S_n = n S / t + sqrt(n (n - t)) (p_up - S / t)   successes, S + n - t at most,

    with p_up the Clopper-Pearson bound of S among t at the level give_up sqrt(t / n): given S_n, S / t
    spreads by sqrt(1 - t / n) of what it does given p. Radii are 0 where nothing is certified.
    """

    tolerance: float
    noise: HasRadius
    n: int
    alpha: float
    give_up: float = 0.02

    def __post_init__(self) -> None:
        _check_plan(self.n, self.alpha, self.give_up)
        if not (math.isfinite(self.tolerance) and self.tolerance > 0):
            raise UserError(f"tolerance, a part of a radius, must be positive; given: {self.tolerance}")

    @property
    def bound(self) -> Sequential:
        return Sequential(self.n)

    def looks(self) -> list[int]:
        return _geometric_looks(self.n)

    def settled(self, chosen: Counts, counts: Counts) -> NDArray[np.bool_]:
        draws = counts.sum(-1)
        successes = successes_of(chosen, counts)
        now = _radius(self.noise, self.bound.lower(successes, draws, self.alpha))
        best = _radius(
            self.noise, clopper_pearson_lower(self._most(successes, draws), self.n, LAST_LOOK * self.alpha)
        )
        return np.asarray((best - now <= self.tolerance) | (draws >= self.n))

    def _most(self, successes: Counts, draws: Counts) -> Floats:
        """The successes among n draws to be hoped for."""
        share = successes / np.maximum(draws, 1)
        upper = clopper_pearson_upper(successes, draws, self.give_up * np.sqrt(draws / self.n))
        left = np.maximum(self.n - draws, 0)
        hoped = self.n * share + np.sqrt(self.n * left) * (upper - share)
        return np.asarray(np.minimum(hoped, successes + left))


def _radius(noise: HasRadius, p: Floats) -> Floats:
    """The radius that p buys, 0 for none: the smaller one of what rounding makes of two ways to ask."""
    return np.maximum(np.minimum(noise.radius(p), noise.radius(p, 1.0 - p)), 0.0)


def _geometric_looks(n: int) -> list[int]:
    looks = [min(FIRST_LOOK, n)]
    while (following := math.ceil(looks[-1] * LOOK_RATIO)) < n:
        looks.append(following)
    return looks if looks[-1] == n else [*looks, n]


def _fewest(holds: Callable[[Counts], NDArray[np.bool_]], most: Counts) -> Counts:
    """The smallest count from 0 to `most` at which what then stays true holds; `most` + 1 for none."""
    below, at = np.full_like(most, -1), most + 1
    while (at - below > 1).any():
        middle = (below + at) // 2
        found = (middle >= 0) & holds(np.maximum(middle, 0))
        at, below = np.where(found, middle, at), np.where(found, below, middle)
    return at


def _most_that_lose(needed: int, t: int, n: int, level: float) -> int:
    """The largest s with P(H <= s) < level, H ~ Hypergeometric(n draws, `needed` successes, t drawn)."""
    from scipy.special import gammaln

    if needed > n:
        return t
    mean = t * needed / n
    reach = 12.0 * math.sqrt(mean * (1.0 - needed / n) * (n - t) / max(n - 1, 1)) + 30.0
    first = max(0, t - (n - needed), math.floor(mean - reach))
    s = np.arange(first, min(t, needed, math.ceil(mean + reach)) + 1)

    def log_choose(whole: int, part: Counts | int) -> Floats:
        return np.asarray(gammaln(whole + 1.0) - gammaln(part + 1.0) - gammaln(whole - part + 1.0))

    log_mass = log_choose(needed, s) + log_choose(n - needed, t - s) - log_choose(n, t)
    return first - 1 + int((np.exp(log_mass).cumsum() < level).sum())


def _check_plan(n: int, alpha: float, give_up: float) -> None:
    check_alpha(alpha)
    if n < (smallest := smallest_certifying_n(LAST_LOOK * alpha)):
        raise UserError(
            f"n = {n} draws cannot certify at alpha = {alpha:g}, of which the last look has {LAST_LOOK:g}; "
            f"the smallest n that can is {smallest}"
        )
    if not 0.0 < give_up < 1.0:
        raise UserError(f"give_up must lie between 0 and 1; given: {give_up}")
