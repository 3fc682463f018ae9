"""How counts become bounds, and bounds a radius: class A at least p_lower, every other at most p_upper.

    P(p_A >= p_lower and p_y <= p_upper for every y != A) >= 1 - alpha

over the draws behind `counts`. Class A is chosen from other draws, so that it is fixed here. Each bound
states what its proof rests on.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.binomial import clopper_pearson_lower, clopper_pearson_upper
from shieldwall.errors import UserError, check, check_name, check_text, unknown_name
from shieldwall.noise.distributions import Noise, as_noise, parse_noise
from shieldwall.results.certificates import Floats, Ints
from shieldwall.vocabulary import NORMS

_ROUNDING = 4e-15  # the error of `log_wealth` is below this times 1 + n log n, by a factor of more than 10
_STEPS = 100
_STANDSTILL = 1e-15
_INVERSE_ORDER = dict(zip(NORMS, (1.0, 0.5, 0.0), strict=True))
_Radius = TypeVar("_Radius", float, Floats)
_RECORDED = "one-sided, two-sided(SHARE), sequential(N,SHARE,SHARE)"


def count_of_class(chosen: Ints, counts: Ints) -> Ints:
    """How often each of the chosen classes (...,) won, from the counts (..., K)."""
    return np.asarray(np.take_along_axis(counts, np.asarray(chosen)[..., None], -1)[..., 0])


class Bound(ABC):
    """From counts to bounds that hold jointly with probability at least 1 - alpha."""

    def __call__(self, chosen: Ints, counts: Ints, alpha: float, members: int = 1) -> tuple[Floats, Floats]:
        """p_lower and p_upper (...) of the chosen classes (...) from fresh counts (..., K).

        Where p_upper = 1 - p_lower, one event of probability at most alpha, p_A < p_lower, covers both
        bounds, because the probabilities of all classes sum to 1. The p_lower of several `members` hold
        jointly: each has its share of alpha.
        """
        p_lower = self.lower(count_of_class(chosen, counts), counts.sum(-1), alpha / members)
        return p_lower, 1.0 - p_lower

    def lower(self, successes: Ints, trials: Ints, alpha: float) -> Floats:
        return clopper_pearson_lower(successes, trials, alpha)

    @abstractmethod
    def __str__(self) -> str:
        """What a certificate file records, which `parse_bound` reads."""


@dataclass(frozen=True)
class OneSided(Bound):
    """Clopper-Pearson at alpha for class A, and 1 - p_lower for the rest. n is fixed beforehand."""

    def __str__(self) -> str:
        return "one-sided"


@dataclass(frozen=True)
class TwoSided(Bound):
    """Class A at (1 - s) alpha, and the other class seen most often at s alpha; both by Clopper-Pearson.

    Gives lem:rand-smooth-vanilla-certify both of its probabilities. Rests on: the number of draws is
    fixed beforehand. The runner-up is not known, but it is one class, fixed before the draws: its own upper
    bound fails with probability at most s alpha, and the class seen most often has no smaller one. So no
    union bound over the classes is needed. 1 - p_lower covers the runner-up, too. s = 0.05 costs little
    where the runner-up is of no use, and gains nearly the most where it is (docs/choosing.md).
    """

    share: float = 0.05  # s: the part of alpha for the runner-up

    def __post_init__(self) -> None:
        check(0.0 < self.share < 1.0, "the share of alpha for the runner-up must lie in (0, 1)", self.share)

    def __call__(self, chosen: Ints, counts: Ints, alpha: float, members: int = 1) -> tuple[Floats, Floats]:
        p_lower, the_rest = super().__call__(chosen, counts, (1 - self.share) * alpha, members)
        others = np.array(counts)
        np.put_along_axis(others, np.asarray(chosen)[..., None], -1, -1)
        p_upper = clopper_pearson_upper(others.max(-1), counts.sum(-1), self.share * alpha)
        return p_lower, np.minimum(the_rest, p_upper)

    def __str__(self) -> str:
        return f"two-sided({self.share:g})"


@dataclass(frozen=True)
class Sequential(Bound):
    """After t <= n draws, at shares of alpha that sum to 1, with u and q for the first two:

        all t are of class A        (u alpha)^(1 / t), if that is more than the next
        t < n                       the betting sequence at q alpha
        t = n                       Clopper-Pearson at (1 - u - q) alpha

    Rests on: n is fixed beforehand. t may depend on the draws in any way, on other votes over the same draws
    too, for each line is right at every t at once but with its share of alpha. The first: let t* be the first
    t with (u alpha)^(1 / t) > p. A wrong bound at any t takes t* draws of class A in a row from the start,
    which happen with probability p^t* < u alpha. The last look needs no help from the others: its bound
    is the largest of its share. The shares need the fewest draws of some that were tried on MNIST.
    """

    n: int
    unanimous: float = 0.35
    sequence: float = 0.25

    def __post_init__(self) -> None:
        check(self.n >= 1, "n, the maximum number of samples, must be at least 1", self.n)
        are_shares = self.unanimous >= 0 and self.sequence > 0 and self.unanimous + self.sequence < 1
        check(are_shares, "shares of alpha must be positive and sum to less than 1", self)

    def lower(self, successes: Ints, trials: Ints, alpha: float) -> Floats:
        most = np.max(trials, initial=0)
        check(most <= self.n, f"the bound {self} was planned for {self.n} samples", most)
        at_n = trials == self.n
        last = (1 - self.unanimous - self.sequence) * alpha
        at_the_end = clopper_pearson_lower(successes, trials, last) if at_n.any() else 0.0
        before = sequence_lower(successes, trials, self.sequence * alpha) if not at_n.all() else 0.0
        in_a_row = (successes == trials) & (trials > 0)
        unanimous = np.where(in_a_row, (self.unanimous * alpha) ** (1 / np.maximum(trials, 1)), 0.0)
        return np.where(at_n, at_the_end, np.maximum(before, unanimous))

    def __str__(self) -> str:
        return f"sequential({self.n},{self.unanimous:g},{self.sequence:g})"


LAST_LOOK = 1 - Sequential.unanimous - Sequential.sequence  # the share of alpha kept for the last look


def parse_bound(text: Bound | str) -> Bound:
    """The bound that a certificate file records as `text`; a bound is returned as it is."""
    if isinstance(text, Bound):
        return text
    check_text("bound", text)
    name, _, argument = text.removesuffix(")").partition("(")
    try:
        if text == "one-sided":
            return OneSided()
        if name == "two-sided":
            return TwoSided() if text == name else TwoSided(float(argument))
        if name == "sequential":
            n, *shares = argument.split(",")
            return Sequential(int(n), *map(float, shares or ("0", "0.2")))  # older files have no shares
    except ValueError as error:
        raise UserError(f"a bound is recorded as {_RECORDED}; given: {text!r}") from error
    raise unknown_name("bound", text, _RECORDED.split(", "))


def log_wealth(successes: ArrayLike, failures: ArrayLike, p0: ArrayLike) -> Floats:
    """log W(p0) of `sequence_lower`, never below that of the failures alone, E[u^F] = 1 / (F + 1).

    That floor also stands in where the incomplete beta function underflows, which is where W < 1.
    """
    from scipy.special import betainc, betaln, xlog1py, xlogy

    s = np.asarray(successes, dtype=np.float64)
    p = np.asarray(p0, dtype=np.float64)
    a = np.asarray(failures, dtype=np.float64) + 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = betainc(a, s + 1.0, 1.0 - p)
        log_tail = np.log(np.where(tail < np.finfo(np.float64).tiny, 0.0, tail))
        log_w = betaln(a, s + 1.0) + log_tail - xlog1py(a, -p) - xlogy(s, p)
    return np.asarray(np.fmax(log_w, np.log(1.0 / a)))


def sequence_lower(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """A lower bound L that is valid at all numbers of trials at once, by betting.

        W(p0) = E_u [ ((1 - u) / p0 + u)^S u^F ],  u uniform on (0, 1]

    is the value of a stake of 1 after S successes and F failures when, at every sample, the fraction 1 - u is
    bet on success at the odds 1 / p0, which are fair if p = p0. Proof of the bound below:

    1. If p <= p0, one sample multiplies the wealth of each u by u + (1 - u) p / p0 <= 1 on average, whatever
       came before. So W is a nonnegative supermartingale that starts at 1.
    2. By Ville's inequality, P(W >= 1 / alpha after any number of samples) <= alpha.
    3. W falls as p0 grows. So where L = sup {p0: W(p0) >= 1 / alpha} exceeds p, W(p) >= 1 / alpha.
    4. Hence P(L > p after any number of samples) <= alpha. So you may stop at any time, for any reason.

    With v = u (1 - p0), W is an incomplete beta function:

        W(p0) = (1 - p0)^-(F + 1) p0^-S B(F + 1, S + 1) I_(1 - p0)(F + 1, S + 1)

    log W is convex in y = log p0 (a mixture of log-convex functions), with slope
    p0 (F + 1 - 1 / W) / (1 - p0) - S. So Newton's method climbs to L from below without passing it. It aims
    above log(1 / alpha) by more than the rounding error of `log_wealth`.
    """
    from scipy.special import betaln

    k, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    f, s = n - k, np.maximum(k, 1.0)
    target = -math.log(alpha) + _ROUNDING * (1.0 + n * np.log1p(n))
    tangent_at_0 = (betaln(f + 1.0, s + 1.0) - target) / s

    def newton(y: Floats) -> Floats:
        p = np.exp(y)
        log_w = log_wealth(s, f, p)
        slope = p * (f + (1.0 - np.exp(-log_w))) / (1.0 - p) - s
        return np.asarray(np.maximum(y - (log_w - target) / slope, tangent_at_0))

    # Wilson's bound with about as many standard deviations as the sequence needs, as a start.
    z2 = 2.0 * target + np.log1p(s + f)
    wilson = (s + 0.5 * z2 - np.sqrt(z2 * (s * f / (s + f) + 0.25 * z2))) / (s + f + z2)
    y = newton(np.maximum(np.log(np.maximum(wilson, np.finfo(np.float64).tiny)), tangent_at_0))
    climbing = k > 0
    for _ in range(_STEPS):
        ahead = newton(y)
        climbing = climbing & (ahead > y + _STANDSTILL)
        if not climbing.any():
            break
        y = np.where(climbing, ahead, y)
    return np.where(k > 0, np.exp(y), 0.0)


def in_norm(radius: _Radius, native: str, wanted: str, size: int) -> _Radius:
    """The radius of the largest `wanted`-ball in the `native` ball of this radius, in `size` dimensions d:

        r_q = r_p / d^max(0, 1/p - 1/q)

    ||v||_p <= d^max(0, 1/p - 1/q) ||v||_q, by Hoelder's inequality where p < q and because norms fall with
    their order where p >= q; a vector of equal entries, or one along an axis, attains it. So the q-ball of
    radius r_q lies in the p-ball of radius r_p, and no larger one does.
    """
    for norm in (native, wanted):
        check_name("norm", norm, NORMS)
    check(size >= 1, "an input has at least one dimension", size)
    widest: float = size ** max(0.0, _INVERSE_ORDER[native] - _INVERSE_ORDER[wanted])
    return radius / widest


@dataclass(frozen=True)
class Ball:
    """The ball around an input of `size` numbers within which its class stays on top.

    p_a and p_b are bounds on the classes' probabilities under what is sampled. Under the noise itself
    they may be off by its total variation distance t from what is sampled:

        radius = noise.radius(p_a - t, p_b + t), turned into the wanted norm; 0 unless p_a - t > p_b + t
    """

    noise: Noise
    norm: str
    size: int

    @classmethod
    def of(cls, noise: Noise | str | float, norm: str | None, size: int | None) -> "Ball":
        """The ball in `norm`, by default the noise's; `size` is needed only where radii depend on it."""
        noise = parse_noise(noise) if isinstance(noise, str) else as_noise(noise)
        norm = noise.norm if norm is None else norm
        if (in_norm(1.0, noise.norm, norm, 2) != 1 or noise.total_variation(2)) and size is None:
            raise UserError(f"radii of {noise} in the norm {norm} depend on the inputs' size: give size=")
        return cls(noise, norm, 1 if size is None else size)

    def radius(self, p_a: ArrayLike, p_b: ArrayLike | None = None) -> Floats:
        distance = self.noise.total_variation(self.size)
        a = np.asarray(p_a, dtype=np.float64) - distance
        b = (1.0 - np.asarray(p_a, dtype=np.float64) if p_b is None else np.asarray(p_b)) + distance
        above = a > b
        a = np.where(above, a, 0.75)  # any probability that has a radius
        only_a = p_b is None and not distance
        native = self.noise.radius(a) if only_a else self.noise.radius(a, np.where(above, b, 0.25))
        return np.where(above, in_norm(native, self.noise.norm, self.norm, self.size), 0.0)
