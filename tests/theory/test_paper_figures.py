"""The numerical experiments: what they draw, against exact laws, and what the paper says of its figures."""

from dataclasses import replace

import numpy as np
import pytest
from paper_figures import (
    PAPER_SETTINGS,
    RelationPanel,
    RelationSetting,
    TransferabilityPanel,
    certified_radius,
    relation,
    transferability,
)
from scipy.special import ndtri
from scipy.stats import beta
from uniform_sums import irwin_hall

from shieldwall.errors import UserError
from shieldwall.theory.statistical import (
    least_deviation,
    mme_bound_uniform_exact,
    threshold_score,
    thresholds,
)

N, ALPHA, SIGMA = 2_000, 0.001, 1.0


@pytest.fixture(scope="module")
def drawn() -> list[TransferabilityPanel]:
    return transferability(instances=1500, n=N, alpha=ALPHA, sigma=SIGMA)


@pytest.fixture(scope="module")
def plotted() -> list[RelationPanel]:
    return relation()


def test_the_radius_is_cohens() -> None:
    right = np.array([0, 500, 560, 900, 1000])
    found = certified_radius(right, 1000, 0.001, 0.5)
    assert found[:2].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(
        found[2:], 0.5 * ndtri(beta.ppf(0.001, right[2:], 1001 - right[2:])), rtol=1e-9
    )


def test_instances_are_the_captions(drawn: list[TransferabilityPanel]) -> None:
    assert [panel.members for panel in drawn] == [3, 10, 20]
    for panel in drawn:
        lam1 = 0.95 * panel.ratio
        assert (panel.a >= 0.3).all()
        assert (panel.a < panel.b).all()
        assert (panel.b < 1.0).all()
        # Uniform by Kolmogorov and Smirnov: 2 exp(-2 1500 0.07^2) < 1e-6 for each.
        for part in ((lam1 - 0.8) / 0.15, (panel.a - 0.3) / 0.7, (panel.b - panel.a) / (1 - panel.a)):
            steps = np.sort(part) - np.arange(1500) / 1500
            assert max(steps.max(), (1 / 1500 - steps).max()) < 0.07


@pytest.mark.parametrize("place", range(2))
def test_radii_are_those_of_the_exact_probabilities(drawn: list[TransferabilityPanel], place: int) -> None:
    """Counts of n within five deviations of the exact law's: 1e-6 for each of some 2 * 400 instances."""
    panel, n = drawn[place], N
    tau1 = (threshold_score(0.95 * panel.ratio) - panel.a) / (panel.b - panel.a)
    p_we = np.array([1 - irwin_hall(panel.members, panel.members * tau) for tau in tau1])
    p_mme = mme_bound_uniform_exact(panel.a, panel.b, 0.95, 0.0, panel.members)
    for found, p in ((panel.r_we, p_we), (panel.r_mme, p_mme)):
        spread = 5 * np.sqrt(n * p * (1 - p)) + 6
        low = certified_radius(np.clip(np.floor(n * p - spread), 0, n), n, ALPHA, SIGMA)
        high = certified_radius(np.clip(np.ceil(n * p + spread), 0, n), n, ALPHA, SIGMA)
        assert ((low <= found) & (found <= high)).all()
        assert (low < high).sum() > 100


def test_with_transferability_mme_gains_on_we(drawn: list[TransferabilityPanel]) -> None:
    """The paper: "with the increase of lambda_1 / lambda_2, MME tends to achieve higher certified radius"."""
    for panel in drawn:
        told_apart = panel.difference != 0
        ratio, difference = panel.ratio[told_apart], panel.difference[told_apart]
        low, high = ratio < 0.88, ratio > 0.96
        assert (difference[low] > 0).mean() < 0.1 < 0.3 < (difference[high] > 0).mean()
        assert difference[low].mean() < -0.3 < -0.15 < difference[high].mean()


def test_with_more_members_mme_gains_on_we(drawn: list[TransferabilityPanel]) -> None:
    """The paper: "with the larger number of base models N, the MME tends to be relatively more robust"."""
    shares = [(panel.difference > 0).sum() / (panel.difference != 0).sum() for panel in drawn]
    assert shares[0] + 0.1 < shares[1] < shares[2] - 0.03


