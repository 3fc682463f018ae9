"""Uniform scores: every closed form against draws, the exact laws, and where the paper's 6 should be 12."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from uniform_sums import irwin_hall

from shieldwall.errors import UserError
from shieldwall.theory.statistical import (
    Thresholds,
    least_deviation,
    members_beyond_which_mme_wins,
    mme_bound,
    mme_bound_uniform_exact,
    mme_margin,
    mme_moments,
    single_bound_uniform,
    symmetric_tail,
    threshold_score,
    thresholds,
    uniform_scores,
    we_bound,
    we_bound_mcdiarmid,
    we_margin,
    we_moments,
)

Floats = NDArray[np.float64]
DRAWS = 200_000


def we_bound_uniform(a, b, lam, p, d_w) -> Floats:  # type: ignore[no-untyped-def]
    return we_bound(*uniform_scores(a, b), lam, p, d_w)


def mme_bound_uniform(a, b, lam, p, members) -> Floats:  # type: ignore[no-untyped-def]
    mu, s = uniform_scores(a, b)
    return mme_bound(mu, least_deviation(s, members), lam, p)


def thresholds_uniform(mu, lam2, members) -> Thresholds:  # type: ignore[no-untyped-def]
    return thresholds(mu, lam2, 1.0, least_deviation(1.0, members), members)


@pytest.mark.parametrize("members", [1, 2, 3, 10, 40])
def test_moments_against_many_draws(members: int) -> None:
    """False alarms: 1e-6 for each mean; a variance is known to 0.5%."""
    rng = np.random.default_rng(members)
    a, b, lam = 0.35, 0.85, 0.7
    weights = rng.exponential(size=members)
    scores = rng.uniform(a, b, (members, DRAWS))
    deviation = least_deviation((b - a) / np.sqrt(12), members)
    for extreme in (scores.min(0), scores.max(0)):
        assert extreme.std() == pytest.approx(deviation, rel=0.03)
    x1, x2 = we_margin(scores, lam, weights), mme_margin(scores, lam)
    mu, s = uniform_scores(a, b)
    one, two = we_moments(mu, s, lam, weights), mme_moments(mu, least_deviation(s, members), lam)
    assert one.mean == pytest.approx(((1 + lam) * (a + b) / 2 - lam) * weights.sum())
    assert two.mean == pytest.approx((1 + lam) * (a + b) - 2 * lam)
    for drawn, moments in ((x1, one), (x2, two)):
        assert abs(drawn.mean() - moments.mean) < 5 * drawn.std() / np.sqrt(DRAWS)
    assert x1.var() == pytest.approx(one.variance, rel=0.03)
    assert x2.var() <= 1.03 * two.variance
    exact = 2 / ((members + 1) * (members + 2)) * ((1 + lam) * (b - a)) ** 2
    assert x2.var() == pytest.approx(exact, rel=0.03)


def test_the_bounds_are_the_printed_ones_but_for_24() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        lam, p, members, d_w = (
            rng.uniform(0.1, 1),
            rng.uniform(0, 0.1),
            int(rng.integers(1, 50)),
            rng.uniform(),
        )
        level = 1 / (1 + 1 / lam)
        a, b = level - rng.uniform(0, 0.05), level + rng.uniform(0.06, 0.2)
        k = (b - a) / ((a + b) / 2 - level)
        c_n = 2 / (members + 1) * (2 / (members + 2) - 1 / (members + 1))
        assert single_bound_uniform(a, b, lam, p) == pytest.approx(1 - p - (level - a) / (b - a))
        assert we_bound_uniform(a, b, lam, p, d_w) == pytest.approx(1 - p - d_w * k**2 / 24)
        assert mme_bound_uniform(a, b, lam, p, members) == pytest.approx(1 - p - c_n * k**2 / 4)


def test_one_member_is_a_single_model_under_either_vote() -> None:
    """The printed 1 - p - K^2 / 12 for WE would differ from MME's bound of the very same model."""
    assert we_bound_uniform(0.4, 0.8, 0.9, 0.01, 1.0) == pytest.approx(
        mme_bound_uniform(0.4, 0.8, 0.9, 0.01, 1)
    )
    lam = np.linspace(0.0, 9.0, 50)
    np.testing.assert_allclose(
        mme_bound_uniform_exact(0.4, 0.8, lam, 0.01, 1), single_bound_uniform(0.4, 0.8, lam, 0.01), atol=1e-14
    )


