"""How counts become bounds: class A at least p_lower, every other class at most p_upper.

    P(p_A >= p_lower and p_y <= p_upper for every y != A) >= 1 - alpha

over the draws behind `counts`. Class A is chosen from other draws, so that it is fixed here. Each bound
states what its proof rests on.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from shieldwall.binomial import clopper_pearson_lower, clopper_pearson_upper
from shieldwall.errors import UserError, check_text, unknown_name
from shieldwall.results.certificates import Floats, Ints
from shieldwall.smoothing.betting import sequence_lower

_RECORDED = "one-sided, two-sided(SHARE), sequential(N,SHARE,SHARE)"


def count_of_class(chosen: Ints, counts: Ints) -> Ints:
    """How often each of the chosen classes (...,) won, from the counts (..., K)."""
    return np.asarray(np.take_along_axis(counts, np.asarray(chosen)[..., None], -1)[..., 0])


class Bound(ABC):
    """From counts to bounds that hold jointly with probability at least 1 - alpha."""

    def __call__(self, chosen: Ints, counts: Ints, alpha: float) -> tuple[Floats, Floats]:
        """p_lower (M,) and p_upper (M,) of the chosen classes (M,) from fresh counts (M, K).

        Where p_upper = 1 - p_lower, one event of probability at most alpha, p_A < p_lower, covers both
        bounds, because the probabilities of all classes sum to 1.
        """
        p_lower = self.lower(count_of_class(chosen, counts), counts.sum(-1), alpha)
        return p_lower, 1.0 - p_lower

    def lower(self, successes: Ints, trials: Ints, alpha: float) -> Floats:
        """p_lower at alpha from the successes among the trials, any shapes that broadcast."""
        return clopper_pearson_lower(successes, trials, alpha)

    @abstractmethod
    def __str__(self) -> str:
        """What a certificate file records, which `parse_bound` reads."""


@dataclass(frozen=True)
class OneSided(Bound):
    """Clopper-Pearson at alpha for class A, and 1 - p_lower for the rest.

    Rests on: the number of draws is fixed beforehand.
    """

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

    share: float = 0.05
    """s: the part of alpha for the runner-up."""

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise UserError(f"the share of alpha for the runner-up must lie in (0, 1); given: {self.share}")

    def __call__(self, chosen: Ints, counts: Ints, alpha: float) -> tuple[Floats, Floats]:
        p_lower, the_rest = super().__call__(chosen, counts, (1 - self.share) * alpha)
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
        if self.n < 1:
            raise UserError(f"n, the maximum number of samples, must be at least 1; given: {self.n}")
        if not (self.unanimous >= 0 and self.sequence > 0 and self.unanimous + self.sequence < 1):
            raise UserError(f"shares of alpha must be positive and sum to less than 1; given: {self}")

    def lower(self, successes: Ints, trials: Ints, alpha: float) -> Floats:
        if (trials > self.n).any():
            raise UserError(f"the bound {self} was planned for {self.n} samples; given: {trials.max()}")
        at_n = trials == self.n
        last = (1 - self.unanimous - self.sequence) * alpha
        at_the_end = clopper_pearson_lower(successes, trials, last) if at_n.any() else 0.0
        before = sequence_lower(successes, trials, self.sequence * alpha) if not at_n.all() else 0.0
        in_a_row = (successes == trials) & (trials > 0)
        unanimous = np.where(in_a_row, (self.unanimous * alpha) ** (1 / np.maximum(trials, 1)), 0.0)
        return np.where(at_n, at_the_end, np.maximum(before, unanimous))

    def __str__(self) -> str:
        return f"sequential({self.n},{self.unanimous:g},{self.sequence:g})"


LAST_LOOK = 1 - Sequential.unanimous - Sequential.sequence
"""The share of alpha that a sequential certificate keeps for the last look."""


def parse_bound(text: Bound | str) -> Bound:
    """The bound that a certificate file records as `text`; a bound is returned as it is."""
    if isinstance(text, Bound):
        return text
    check_text("bound", text)
    name, _, argument = text.removesuffix(")").partition("(")
    try:
        match name:
            case "one-sided" if text == name:
                return OneSided()
            case "two-sided" if text == name:
                return TwoSided()
            case "two-sided":
                return TwoSided(float(argument))
            case "sequential":
                n, *shares = argument.split(",")
                return Sequential(int(n), *map(float, shares or ("0", "0.2")))  # older files have no shares
    except ValueError as error:
        raise UserError(f"a bound is recorded as {_RECORDED}; given: {text!r}") from error
    raise unknown_name("bound", text, _RECORDED.split(", "))
