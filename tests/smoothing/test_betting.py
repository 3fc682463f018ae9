"""Betting against quadrature, rational arithmetic and exact distributions of paths: no chance in it."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import betainc
from scipy.stats import binom

from shieldwall.binomial import clopper_pearson_lower
from shieldwall.smoothing.count_bounds import log_wealth, sequence_lower

COUNTS = [(0, 0), (1, 0), (0, 1), (3, 2), (40, 0), (0, 40), (31, 9), (200, 50)]


@pytest.mark.parametrize(("successes", "failures"), COUNTS)
def test_the_closed_form_is_the_mixture(successes: int, failures: int) -> None:
    for p0 in (0.05, 0.5, 0.8, 0.99):

        def wealth(u: float, p0: float = p0) -> float:
            return ((1 - u) / p0 + u) ** successes * u**failures

        expected, error = quad(wealth, 0, 1, epsabs=0, epsrel=1e-11, limit=400)
        assert error < 1e-9 * expected
        assert np.exp(log_wealth(successes, failures, p0)) == pytest.approx(expected, rel=1e-8)


def exact_wealth(successes: int, failures: int, p0: float) -> Fraction:
    """W(p0) in rational arithmetic: the integral of a polynomial."""
    p, x = Fraction(p0), 1 - Fraction(p0)
    integral = sum(
        Fraction((-1) ** j * comb(successes, j), failures + j + 1) * x ** (failures + j + 1)
        for j in range(successes + 1)
    )
    return integral / (x ** (failures + 1) * p**successes)


@pytest.mark.parametrize(("successes", "failures"), COUNTS)
def test_the_closed_form_is_accurate(successes: int, failures: int) -> None:
    for p0 in (0.05, 0.5, 0.8, 0.99):
        expected = float(exact_wealth(successes, failures, p0))
        assert np.exp(log_wealth(successes, failures, p0)) == pytest.approx(expected, rel=1e-11)


def test_a_fair_draw_leaves_wealth_as_it_is_on_average() -> None:
    s, f, p0 = np.meshgrid([0, 1, 10, 300, 20_000], [0, 1, 10, 300, 20_000], [0.2, 0.5, 0.9, 0.999])
    now = log_wealth(s, f, p0)
    after_success, after_failure = log_wealth(s + 1, f, p0) - now, log_wealth(s, f + 1, p0) - now
    expected = p0 * np.exp(after_success) + (1 - p0) * np.exp(after_failure)
    representable = betainc(f + 1, s + 1, 1 - p0) > 1e-290
    assert representable.mean() > 0.6
    np.testing.assert_allclose(expected[representable], 1.0, rtol=1e-8)
    assert (now[~representable] < 0).all()
    less_likely = (p0 - 0.1) * np.exp(after_success) + (1.1 - p0) * np.exp(after_failure)
    assert (less_likely <= 1.0 + 1e-8).all()


def test_wealth_at_the_ends() -> None:
    assert log_wealth(0, 0, 0.5) == 0.0
    assert log_wealth(5, 2, 0.0) == np.inf
    assert log_wealth(0, 3, 0.0) == pytest.approx(np.log(1 / 4))
    assert log_wealth(7, 3, 1.0) == pytest.approx(np.log(1 / 4))
    assert log_wealth(100, 100_000, 0.999) >= np.log(1 / 100_001)


def test_wealth_falls_with_p0_and_rises_with_successes() -> None:
    s = np.array([1, 5, 100, 9_000])[:, None]
    p0 = np.linspace(0.01, 0.99, 197)
    assert (np.diff(log_wealth(s, 300, p0), axis=1) <= 1e-9).all()
    assert (np.diff(log_wealth(s, 300, p0), axis=0) >= -1e-9).all()


@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.0005, 1e-9])
def test_the_bound_solves_for_the_stake_from_below(alpha: float) -> None:
    for s, f in [(1, 0), (1, 30), (7, 0), (12, 5), (60, 1), (90, 60)]:
        bound = float(sequence_lower(s, s + f, alpha))
        assert exact_wealth(s, f, bound) >= 1 / Fraction(alpha) > exact_wealth(s, f, bound * (1 + 1e-10))


@pytest.mark.parametrize("n", [1, 40, 3_000, 100_000, 10_000_000])
def test_the_bound_is_the_crossing_at_any_size(n: int) -> None:
    s = np.unique(np.r_[np.linspace(1, n, 60), n - np.array([0, 1, 2, 10])].clip(1, n).astype(int))
    for alpha in (0.05, 0.0005, 1e-12):
        bound = sequence_lower(s, n, alpha)
        log_w = log_wealth(s, n - s, bound)
        slope_times_p = np.abs(s - (n - s + 1) * bound / (1 - bound)) + 1
        excess = log_w + np.log(alpha)
        assert (excess > 0).all()
        assert (excess < 1e-14 * (1 + n * np.log1p(n)) + 1e-14 * slope_times_p).all()
        assert (np.diff(bound) > 0).all()


def test_the_bound_does_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 100_000, 300)
    s = rng.binomial(n, rng.random(300))
    together = sequence_lower(s, n, 0.001)
    alone = [float(sequence_lower(int(a), int(b), 0.001)) for a, b in zip(s, n, strict=True)]
    assert together.tolist() == alone


def test_nothing_is_said_without_successes_or_draws() -> None:
    assert sequence_lower([0, 0, 0], [0, 1, 100_000], 0.05).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("n", [1, 10, 300, 20_000])
def test_at_one_number_of_draws_clopper_pearson_is_never_below(n: int) -> None:
    s = np.unique(np.linspace(0, n, 400).astype(int))
    for alpha in (0.3, 0.0005):
        assert (sequence_lower(s, n, alpha) <= clopper_pearson_lower(s, n, alpha) + 1e-14).all()


def ever_wrong(wrong: NDArray[np.bool_], p: float) -> float:
    """The exact probability that a path of draws ever visits (t, S) with wrong[t, S]."""
    alive, caught = np.array([1.0]), 0.0
    for t in range(1, len(wrong)):
        alive = np.convolve(alive, [1 - p, p])
        caught += alive[wrong[t, : t + 1]].sum()
        alive[wrong[t, : t + 1]] = 0.0
    return float(caught)


@pytest.mark.parametrize("alpha", [0.3, 0.05])
def test_looking_after_every_draw_is_wrong_with_probability_alpha_at_most(alpha: float) -> None:
    t, s = np.meshgrid(np.arange(301), np.arange(301), indexing="ij")
    lower = sequence_lower(np.minimum(s, t), t, alpha)
    peeking = clopper_pearson_lower(np.minimum(s, t), t, alpha)
    for p in (0.1, 0.5, 0.8, 0.97, 0.999):
        assert ever_wrong(lower > p, p) <= alpha
    assert ever_wrong(lower > 0.8, 0.8) > alpha / 5
    assert ever_wrong(peeking > 0.8, 0.8) > 2 * alpha  # what the sequence is for


@pytest.mark.parametrize("p", [0.5, 0.9, 0.9938])
def test_the_price_of_looking_is_small(p: float) -> None:
    """The sequence is at most twice as far from the share as Clopper-Pearson's bound."""
    n = np.array([1_000, 10_000, 100_000])
    s = binom.median(n, p)
    assert (s / n - sequence_lower(s, n, 0.0005) < 2 * (s / n - clopper_pearson_lower(s, n, 0.0005))).all()
