"""What the page certifies, against closed forms, quadrature and `shieldwall.certify`."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import beta, norm
from serve_tools import DISTANCE, GREY, SHAPE, SIGMA, IsBright, linear_service

import shieldwall as sw
from shieldwall.ensembles.votes import vote_set
from shieldwall.serve.live import (
    LiveCertificate,
    Start,
    certificates,
    largest_radius,
    noisy_copies,
)
from shieldwall.serve.service import ServedRun
from shieldwall.smoothing.sampler import FIRST_VIEW

ALPHA = 0.001
N = 3_000
CPU = torch.device("cpu")


def start(run: ServedRun, grey: int = GREY, n: int = N, vote: str = "member-1") -> Start:
    return Start(1, run, vote, n, torch.full(SHAPE, grey / 255))


def sampled(grey: int = GREY, n: int = N, seed: int = 7, batch_size: int = 256) -> list[LiveCertificate]:
    run = linear_service(batch_size=batch_size).runs[0]
    return list(certificates(start(run, grey, n), seed, CPU))


@pytest.fixture(scope="module")
def growing() -> list[LiveCertificate]:
    return sampled()


def test_draws_rise_to_n_and_counts_add_up_to_them(growing: list[LiveCertificate]):
    draws = [certificate.draws for certificate in growing]
    assert draws == sorted(set(draws))
    assert draws[-1] == N
    assert {FIRST_VIEW * 2**k for k in range(6)} <= set(draws)  # later ones depend on how long turns take
    assert all(sum(certificate.counts) == certificate.draws for certificate in growing)
    for before, after in pairwise(growing):
        assert all(a >= b for a, b in zip(after.counts, before.counts, strict=True))


def test_the_last_radius_is_that_of_clopper_and_pearson_at_two_fifths_of_alpha(
    growing: list[LiveCertificate],
):
    """sigma Phi^-1(p), p the quantile of a beta distribution."""
    last = growing[-1]
    p_lower = beta.ppf(0.4 * ALPHA, last.counts[1], N - last.counts[1] + 1)
    assert (last.chosen, last.label) == (1, 1)
    assert last.p_lower == pytest.approx(p_lower, rel=1e-9)
    assert last.radius == pytest.approx(SIGMA * norm.ppf(p_lower), rel=1e-9)


def test_before_that_the_bound_is_where_the_wealth_of_a_bet_is_four_over_alpha(
    growing: list[LiveCertificate],
):
    """W(p) = E_u [((1 - u) / p + u)^S u^F], u uniform, integrated numerically at p = p_lower."""
    early = next(certificate for certificate in growing if 60 < certificate.draws < 600)
    won, lost = early.counts[1], early.counts[0]

    def logarithm(u: float) -> float:
        return won * math.log((1 - u) / early.p_lower + u) + lost * math.log(u)

    highest = max(logarithm(k / 1_000) for k in range(1, 1_000))
    wealth = quad(lambda u: math.exp(logarithm(u) - highest), 1e-12, 1, limit=500)[0]
    assert highest + math.log(wealth) == pytest.approx(math.log(4 / ALPHA), abs=1e-6)
    assert early.radius == pytest.approx(SIGMA * norm.ppf(early.p_lower), rel=1e-9)


def test_no_radius_exceeds_the_exact_one_or_the_limit(growing: list[LiveCertificate]):
    """False alarms: 0.001 before the seed was fixed."""
    limit = SIGMA * norm.ppf((0.4 * ALPHA) ** (1 / N))
    assert largest_radius(start(linear_service().runs[0])) == pytest.approx(limit, rel=1e-9)
    assert max(certificate.radius for certificate in growing) < min(DISTANCE, limit)
    assert growing[-1].radius > 0.65


@pytest.mark.parametrize("batch_size", [64, 256, 1_000])
def test_the_draws_are_those_that_certify_makes_whatever_the_batches(batch_size: int):
    x = torch.full((1, *SHAPE), GREY / 255)
    certified = sw.certify(IsBright(), x, noise=sw.Gaussian(SIGMA), n0=50, n=N, alpha=ALPHA, seed=7)
    last = sampled(batch_size=batch_size)[-1]
    assert last.counts == certified.counts[0].tolist()
    assert (
        0.0 <= certified.radii.item() - last.radius < 0.01
    )  # three fifths of alpha paid for looks on the way


def test_the_noisy_copies_shown_have_the_votes_beside_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shieldwall.serve.live.png_address", lambda copy: copy)
    order = start(linear_service().runs[0], grey=128)

    def copies(seed: int) -> torch.Tensor:
        shown = noisy_copies(order, seed, CPU)
        assert [copy["labels"] for copy in shown] == [[int(copy["image"].mean() > 0.5)] for copy in shown]
        return torch.stack([copy["image"] for copy in shown])

    assert copies(7).shape == (8, *SHAPE)
    assert torch.equal(copies(7), copies(7))
    assert not torch.equal(copies(7), copies(8))
    assert (copies(7) - order.image).std() == pytest.approx(SIGMA, rel=0.2)


def after_smoothing(*thresholds: float) -> Start:
    """Ensemble-after-smoothing of members that differ in what they call bright."""
    members = [IsBright(threshold) for threshold in thresholds]
    votes = [vote_set([f"member-{k + 1}"], len(members)).counted[0] for k in range(len(members))]
    return start(replace(linear_service().runs[0], members=members, votes={"eas": votes}), vote="eas")


def test_after_smoothing_the_radius_is_that_of_the_surest_and_the_least_sure_member():
    """sigma/2 (Phi^-1(max L_i) + Phi^-1(min L_i)), L_i Clopper and Pearson's at two fifths of alpha / 2."""
    thresholds = 0.5, 0.55
    order = after_smoothing(*thresholds)
    growing = list(certificates(order, 7, CPU))
    x = torch.full((1, *SHAPE), GREY / 255)
    counts = [
        sw.certify(IsBright(threshold), x, noise=sw.Gaussian(SIGMA), n0=50, n=N, seed=7).counts[0]
        for threshold in thresholds
    ]
    wins = [int(by_class[1]) for by_class in counts]
    lower = [beta.ppf(0.4 * ALPHA / 2, won, N - won + 1) for won in wins]
    last = growing[-1]
    assert lower[0] > lower[1] > 0.5
    assert last.radius == pytest.approx(SIGMA / 2 * sum(norm.ppf(lower)), rel=1e-9)
    assert (last.chosen, last.label, last.draws) == (1, 1, N)
    assert last.counts == [max(by_class[k].item() for by_class in counts) for k in (0, 1)]
    assert largest_radius(order) == pytest.approx(SIGMA * norm.ppf((0.4 * ALPHA / 2) ** (1 / N)), rel=1e-9)
    assert all(certificate.radius < last.radius for certificate in growing[:-1])
    assert len(noisy_copies(order, 7, CPU)[0]["labels"]) == 2


def test_after_smoothing_members_that_are_as_sure_of_two_classes_are_abstained_from():
    last = list(certificates(after_smoothing(0.3, 0.9), 7, CPU))[-1]
    assert last.label is None
    assert last.radius == 0.0
    assert min(last.counts) > 0.9 * N


@pytest.mark.parametrize("thresholds", [(0.5,), (0.5, 0.55)])
def test_a_turn_may_end_before_the_class_is_chosen(
    thresholds: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("shieldwall.serve.live.TURN_SECONDS", 0.0)
    order = after_smoothing(*thresholds)
    first = next(certificates(replace(order, run=replace(order.run, batch_size=16)), 7, CPU))
    assert (first.draws, first.counts, first.label, first.radius) == (0, [0, 0], None, 0.0)


def test_a_tie_is_abstained_from():
    last = sampled(grey=127)[-1]
    assert last.label is None
    assert last.radius == 0.0
    assert last.p_lower < 0.5


def test_scores_that_are_no_numbers_are_refused():
    order = replace(start(linear_service().runs[0]), image=torch.full(SHAPE, math.nan))
    with pytest.raises(sw.UserError, match="NaN"):
        list(certificates(order, 7, CPU))
