"""When to stop sampling: after a fixed number, or as soon as the requested radii are decided.

After t <= n draws, S of them for class A:

    certified at r    the `Sequential` bound of S among t gives a radius of at least r
    given up at r     P(H <= S) < futility sqrt(t / n),  H ~ Hypergeometric(n, S_r, t)

where S_r is the number of successes that certifies r at the last look, n. No rule can make a certificate
wrong: its `bound` holds at every t at once. It can lose one by giving up. If the n draws would hold S_r
successes or more, the first t hold S or fewer with probability P(H <= S) at most, whatever p is: that is
the share, at one look, of what the last look would certify and is given up nonetheless.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shieldwall.binomial import check_draws
from shieldwall.errors import check
from shieldwall.noise.distributions import Noise
from shieldwall.results.certificates import Floats, Ints
from shieldwall.smoothing.count_bounds import LAST_LOOK, Ball, Bound, OneSided, Sequential, count_of_class

FIRST_LOOK, LOOK_RATIO = 40, 1.2


class Stopping(ABC):
    """A rule that says, from the counts alone, whether an input needs more samples."""

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """The bound that stays valid under this rule."""

    @abstractmethod
    def looks(self) -> list[int]:
        """The numbers of draws, increasing, at which `is_decided` is asked; the last is the most drawn."""

    @abstractmethod
    def is_decided(self, chosen: Ints, counts: Ints) -> NDArray[np.bool_]:
        """Whether the inputs of chosen classes (...,) and counts (..., K) so far need no more draws."""


@dataclass(frozen=True)
class FixedSampleSize(Stopping):
    n: int
    bound: Bound = OneSided()  # noqa: RUF009 (frozen)

    def looks(self) -> list[int]:
        return [self.n]

    def is_decided(self, chosen: Ints, counts: Ints) -> NDArray[np.bool_]:
        return np.asarray(counts.sum(-1) >= self.n)


@dataclass(frozen=True)
class StopAtRadii(Stopping):
    """Stops when each of the radii is certified or given up. 0, clean accuracy, is always among them.

    What is decided depends on t and S only: a threshold on S for every look, found once with the very
    functions that make certificates. Radii share one lower bound, so alpha is spent once.
    """

    radii: Sequence[float]
    noise: Noise | Ball
    n: int
    alpha: float
    futility: float = 0.1
    _thresholds: dict[int, tuple[Ints, Ints]] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        check_draws(1, self.n, self.alpha, LAST_LOOK)
        check(0.0 < self.futility < 1.0, "futility must lie between 0 and 1", self.futility)
        for radius in self.radii:
            check(0 <= radius < math.inf, "radii must be finite numbers from 0 up", radius)
        object.__setattr__(self, "radii", tuple(sorted({0.0, *map(float, self.radii)})))
        self._find_thresholds(self.looks())

    @property
    def bound(self) -> Sequential:
        return Sequential(self.n)

    def looks(self) -> list[int]:
        """Numbers that grow by a fifth each, and the one at which nothing but successes is enough."""
        looks, look = {self.n, max(1, self.draws_if_sure)}, min(FIRST_LOOK, self.n)
        while look < self.n:
            looks.add(look)
            look = math.ceil(look * LOOK_RATIO)
        return sorted(looks)

    @property
    def draws_if_sure(self) -> int:
        """At which look an input that is always right is certified at the largest radius; at most n."""
        return int(_fewest(lambda draws: self._certified(draws, draws)[-1:], np.array([self.n - 1]))[0])

    def is_decided(self, chosen: Ints, counts: Ints) -> NDArray[np.bool_]:
        draws = np.asarray(counts.sum(-1))
        looks, where = np.unique(draws, return_inverse=True)
        if new := [t for t in looks.tolist() if t not in self._thresholds]:
            self._find_thresholds(new)
        thresholds = np.array([self._thresholds[t] for t in looks.tolist()])  # (looks, 2, radii)
        certifying, losing = np.moveaxis(thresholds[where.reshape(draws.shape)], -2, 0)
        successes = count_of_class(chosen, counts)[..., None]
        decided = (successes >= certifying) | (successes <= losing)
        return np.asarray(decided.all(-1) | (draws >= self.n))

    def _find_thresholds(self, looks: Sequence[int]) -> None:
        """For each t and radius, the fewest successes that certify it, and the most that lose it."""
        draws = np.repeat([[*looks, self.n]], len(self.radii), axis=0).T
        certifying = _fewest(lambda successes: self._certified(successes, draws), draws)
        for t, row in zip(looks, certifying[:-1], strict=True):
            self._thresholds[t] = row, self._losing(certifying[-1], t)

    def _losing(self, needed: Ints, t: int) -> Ints:
        """The largest s with P(H <= s) < level, H ~ Hypergeometric(n draws, `needed` successes, t drawn)."""
        from scipy.stats import hypergeom

        level = self.futility * math.sqrt(t / self.n)
        largest = np.asarray(hypergeom.ppf(level, self.n, np.minimum(needed, self.n), t)).astype(np.int64) - 1
        return np.where(needed > self.n, t, largest)

    def _certified(self, successes: Ints, draws: Ints) -> NDArray[np.bool_]:
        radius = _radius(self.noise, self.bound.lower(successes, draws, self.alpha))
        return (radius > 0) & (radius >= np.array(self.radii))


def fewest_draws(noise: Noise | Ball, radius: float, alpha: float) -> float:
    """No test at alpha certifies `radius` from fewer draws, all of one class; inf where none can.

    For Gaussian noise ln alpha / ln Phi(radius / sigma).
    """
    fewest = _fewest(lambda t: _radius(noise, alpha ** (1 / np.maximum(t, 1))) >= radius, np.array([10**12]))
    return float(fewest[0]) if fewest[0] <= 10**12 else math.inf


def _radius(noise: Noise | Ball, p: Floats) -> Floats:
    """The radius that p buys, 0 for none: the smaller one of what rounding makes of two ways to ask."""
    return np.maximum(np.minimum(noise.radius(p), noise.radius(p, 1.0 - p)), 0.0)


def _fewest(holds: Callable[[Ints], NDArray[np.bool_]], most: Ints) -> Ints:
    """The smallest count from 0 to `most` at which what then stays true holds; `most` + 1 for none."""
    below, at = np.full_like(most, -1), most + 1
    while (at - below > 1).any():
        middle = (below + at) // 2
        holds_there = (middle >= 0) & holds(np.maximum(middle, 0))
        at, below = np.where(holds_there, middle, at), np.where(holds_there, below, middle)
    return at
