"""Intervals: closed forms, exact coverage by summing over all counts, and simulations."""

import math

import numpy as np
import pytest
from scipy import stats

from shieldwall.report.intervals import LEVEL, deviation, of_mean, of_proportion


@pytest.mark.parametrize("n", [1, 7, 360, 10_000])
def test_none_and_all_in_closed_form(n: int) -> None:
    """P(no success) = (1 - p)^n = 0.025 at the upper end, and the mirror image of it."""
    low, high = of_proportion([0, n], n)
    end = 1 - 0.025 ** (1 / n)
    assert low.tolist() == [0.0, pytest.approx(1 - end)]
    assert high.tolist() == [pytest.approx(end), 1.0]


def test_the_ends_leave_a_fortieth_on_either_side() -> None:
    """At the lower end P(X >= k) = 0.025, at the upper P(X <= k) = 0.025."""
    n = 50
    k = np.arange(1, n)
    low, high = of_proportion(k, n)
    assert stats.binom.sf(k - 1, n, low) == pytest.approx(np.full(n - 1, 0.025))
    assert stats.binom.cdf(k, n, high) == pytest.approx(np.full(n - 1, 0.025))


@pytest.mark.parametrize("level", [LEVEL, 1 - 0.05 / 3])
@pytest.mark.parametrize("n", [5, 30, 360])
def test_a_proportion_is_covered_whatever_it_is(n: int, level: float) -> None:
    """The coverage at p is the sum of P(X = k) over the k whose interval holds p: at least the level."""
    k = np.arange(n + 1)
    low, high = of_proportion(k, n, level)
    for p in np.linspace(0, 1, 501):
        assert stats.binom.pmf(k, n, p)[(low <= p) & (p <= high)].sum() >= level - 1e-12


def test_a_mean_by_hand() -> None:
    """1, 2 and 6: mean 3, s^2 = (4 + 1 + 9) / 2 = 7. The q quantile of Student's t with 2 degrees of freedom
    is (2 q - 1) / sqrt(2 q (1 - q)): 0.95 / sqrt(2 * 0.975 * 0.025) for q = 0.975."""
    t = 0.95 / math.sqrt(2 * 0.975 * 0.025)
    low, high = of_mean(np.array([1.0, 2.0, 6.0]))
    half = t * math.sqrt(7) / math.sqrt(3)
    assert (float(low), float(high)) == (pytest.approx(3 - half), pytest.approx(3 + half))
    assert float(deviation(np.array([1.0, 2.0, 6.0]))) == pytest.approx(math.sqrt(7))


def test_the_mean_is_over_the_first_axis() -> None:
    both = of_mean(np.array([[1.0, 5.0], [2.0, 5.0], [6.0, 5.0]]))
    assert both.low.shape == (2,)
    assert both.low[0] == of_mean(np.array([1.0, 2.0, 6.0])).low
    assert (both.low[1], both.high[1]) == (5.0, 5.0)


def test_one_value_has_no_interval() -> None:
    low, high = of_mean(np.array([0.5]))
    assert np.isnan(low)
    assert np.isnan(high)


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_a_mean_of_normal_values_is_covered_as_promised(seeds: int) -> None:
    """Coverage is 0.95 exactly, so of 20,000 samples 19,000 +- 31: outside 5 standard deviations (6e-7)
    something is wrong."""
    samples = np.random.default_rng(seeds).normal(0.7, 0.02, size=(seeds, 20_000))
    low, high = of_mean(samples)
    covered = int(((low <= 0.7) & (high >= 0.7)).sum())
    assert abs(covered - 19_000) < 5 * math.sqrt(20_000 * 0.95 * 0.05)


def test_the_average_radius_of_many_inputs_is_covered() -> None:
    """Radii as of a certified classifier: 15% are 0, the others uniform on [0, 0.8], a mean of 0.34. At 360
    inputs the t interval covers it with about 0.95; below 0.94 would be 4.6 standard deviations of 10,000
    samples (2e-6)."""
    generator = np.random.default_rng(0)
    radii = generator.uniform(0, 0.8, size=(360, 10_000)) * (generator.random((360, 10_000)) > 0.15)
    low, high = of_mean(radii)
    assert ((low <= 0.34) & (high >= 0.34)).mean() > 0.94
