"""Intervals: closed forms, exact coverage by summing over all counts, and simulations."""

import math

import numpy as np
import pytest
from scipy import stats

from shieldwall.results.intervals import LEVEL, deviation, of_mean, of_mean_of_runs, of_proportion, of_runs


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


def test_over_inputs_and_seeds_by_hand() -> None:
    """7 and 10 of 10: the mean is 8.5, so the inputs' part is from the lower end of 8 to the upper of 9. For
    two seeds t is tan(0.475 pi) and s / sqrt(2) = 0.15."""
    low, high = of_runs([[7], [10]], 10)
    inputs, seeds = of_proportion([8, 9], 10), 0.15 * math.tan(0.475 * math.pi)
    assert low[0] == pytest.approx(0.85 - math.hypot(0.85 - inputs.low[0], seeds))
    assert high[0] == pytest.approx(0.85 + math.hypot(inputs.high[1] - 0.85, seeds))


def test_one_run_has_the_interval_over_inputs() -> None:
    counts, values = np.array([0, 3, 10]), np.array([0.0, 0.3, 0.5])
    assert np.array_equal(of_runs(counts[None], 10), of_proportion(counts, 10))
    assert of_mean_of_runs(values[None]) == of_mean(values)


def test_both_parts_are_inside() -> None:
    counts = np.random.default_rng(0).binomial(60, 0.9, size=(3, 500))
    low, high = of_runs(counts, 60)
    seeds = of_mean(counts / 60)
    inputs = (
        of_proportion(counts.sum(axis=0) // 3, 60).low,
        of_proportion(-(-counts.sum(axis=0) // 3), 60).high,
    )
    slack = 1e-12
    assert (low <= np.minimum(seeds.low, inputs[0]) + slack).all()
    assert (high >= np.maximum(seeds.high, inputs[1]) - slack).all()


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize(("of_inputs", "of_seeds"), [(3.0, 0.0), (2.0, 0.2), (2.0, 0.5), (0.0, 0.3)])
def test_new_seeds_and_new_inputs_are_covered(seeds: int, of_inputs: float, of_seeds: float) -> None:
    """Input i is right for seed j where m + a x_i + b y_j + z_ij > 0, all normal: with probability 0.9 for
    m = 1.2816 sqrt(a^2 + b^2 + 1). Below 0.94 where coverage is 0.95 or more is 2.9 standard deviations of
    4,000 samples or more (0.002); measured are 0.99 to 1. Student's t over seeds alone covers 0.56 to 0.93.
    """
    generator, inputs, samples = np.random.default_rng(seeds), 100, 4_000
    middle = stats.norm.ppf(0.9) * math.sqrt(of_inputs**2 + of_seeds**2 + 1)
    ease = middle + of_inputs * generator.standard_normal((samples, inputs), dtype=np.float32)
    counts = []
    for _ in range(seeds):
        luck = of_seeds * generator.standard_normal((samples, 1), dtype=np.float32)
        noise = generator.standard_normal((samples, inputs), dtype=np.float32)
        counts.append((ease + luck + noise > 0).sum(axis=1))
    low, high = of_runs(counts, inputs)
    assert ((low <= 0.9) & (high >= 0.9)).mean() > 0.94
    if of_inputs == 3:
        alone = of_mean(np.array(counts) / inputs)
        assert ((alone.low <= 0.9) & (alone.high >= 0.9)).mean() < 0.9


@pytest.mark.parametrize(("of_inputs", "of_seeds"), [(0.3, 0.0), (0.3, 0.02), (0.05, 0.1)])
def test_the_average_radius_of_new_seeds_and_inputs_is_covered(of_inputs: float, of_seeds: float) -> None:
    """Radii 1 + a x_i + b y_j + 0.1 z_ij, all normal: as above; measured are 0.95 to 0.97."""
    generator, samples = np.random.default_rng(1), 2_000
    covered = 0
    for _ in range(samples):
        shift = of_inputs * generator.standard_normal(50) + of_seeds * generator.standard_normal((3, 1))
        low, high = of_mean_of_runs(1 + shift + 0.1 * generator.standard_normal((3, 50)))
        covered += bool(low <= 1 <= high)
    assert covered > 0.935 * samples
