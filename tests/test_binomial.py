"""Bounds against scipy's exact binomial intervals, and their exact coverage by summation: no chance in it."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import beta, binom, binomtest

from shieldwall import UserError
from shieldwall.binomial import (
    check_draws,
    clopper_pearson_lower,
    clopper_pearson_upper,
    smallest_certifying_n,
    two_sided_sign_test,
)


@pytest.mark.parametrize("alpha", [0.05, 0.001, 1e-6])
@pytest.mark.parametrize("n", [1, 10, 137, 100_000])
def test_clopper_pearson_matches_scipy(alpha: float, n: int) -> None:
    successes = sorted({0, 1, n // 3, n // 2, n - 1, n})
    expected = [
        binomtest(k, n, alternative="greater").proportion_ci(1 - alpha, method="exact").low for k in successes
    ]
    # scipy finds the interval by bisection, to about 1e-12.
    np.testing.assert_allclose(clopper_pearson_lower(successes, n, alpha), expected, rtol=0, atol=1e-11)
    exact = beta.ppf(alpha, successes[1:], n - np.array(successes[1:]) + 1)
    np.testing.assert_allclose(clopper_pearson_lower(successes[1:], n, alpha), exact, rtol=1e-9)


def test_clopper_pearson_at_the_ends() -> None:
    assert float(clopper_pearson_lower(0, 50, 0.001)) == 0.0
    assert float(clopper_pearson_lower(50, 50, 0.001)) == pytest.approx(0.001 ** (1 / 50), rel=1e-12)
    assert float(clopper_pearson_upper(50, 50, 0.001)) == 1.0
    assert float(clopper_pearson_upper(0, 50, 0.001)) == pytest.approx(1 - 0.001 ** (1 / 50), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.05, 0.001, 1e-6])
@pytest.mark.parametrize("n", [1, 10, 137, 100_000])
def test_the_upper_bound_mirrors_the_lower_one(alpha: float, n: int) -> None:
    k = np.unique([0, 1, n // 3, n // 2, n - 1, n])
    np.testing.assert_allclose(
        clopper_pearson_upper(k, n, alpha), 1 - clopper_pearson_lower(n - k, n, alpha), rtol=0, atol=1e-14
    )


@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.001])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_clopper_pearson_covers_exactly(alpha: float, n: int) -> None:
    k = np.arange(n + 1)
    p = np.linspace(0.001, 0.999, 997)[:, None]
    mass = binom.pmf(k, n, p)
    too_high = (mass * (clopper_pearson_lower(k, n, alpha) > p)).sum(1)
    too_low = (mass * (clopper_pearson_upper(k, n, alpha) < p)).sum(1)
    assert too_high.max() <= alpha
    assert too_low.max() <= alpha
    just_below = clopper_pearson_lower(k[1:], n, alpha) * (1 - 1e-9)
    np.testing.assert_allclose(binom.sf(k[1:] - 1, n, just_below), alpha, rtol=1e-5)


def exact_level(k: int, n: int, u: float, p: float) -> Fraction:
    """P(X > k) + u P(X = k) in rational arithmetic."""
    q = Fraction(p)
    terms = [comb(n, j) * q**j * (1 - q) ** (n - j) for j in range(k, n + 1)]
    return sum(terms[1:], Fraction(0)) + Fraction(u) * terms[0]


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (5, 5), (30, 10), (990, 10), (510, 490)])
def test_sign_test_matches_scipy(first: int, second: int) -> None:
    expected = binomtest(first, first + second, 0.5).pvalue if first + second else 1.0
    assert float(two_sided_sign_test(first, second)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 0.25, 0.1, 0.05, 0.001, 1e-9])
def test_smallest_n_certifies_and_one_less_does_not(alpha: float) -> None:
    n = smallest_certifying_n(alpha)
    assert float(clopper_pearson_lower(n, n, alpha)) > 0.5
    if n > 1:
        assert float(clopper_pearson_lower(n - 1, n - 1, alpha)) <= 0.5 + 1e-15


def test_draws_that_cannot_certify_are_refused() -> None:
    with pytest.raises(UserError, match="use n >= 10"):
        check_draws(100, 9, 0.001)
    check_draws(1, 10, 0.001)
    with pytest.raises(UserError, match="n0"):
        check_draws(0, 100, 0.001)
    for alpha in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(UserError, match="alpha"):
            check_draws(1, 100, alpha)