def test_the_same_seed_draws_the_same_instances_whatever_the_others_are() -> None:
    few = transferability(members=[4], instances=5, n=500, seed=3)
    many = transferability(members=[2, 4], instances=9, n=500, seed=3)
    other = transferability(members=[4], instances=5, n=500, seed=4)
    for name in ("ratio", "a", "b", "r_we", "r_mme"):
        np.testing.assert_array_equal(getattr(few[0], name), getattr(many[1], name)[:5])
    assert not np.array_equal(few[0].ratio, other[0].ratio)


def test_relation_by_hand(plotted: list[RelationPanel]) -> None:
    """[0.2, 0.3], N = 10: K_1 = 0.1 / (0.25 - 0.29/1.29) and K_2 = 0.1 / (0.25 - 0.31/1.31)."""
    panel, n = plotted[0], 100_000
    k1, k2 = 0.1 / (0.25 - 0.29 / 1.29), 0.1 / (0.25 - 0.31 / 1.31)
    for found, tail in (
        (panel.r_we[9], k1**2 / 240),
        (panel.r_we_printed[9], k1**2 / 120),
        (panel.r_mme[9], 20 / (121 * 12) * k2**2 / 4),
        (panel.r_single, (0.3 / 1.3 - 0.2) / 0.1),
    ):
        right = np.floor(n * (0.99 - tail))
        assert found == pytest.approx(ndtri(beta.ppf(0.001, right, n - right + 1)))


def test_relation_is_as_the_paper_describes_its_figure(plotted: list[RelationPanel]) -> None:
    """Zero for few members, far above the single model for many, MME behind WE and then ahead for good.

    The left setting, of the smaller lambda_1 / lambda_2, is kinder to WE: MME overtakes later.
    """
    assert [panel.setting for panel in plotted] == list(PAPER_SETTINGS)
    for panel in plotted:
        for curve in (panel.r_we, panel.r_mme, panel.r_we_printed):
            assert curve[0] == 0
            assert (np.diff(curve)[curve[1:] > 0] > 0).all()
            assert curve[-1] > 3 * panel.r_single > 0
        assert (panel.r_we_printed <= panel.r_we).all()
        assert (panel.r_mme < panel.r_we)[1:20].all()
    assert [panel.mme_wins_from for panel in plotted] == [39, 25]


def test_mme_overtakes_where_the_corollary_says(plotted: list[RelationPanel]) -> None:
    for panel in plotted:
        one = panel.setting
        s_f = least_deviation(1.0, panel.members)
        found = thresholds((one.a + one.b) / 2, one.lam2, 1.0, s_f, panel.members)
        wins = one.lam1 / one.lam2 > found.mme_above
        certified = (panel.r_we > 0) | (panel.r_mme > 0)
        np.testing.assert_array_equal((panel.r_mme > panel.r_we)[certified], wins[certified])


def test_where_mme_never_or_always_wins(plotted: list[RelationPanel]) -> None:
    panel = plotted[0]
    assert replace(panel, r_mme=panel.r_we).mme_wins_from is None
    assert replace(panel, r_mme=panel.r_we + 1).mme_wins_from == 1


def test_a_premise_that_fails_certifies_nothing() -> None:
    panel = relation(settings=[RelationSetting(0.1, 0.2, 0.5, 0.6, 0.55)], most_members=5)[0]
    assert not panel.r_we.any()
    assert not panel.r_mme.any()
    assert panel.r_single == 0


def test_mistakes_are_said_in_one_line() -> None:
    with pytest.raises(UserError, match=r"given: 0 instances, members \[3, 10, 20\]"):
        transferability(instances=0)
    with pytest.raises(UserError, match=r"members \[3, 0\]"):
        transferability(members=[3, 0], instances=1)
    with pytest.raises(UserError, match="up to 0 members"):
        relation(most_members=0)
    with pytest.raises(UserError, match="given: 0 settings"):
        relation(settings=[])
    for experiment in (transferability, relation):
        with pytest.raises(UserError, match="n = 5 is too few samples"):
            experiment(n=5)
