"""Stopping rules: exact error of the whole rule, decisions against brute force, what giving up costs."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom, norm

from shieldwall import UserError
from shieldwall.binomial import clopper_pearson_lower
from shieldwall.noise.distributions import Gaussian, Laplace, Noise, Uniform
from shieldwall.smoothing.count_bounds import LAST_LOOK, OneSided, Sequential, TwoSided
from shieldwall.smoothing.stopping import FixedSampleSize, StopAtRadii, Stopping

RADII = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
ALPHA = 0.05


def two_classes(successes: NDArray[np.int64], draws: int) -> NDArray[np.int64]:
    return np.stack([successes, draws - successes], axis=-1)


def is_decided(rule: Stopping, successes: NDArray[np.int64], draws: int) -> NDArray[np.bool_]:
    return rule.is_decided(np.zeros(successes.shape, dtype=np.int64), two_classes(successes, draws))


def p_lower(rule: Stopping, successes: NDArray[np.int64], draws: int, alpha: float) -> NDArray[np.float64]:
    return rule.bound(np.zeros(successes.shape, dtype=np.int64), two_classes(successes, draws), alpha)[0]


def radii_of(noise: Noise, p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(p > 0.5, noise.radius(np.maximum(p, 0.5)), 0.0)


RULES: dict[str, Stopping] = {
    "radii": StopAtRadii(RADII, Gaussian(1.0), 2_000, ALPHA),
    "one radius": StopAtRadii([0.5], Gaussian(1.0), 2_000, ALPHA),
    "eager to give up": StopAtRadii(RADII, Gaussian(1.0), 2_000, ALPHA, futility=0.9),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_and_its_bound_are_wrong_with_probability_alpha_at_most(name: str) -> None:
    """Exact, by the distribution of the successes at every look, for p at the radii and between them."""
    rule, at_radii = RULES[name], norm.cdf(RADII)
    looks = [
        (t, is_decided(rule, np.arange(t + 1), t), p_lower(rule, np.arange(t + 1), t, ALPHA))
        for t in rule.looks()
    ]
    for p in [*at_radii, *(at_radii + 1e-3), *(at_radii - 1e-3), 0.3, 0.77, 0.99, 0.999]:
        alive, drawn, wrong, stopped = np.array([1.0]), 0, 0.0, 0.0
        for t, stop, bound in looks:
            alive = np.convolve(alive, binom.pmf(np.arange(t - drawn + 1), t - drawn, p))
            drawn = t
            wrong += alive[stop & (bound > p)].sum()
            stopped += alive[stop].sum()
            alive[stop] = 0.0
        assert stopped == pytest.approx(1.0, abs=1e-9)
        assert wrong <= ALPHA


def simulated(rule: Stopping, p: NDArray[np.float64], seed: int) -> Sequence[NDArray[np.int64]]:
    """Where independent paths stop: successes and draws there, and successes after all n draws."""
    rng = np.random.default_rng(seed)
    s, drawn = np.zeros(p.shape, dtype=np.int64), 0
    at_stop, draws = np.zeros_like(s), np.zeros_like(s)
    for t in rule.looks():
        s = s + rng.binomial(t - drawn, p)
        drawn = t
        stop = is_decided(rule, s, t) & (draws == 0)
        at_stop, draws = np.where(stop, s, at_stop), np.where(stop, t, draws)
    return at_stop, draws, s


def test_votes_over_the_same_draws_that_wait_for_each_other_stay_valid() -> None:
    """Two votes agree on most draws, and stop together when both are decided: 4,000 runs.

    Each is wrong with probability at most alpha = 0.05, so in 4,000 runs more than 275 times with
    probability below 1e-7.
    """
    runs, p = 4_000, np.array([0.70, 0.75, 0.05])  # first vote right, second right, only the second
    rule = StopAtRadii([0.0, 0.5, 0.7], Gaussian(1.0), 2_000, ALPHA)
    rng = np.random.default_rng(0)
    both, one = p[1] - p[2], p[0] - (p[1] - p[2])
    shares = [both, one, p[2], 1 - both - one - p[2]]
    cells, drawn = np.zeros((runs, 4), dtype=np.int64), 0
    bounds, waiting = np.zeros((runs, 2)), np.ones(runs, dtype=bool)
    for t in rule.looks():
        cells += rng.multinomial(t - drawn, shares, size=runs)
        drawn = t
        right = np.stack([cells[:, 0] + cells[:, 1], cells[:, 0] + cells[:, 2]], axis=1)
        stop = waiting & is_decided(rule, right, t).all(-1)
        for vote in range(2):
            bounds[stop, vote] = p_lower(rule, right[stop, vote], t, ALPHA)
        waiting &= ~stop
    assert not waiting.any()
    assert binom.sf(275, runs, ALPHA) < 1e-7
    assert ((bounds > p[:2]).sum(0) <= 275).all()


@pytest.mark.parametrize("noise", [Gaussian(1.0), Gaussian(0.25), Laplace(0.7), Uniform(1.0)], ids=str)
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_every_decision_is_the_one_of_the_certificate(noise: Noise, alpha: float) -> None:
    """All (t, S) against the certificate's own radius, to the last bit, and scipy's hypergeometric."""
    n, futility = 700, 0.1
    rule = StopAtRadii(RADII, noise, n, alpha, futility)
    final = radii_of(noise, clopper_pearson_lower(np.arange(n + 1), n, LAST_LOOK * alpha))
    assert rule.looks()[-1] == n
    for t in [*rule.looks(), 77]:
        s = np.arange(t + 1)
        radius = radii_of(noise, p_lower(rule, s, t, alpha))
        decided = np.ones(t + 1, dtype=bool)
        for r in RADII:
            certifying = np.flatnonzero((final > 0) & (final >= r))
            given_up = np.ones(t + 1, dtype=bool)
            if len(certifying):
                given_up = hypergeom.cdf(s, n, certifying[0], t) < futility * np.sqrt(t / n)
            decided &= ((radius > 0) & (radius >= r)) | given_up
        assert (is_decided(rule, s, t) == (decided | (t == n))).all()


def test_what_was_decided_as_certified_comes_out_with_that_radius() -> None:
    """At n = 100,000 and every look: the fewest successes that settle a sure input."""
    noise = Gaussian(0.5)
    rule = StopAtRadii([1.0], noise, 100_000, 0.001)
    for t in rule.looks()[:-1]:
        s = np.arange(t, max(0, t - 2_000), -1)
        sure = is_decided(rule, s, t)
        if sure[0]:
            fewest = s[: sure.argmin() if not sure.all() else len(s)].min()
            p = p_lower(rule, np.array([fewest]), t, 0.001)
            assert noise.radius(p)[0] >= 1.0
            assert noise.radius(p, 1.0 - p)[0] >= 1.0


def test_giving_up_loses_little_and_spares_much() -> None:
    """2,000 paths at n = 100,000, Phi^-1(p) spread over [-1, 4.5].

    Of the 22,000 decisions about 12 come out as lost against n draws, by a simulation of 60,000 paths. More
    than 66 would have a probability below 1e-6, even if they came in threes; so would draws 9 standard
    deviations above their mean, or p < 0.35 looking like 1/2 after 1,000 draws.
    """
    noise, radii, n, alpha = Gaussian(1.0), np.arange(11) / 4, 100_000, 0.001
    rule = StopAtRadii(radii.tolist(), noise, n, alpha)
    p = norm.cdf(np.linspace(-1, 4.5, 2_000))
    s, draws, s_at_n = simulated(rule, p, seed=1)
    bound = rule.bound(np.zeros(len(s), dtype=np.int64), np.stack([s, draws - s], axis=-1), alpha)[0]
    found = radii_of(noise, bound)
    fixed = radii_of(noise, clopper_pearson_lower(s_at_n, n, alpha))
    lost = [((fixed > 0) & (fixed >= r)).mean() - ((found > 0) & (found >= r)).mean() for r in radii]
    assert np.mean(lost) < 0.003
    assert draws.mean() < 0.15 * n
    assert draws[p < 0.35].max() < 1_000  # abstentions stop early


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_inputs_are_settled_each_for_itself(rule: Stopping) -> None:
    rng = np.random.default_rng(3)
    draws = rng.choice(rule.looks(), size=(6, 5))
    counts = np.stack([rng.multinomial(t, [0.75, 0.15, 0.1]) for t in draws.ravel()]).reshape(6, 5, 3)
    chosen = rng.integers(0, 3, (6, 5))
    together = rule.is_decided(chosen, counts)
    assert together.shape == (6, 5)
    for i, j in np.ndindex(6, 5):
        assert rule.is_decided(chosen[i, j], counts[i, j]) == together[i, j]
    assert together[draws == 2_000].all()


@pytest.mark.parametrize("n", [12, 39, 40, 41, 1_000, 100_000])
def test_looks_grow_to_n(n: int) -> None:
    rule = StopAtRadii([0.5], Gaussian(1.0), n, 0.001)
    looks = rule.looks()
    assert looks[0] == min(22, n)  # where 0.35 alpha is enough for radius 0.5
    assert looks[-1] == n
    assert (np.diff(looks) > 0).all()
    assert all(later <= 1.2 * sooner + 1 for sooner, later in pairwise(look for look in looks if look >= 40))
    assert str(rule.bound) == f"sequential({n},0.35,0.25)"


def test_fixed_draws() -> None:
    rule = FixedSampleSize(500)
    assert rule.looks() == [500]
    assert rule.bound == OneSided()
    assert FixedSampleSize(500, TwoSided()).bound == TwoSided()
    assert is_decided(rule, np.array([10, 400]), 499).tolist() == [False, False]
    assert is_decided(rule, np.array([10, 400]), 500).tolist() == [True, True]


def test_radius_0_is_always_decided() -> None:
    """At r = 2 alone, an input of p = 0.7 would be given up at once; whether p > 1/2 takes longer."""
    rule = StopAtRadii([2.0], Gaussian(1.0), 100_000, 0.001)
    assert rule.radii == (0.0, 2.0)
    assert not is_decided(rule, np.array([28]), 40)[0]
    assert is_decided(rule, np.array([700]), 1_000)[0]
    assert rule.bound == Sequential(100_000)


@pytest.mark.parametrize("radius", [0.25, 1.0, 2.0, 3.0, 3.5])
def test_an_input_that_is_always_right_takes_at_most_1_2_times_what_any_test_needs(radius: float) -> None:
    """No test at alpha certifies `radius` from fewer than ln alpha / ln Phi(radius) successes in a row."""
    rule, floor = StopAtRadii([radius], Gaussian(1.0), 100_000, 0.001), np.log(0.001) / norm.logcdf(radius)
    stops = [t for t in rule.looks() if is_decided(rule, np.array([t]), t)[0]]
    assert floor <= stops[0] <= 1.2 * np.ceil(floor)
    assert not is_decided(rule, np.array([stops[0] - 2]), stops[0] - 1)[0]


def test_radii_out_of_reach_are_given_up_at_once() -> None:
    rule = StopAtRadii([50.0], Gaussian(1.0), 1_000, 0.001)
    assert is_decided(rule, np.array([40]), 40)[0]


@pytest.mark.parametrize(
    ("radii", "said"),
    [
        ([0.5, -0.25], "given: -0.25"),
        ([float("nan")], "given: nan"),
        ([float("inf")], "given: inf"),
    ],
)
def test_radii_that_make_no_sense_are_refused(radii: list[float], said: str) -> None:
    with pytest.raises(UserError, match=said):
        StopAtRadii(radii, Gaussian(1.0), 1_000, 0.001)


def test_plans_that_cannot_certify_are_refused() -> None:
    with pytest.raises(UserError, match=r"n = 10 is too few samples .* use n >= 12"):
        StopAtRadii([0.5], Gaussian(1.0), 10, 0.001)
    with pytest.raises(UserError, match="alpha"):
        StopAtRadii([0.5], Gaussian(1.0), 1_000, 1.0)
    for futility in (0.0, 1.0, float("nan")):
        with pytest.raises(UserError, match="futility"):
            StopAtRadii([0.5], Gaussian(1.0), 1_000, 0.001, futility=futility)
