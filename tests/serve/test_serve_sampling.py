"""What the page certifies, against closed forms, quadrature and `shieldwall.certify`."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import beta, norm
from serve_tools import DISTANCE, GREY, SHAPE, SIGMA, IsBright, linear_offer

import shieldwall as sw
from shieldwall.ensembles.votes import vote_by_name
from shieldwall.serve.sampling import Sampling, Standing
from shieldwall.smoothing.sampler import FIRST_VIEW

ALPHA = 0.001
N = 3_000


def sampling(grey: int = GREY, n: int = N, seed: int = 7, batch_size: int = 256) -> Sampling:
    run = linear_offer(batch_size=batch_size).runs[0]
    return Sampling(run, "member-1", torch.full(SHAPE, grey / 255), n, seed, torch.device("cpu"))


@pytest.fixture(scope="module")
def standings() -> list[Standing]:
    return list(sampling().turns())


def test_draws_rise_to_n_and_counts_add_up_to_them(standings: list[Standing]):
    draws = [one.draws for one in standings]
    assert draws == sorted(set(draws))
    assert draws[-1] == N
    assert all(sum(one.counts) == one.draws for one in standings)
    for before, after in pairwise(standings):
        assert all(a >= b for a, b in zip(after.counts, before.counts, strict=True))


def test_the_last_radius_is_that_of_clopper_and_pearson_at_four_fifths_of_alpha(standings: list[Standing]):
    last = standings[-1]
    p_lower = beta.ppf(0.8 * ALPHA, last.counts[1], N - last.counts[1] + 1)
    assert (last.chosen, last.label) == (1, 1)
    assert last.p_lower == pytest.approx(p_lower, rel=1e-9)
    assert last.radius == pytest.approx(SIGMA * norm.ppf(p_lower), rel=1e-9)


def test_before_that_the_bound_is_where_the_wealth_of_a_bet_is_five_over_alpha(standings: list[Standing]):
    """W(p) = E_u [((1 - u) / p + u)^S u^F], u uniform, integrated numerically at p = p_lower."""
    one = next(one for one in standings if 60 < one.draws < 600)
    won, lost = one.counts[1], one.counts[0]

    def logarithm(u: float) -> float:
        return won * math.log((1 - u) / one.p_lower + u) + lost * math.log(u)

    highest = max(logarithm(k / 1_000) for k in range(1, 1_000))
    wealth = quad(lambda u: math.exp(logarithm(u) - highest), 1e-12, 1, limit=500)[0]
    assert highest + math.log(wealth) == pytest.approx(math.log(5 / ALPHA), abs=1e-6)


def test_no_radius_exceeds_the_exact_one_or_the_limit(standings: list[Standing]):
    """False alarms: 0.001 before the seed was fixed."""
    limit = SIGMA * norm.ppf((0.8 * ALPHA) ** (1 / N))
    assert sampling().limit == pytest.approx(limit, rel=1e-9)
    assert max(one.radius for one in standings) < min(DISTANCE, limit)
    assert standings[-1].radius > 0.65


@pytest.mark.parametrize("batch_size", [64, 256, 1_000])
def test_the_draws_are_those_that_certify_makes_whatever_the_batches(batch_size: int):
    x = torch.full((1, *SHAPE), GREY / 255)
    found = sw.certify(IsBright(), x, noise=sw.Gaussian(SIGMA), n0=50, n=N, alpha=ALPHA, seed=7)
    last = list(sampling(batch_size=batch_size).turns())[-1]
    assert last.counts == found.counts[0].tolist()
    assert 0.0 <= found.radii.item() - last.radius < 0.01  # a fifth of alpha paid for looking on the way


def test_the_noisy_copies_shown_are_the_first_draws():
    one = sampling(grey=128)
    noisy, labels = one.first_draws(8)
    choosing = next(one.turns())
    assert noisy.shape == (8, *SHAPE)
    assert labels == [[int(copy.mean() > 0.5)] for copy in noisy]
    again, _ = sampling(grey=128).first_draws(8)
    other, _ = sampling(grey=128, seed=8).first_draws(8)
    assert torch.equal(noisy, again)
    assert not torch.equal(noisy, other)
    assert choosing.draws <= FIRST_VIEW  # showing them spent none


def eas_sampling(*thresholds: float) -> Sampling:
    """Ensemble-after-smoothing of members that differ in what they call bright."""
    members = [IsBright(threshold=one) for one in thresholds]
    votes = [vote_by_name(f"member-{k + 1}", len(members)) for k in range(len(members))]
    run = replace(linear_offer().runs[0], members=members, votes={"eas": votes})
    return Sampling(run, "eas", torch.full(SHAPE, GREY / 255), N, 7, torch.device("cpu"))


def test_after_smoothing_the_radius_is_that_of_the_surest_and_the_least_sure_member():
    """sigma/2 (Phi^-1(max L_i) + Phi^-1(min L_i)), L_i Clopper and Pearson's at four fifths of alpha / 2."""
    thresholds = 0.5, 0.55
    sampled = eas_sampling(*thresholds)
    standings = list(sampled.turns())
    x = torch.full((1, *SHAPE), GREY / 255)
    won = [
        sw.certify(IsBright(threshold=one), x, noise=sw.Gaussian(SIGMA), n0=50, n=N, seed=7).counts[0]
        for one in thresholds
    ]
    lower = [beta.ppf(0.8 * ALPHA / 2, int(one[1]), N - int(one[1]) + 1) for one in won]
    last = standings[-1]
    assert lower[0] > lower[1] > 0.5
    assert last.radius == pytest.approx(SIGMA / 2 * sum(norm.ppf(lower)), rel=1e-9)
    assert (last.chosen, last.label, last.draws) == (1, 1, N)
    assert last.counts == [max(one[k].item() for one in won) for k in (0, 1)]
    assert sampled.limit == pytest.approx(SIGMA * norm.ppf((0.8 * ALPHA / 2) ** (1 / N)), rel=1e-9)
    assert all(one.radius < last.radius for one in standings[:-1])
    assert len(sampled.first_draws(8)[1][0]) == 2


def test_after_smoothing_members_that_are_as_sure_of_two_classes_are_abstained_from():
    last = list(eas_sampling(0.3, 0.9).turns())[-1]
    assert last.label is None
    assert last.radius == 0.0
    assert min(last.counts) > 0.9 * N


@pytest.mark.parametrize("thresholds", [(0.5,), (0.5, 0.55)])
def test_a_turn_may_end_before_the_class_is_chosen(
    thresholds: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("shieldwall.serve.sampling.TURN_SECONDS", 0.0)
    sampled = eas_sampling(*thresholds)
    sampled._sampler.batch_size = 16
    first = next(sampled.turns())
    assert (first.draws, first.counts, first.label, first.radius) == (0, [0, 0], None, 0.0)


def test_a_tie_is_abstained_from():
    last = list(sampling(grey=127).turns())[-1]
    assert last.label is None
    assert last.radius == 0.0
    assert last.p_lower < 0.5


def test_draws_that_can_never_certify_are_refused():
    with pytest.raises(sw.UserError, match="the smallest n that can is 1"):
        sampling(n=5)


def test_scores_that_are_no_numbers_are_refused():
    broken = torch.full(SHAPE, math.nan)
    run = linear_offer().runs[0]
    with pytest.raises(sw.UserError, match="NaN"):
        list(Sampling(run, "member-1", broken, N, 7, torch.device("cpu")).turns())