@pytest.mark.parametrize("members", [1, 2, 3, 8, 15])
def test_bounds_against_the_exact_laws(members: int) -> None:
    """X1-hat <= 0 is Irwin and Hall's law, X2-hat <= 0 the closed form; both lie below every bound's tail."""
    rng = np.random.default_rng(members)
    unit = rng.random((members, DRAWS))
    a, b = 0.3, 0.7
    for lam in np.linspace(0.3, 3.0, 19):
        tau = float((threshold_score(lam) - a) / (b - a))
        exact_we = irwin_hall(members, members * tau)
        exact_mme = 1 - float(mme_bound_uniform_exact(a, b, lam, 0.0, members))
        for exact, drawn in (
            (exact_we, we_margin(a + (b - a) * unit, lam) <= 0),
            (exact_mme, mme_margin(a + (b - a) * unit, lam) <= 0),
        ):
            # Five deviations: 1e-6 for each.
            assert abs(drawn.mean() - exact) < 5 * np.sqrt(max(exact * (1 - exact), 1 / DRAWS) / DRAWS)
        if tau < 0.5:
            slack = 1e-12
            assert 1 - exact_we >= we_bound_uniform(a, b, lam, 0.0, 1 / members) - slack
            assert 1 - exact_we >= we_bound_mcdiarmid(0.5, lam, 0.0, 1 / members, b - a) - slack
            assert 1 - exact_mme >= mme_bound_uniform(a, b, lam, 0.0, members) - slack
        else:
            assert np.isnan(we_bound_uniform(a, b, lam, 0.0, 1 / members))
            assert np.isnan(mme_bound_uniform(a, b, lam, 0.0, members))


def random_cases(count: int) -> tuple[Floats, ...]:
    """a, b, lambda_1, lambda_2 and N with both premises."""
    rng = np.random.default_rng(1)
    lam1, lam2 = rng.uniform(0.05, 1.0, (2, count))
    mu = threshold_score(np.maximum(lam1, lam2)) + rng.uniform(1e-3, 0.4, count)
    half = rng.uniform(0.01, 0.2, count)
    return mu - half, mu + half, lam1, lam2, rng.integers(1, 200, count).astype(np.float64)


def test_the_comparison_under_uniform_scores_for_any_weights() -> None:
    a, b, lam1, lam2, members = random_cases(50_000)
    found, ratio = thresholds_uniform((a + b) / 2, lam2, members), lam1 / lam2
    below, above = ratio < found.we_below * (1 - 1e-9), ratio > found.mme_above * (1 + 1e-9)
    assert min(below.sum(), above.sum()) > 500
    mme = mme_bound_uniform(a, b, lam2, 0.02, members)
    for d_w in (1 / members, np.ones_like(members), np.random.default_rng(2).uniform(1 / members, 1.0)):
        we = we_bound_uniform(a, b, lam1, 0.02, d_w)
        assert (we > mme)[below].all()
        assert (mme > we)[above].all()
    equal_weights = we_bound_uniform(a, b, lam1, 0.02, 1 / members)
    assert (equal_weights > mme)[ratio < found.mme_above * (1 - 1e-9)].all()


def printed(mu: float, lam2: float, inverse_c: float) -> float:
    return (1 / (inverse_c * (mu - lam2 / (1 + lam2)) + 1 - mu) - 1) / lam2


