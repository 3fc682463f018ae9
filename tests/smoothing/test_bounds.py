"""Bounds against scipy's exact binomial intervals and tests."""

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from shieldwall import UserError
from shieldwall.smoothing.bounds import (
    check_draws,
    clopper_pearson_lower,
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
    with pytest.raises(UserError, match="the smallest n that can is 10"):
        check_draws(100, 9, 0.001)
    check_draws(1, 10, 0.001)
    with pytest.raises(UserError, match="n0"):
        check_draws(0, 100, 0.001)
    for alpha in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(UserError, match="alpha"):
            check_draws(1, 100, alpha)
