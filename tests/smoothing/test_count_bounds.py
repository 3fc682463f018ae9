"""Bounds from counts: their exact coverage over all outcomes, their names, their premises."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import multinomial, norm

from shieldwall import UserError
from shieldwall.binomial import clopper_pearson_lower, clopper_pearson_upper
from shieldwall.smoothing.count_bounds import (
    Bound,
    OneSided,
    Sequential,
    TwoSided,
    count_of_class,
    parse_bound,
    sequence_lower,
)


def outcomes(n: int) -> np.ndarray:
    """Every count of n draws over three classes."""
    return np.array([(a, b, n - a - b) for a, b in product(range(n + 1), repeat=2) if a + b <= n])


def distributions() -> np.ndarray:
    """Three probabilities each, with two or three of them close, or one small, or all alike."""
    steps = np.r_[0.01, np.arange(1, 20) / 20]
    return np.array([(a, b, 1 - a - b) for a, b in product(steps, repeat=2) if a + b < 0.995])


@pytest.mark.parametrize(
    "bound", [OneSided(), TwoSided(0.5), Sequential(14), Sequential(14, 0.5, 0.1)], ids=str
)
@pytest.mark.parametrize("alpha", [0.3, 0.05])
def test_all_bounds_of_a_certificate_hold_together(bound: Bound, alpha: float) -> None:
    n = 14
    counts = outcomes(n)
    p_lower, p_upper = bound(np.zeros(len(counts), dtype=np.int64), counts, alpha)
    failures = []
    for p in distributions():
        wrong = (p_lower > p[0]) | (p_upper < p[1:].max())
        failures.append(multinomial.pmf(counts, n, p)[wrong].sum())
    assert alpha / 4 < max(failures) <= alpha


@pytest.mark.parametrize("alpha", [0.3, 0.05])
def test_two_sided_needs_no_union_however_many_rivals_there_are(alpha: float) -> None:
    """Six classes as likely as each other, beside the chosen one: all outcomes of 6 draws."""
    n, rivals = 6, 6
    counts = np.array([row for row in product(range(n + 1), repeat=rivals + 1) if sum(row) == n])
    p_lower, p_upper = TwoSided(0.9)(np.zeros(len(counts), dtype=np.int64), counts, alpha)
    for p in (0.02, 0.1, 0.14, 0.16):
        wrong = (p_lower > 1 - rivals * p) | (p_upper < p)
        assert multinomial.pmf(counts, n, [1 - rivals * p] + [p] * rivals)[wrong].sum() <= alpha


def test_one_sided_is_clopper_pearson_and_its_complement_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    counts = rng.multinomial(1_000, [0.7, 0.2, 0.1], size=50)
    chosen = rng.integers(0, 3, 50)
    p_lower, p_upper = OneSided()(chosen, counts, 0.001)
    expected = [clopper_pearson_lower(row[c], 1_000, 0.001) for row, c in zip(counts, chosen, strict=True)]
    assert p_lower.tolist() == expected
    assert p_upper.tolist() == [1.0 - p for p in p_lower.tolist()]


def test_two_sided_bounds_every_other_class() -> None:
    rng = np.random.default_rng(1)
    counts = rng.multinomial(500, [0.55, 0.2, 0.15, 0.1], size=40)
    chosen = rng.integers(0, 4, 40)
    p_lower, p_upper = TwoSided(0.2)(chosen, counts, 0.01)
    for k, (row, c) in enumerate(zip(counts, chosen, strict=True)):
        others = [clopper_pearson_upper(row[y], 500, 0.2 * 0.01) for y in range(4) if y != c]
        assert p_lower[k] == clopper_pearson_lower(row[c], 500, (1 - 0.2) * 0.01)
        assert p_upper[k] == min(1 - p_lower[k], max(others))
    assert (p_upper < 1 - p_lower).any()


@pytest.mark.parametrize("p", [[0.999, 0.001, 0.0], [0.7, 0.1, 0.2], [0.4, 0.3, 0.3]])
def test_the_two_sided_bound_is_nearly_the_better_of_both_at_all_of_alpha(p: list[float]) -> None:
    """No radius is 0.01 sigma below the one-sided one, and most of what halves of alpha gain is kept."""
    counts = np.random.default_rng(2).multinomial(10_000, p, size=200)
    chosen = np.zeros(200, np.int64)
    bounds = OneSided(), TwoSided(), TwoSided(0.5)
    both = [bound(chosen, counts, 0.001) for bound in bounds]
    one, ours, halves = (norm.ppf(low) - norm.ppf(up) for low, up in both)
    assert (ours > one - 0.02).all()
    assert (ours > halves - 0.1 * np.maximum(halves - one, 0.0) - 0.02).all()


def test_sequential_is_the_sequence_before_n_and_clopper_pearson_at_n() -> None:
    counts = np.array([[30, 10], [70, 30], [0, 100], [5, 0]])
    p_lower, p_upper = Sequential(100, 0.3, 0.2)(np.zeros(4, dtype=np.int64), counts, 0.05)
    assert p_lower[1:3] == pytest.approx(clopper_pearson_lower([70, 0], 100, 0.5 * 0.05))
    assert p_lower[0] == sequence_lower(30, 40, 0.2 * 0.05)
    assert sequence_lower(5, 5, 0.2 * 0.05) < p_lower[3] == pytest.approx((0.3 * 0.05) ** (1 / 5))
    assert p_upper.tolist() == (1 - p_lower).tolist()
    with pytest.raises(UserError, match=r"sequential\(99,0.35,0.25\) was planned for 99 samples; given: 100"):
        Sequential(99)(np.zeros(4, dtype=np.int64), counts, 0.05)
    with pytest.raises(UserError, match="at least 1"):
        Sequential(0)


@pytest.mark.parametrize("shares", [(0.35, 0.25), (0.9, 0.05), (0.0, 0.2)])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.75, 0.9, 0.99])
def test_sequential_looked_at_after_every_draw_fails_with_probability_alpha_at_most(
    p: float, shares: tuple[float, float]
) -> None:
    n, alpha = 250, 0.05
    alive, caught = np.array([1.0]), 0.0
    for t in range(1, n + 1):
        alive = np.convolve(alive, [1 - p, p])
        counts = np.stack([np.arange(t + 1), t - np.arange(t + 1)], axis=-1)
        wrong = Sequential(n, *shares)(np.zeros(t + 1, dtype=np.int64), counts, alpha)[0] > p
        caught += alive[wrong].sum()
        alive[wrong] = 0.0
    assert caught <= alpha


def test_count_of_class_any_leading_shape() -> None:
    counts = np.arange(24).reshape(2, 3, 4)
    chosen = np.array([[0, 1, 2], [3, 0, 1]])
    assert count_of_class(chosen, counts).tolist() == [[0, 5, 10], [15, 16, 21]]


@pytest.mark.parametrize(
    "text",
    [
        "one-sided",
        "two-sided(0.05)",
        "two-sided(0.5)",
        "sequential(100000,0.35,0.25)",
        "sequential(100000,0,0.2)",
    ],
)
def test_names_come_back(text: str) -> None:
    assert str(parse_bound(text)) == text


@pytest.mark.parametrize(
    "text", ["three-sided", "", "one-sided(3)", "sequential", "sequential(x)", "randomized(0.5)"]
)
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_bound(text)
    assert "\n" not in str(raised.value)