def test_thresholds_are_the_printed_ones_but_for_12() -> None:
    for n in (1, 2, 5, 50):
        found = thresholds_uniform(0.7, 0.9, n)
        assert found.we_below == pytest.approx(printed(0.7, 0.9, (n + 1) * np.sqrt((n + 2) / (12 * n))))
        assert found.mme_above == pytest.approx(printed(0.7, 0.9, (n + 1) / n * np.sqrt((n + 2) / 12)))


def test_the_printed_comparison_fails_where_both_votes_are_one_model() -> None:
    """eq:cor2-2-uniform with 6: MME of one member would beat WE of the same one, of the same lambda."""
    assert printed(0.7, 0.9, 2 * np.sqrt(3 / 6)) < 1.0
    assert thresholds_uniform(0.7, 0.9, 1).mme_above == pytest.approx(1.0)
    assert thresholds_uniform(0.7, 0.9, 1).we_below == pytest.approx(1.0)


@pytest.mark.parametrize(("mu", "lam2"), [(0.25, 0.1), (0.6, 0.9), (0.8, 0.95), (0.95, 0.3), (0.35, 0.5)])
def test_from_some_number_of_members_mme_always_wins(mu: float, lam2: float) -> None:
    start = members_beyond_which_mme_wins(mu, lam2)
    members = np.arange(start, start + 3_000)[:, None]
    lam1 = np.concatenate([[1e-9], np.linspace(1e-3, lam2, 200)])
    a, b = mu - 0.05, mu + 0.05
    mme = mme_bound_uniform(a, b, lam2, 0.0, members)
    assert (mme > we_bound_uniform(a, b, lam1, 0.0, 1 / members)).all()
    share = lam2 / (1 + lam2) / mu
    assert start > 12 / (1 - share) ** 2 - 2 >= start - 1


def test_the_printed_half_of_that_number_is_enough_only_with_the_exact_variance() -> None:
    """mu = 1/2, t(1/3) = 1/4 and lambda_1 near 0: eq:cor2-3-uniform as printed says MME from N = 23 on."""
    mu, s, members = 0.5, 0.2 / np.sqrt(12), 23
    assert members > 6 / (1 - 0.25 / mu) ** 2 - 2 == 22
    we = we_bound(mu, s, 1e-9, 0.0, 1 / members)
    assert mme_bound(mu, least_deviation(s, members), 1 / 3, 0.0) < we
    assert members_beyond_which_mme_wins(mu, 1 / 3) == 47
    half_the_margin, exact_variance = mu - 0.25, 0.2**2 / (2 * (members + 1) * (members + 2))
    assert 1 - symmetric_tail(half_the_margin, exact_variance) > we


def test_mme_wins_among_chebyshevs_bounds_only() -> None:
    """McDiarmid's tail for WE falls exponentially in N, and is below MME's where eq:cor2-3-uniform holds."""
    a, b, lam1, lam2 = 0.4, 0.6, 0.3, 1 / 3
    members = np.array([members_beyond_which_mme_wins(0.5, lam2), 1_000])
    mme = mme_bound_uniform(a, b, lam2, 0.0, members)
    assert (mme > we_bound_uniform(a, b, lam1, 0.0, 1 / members)).all()
    assert (mme < we_bound_mcdiarmid(0.5, lam1, 0.0, 1 / members, b - a)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: we_bound_uniform(0.4, 0.4, 0.5, 0.0, 1.0), "a < b; given: a = 0.4, b = 0.4"),
        (lambda: single_bound_uniform([0.1, 0.5], 0.3, 0.5, 0.0), r"given: a = \[0.1, 0.5\], b = 0.3"),
        (lambda: mme_bound_uniform(0.1, 0.4, 0.5, 0.0, [3, 0]), "at least one member; given: 0"),
        (lambda: members_beyond_which_mme_wins(0.4, 1.0), r"mu exceeds .* = 0.5; given: mu = 0.4"),
        (lambda: members_beyond_which_mme_wins(0.0, 1.0), "given: mu = 0"),
    ],
)
def test_mistakes_are_said_in_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
