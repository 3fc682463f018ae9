"""The corollary that compares smoothing before and after an ensemble of two, enumerated."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.special import ndtri

import shieldwall as sw
from shieldwall.ensembles.votes import max_margin
from shieldwall.noise.distributions import Laplace, Noise, Uniform
from shieldwall.theory.strategies import VERDICTS, PairWins, pair_wins

NOISE = sw.Gaussian(0.5)


def every_joint_distribution(n: int) -> list[PairWins]:
    """Every way to share n samples among the six things that can happen.

    Both are right; only the first is, and MME follows it or does not; only the second, likewise; neither.
    Nothing but right or wrong matters, however many classes there are.
    """
    pairs = []
    for bars in itertools.combinations(range(n + 5), 5):
        edges = [-1, *bars, n + 5]
        both, first_followed, first_not, second_followed, second_not, _ = (
            high - low - 1 for low, high in itertools.pairwise(edges)
        )
        first, second = both + first_followed + first_not, both + second_followed + second_not
        pairs.append(PairWins(n, first, second, both, both + first_followed + second_followed))
    return pairs


def r_ebs(pair: PairWins, noise: Noise) -> float:
    """r_G: the radius for P(MME = y0), negative below 1/2."""
    p = pair.mme / pair.n
    radius = float(noise.radius(max(p, 1.0 - p)))
    return radius if p >= 0.5 else -radius


def r_eas(pair: PairWins, noise: Noise) -> float:
    """r_H: the radius for p_A = max(p_a, p_b) against p_B = 1 - min(p_a, p_b)."""
    return float(noise.radius(max(pair.p_a, pair.p_b), 1.0 - min(pair.p_a, pair.p_b)))


ALL = every_joint_distribution(12)


@pytest.mark.parametrize("noise", [NOISE, Uniform(0.5), Laplace(0.5)])
def test_the_corollary_holds_for_every_joint_distribution_of_12_samples(noise: Noise) -> None:
    assert len(ALL) == 6_188
    verdicts = Counter(pair.verdict for pair in ALL)
    assert set(verdicts) == set(VERDICTS)
    assert min(verdicts.values()) > 50
    for pair in ALL:
        assert (pair.verdict == "premises fail") == (min(pair.p_a, pair.p_b) <= 0.5)
        if pair.verdict == "EBS":
            assert r_ebs(pair, noise) > r_eas(pair, noise)
        if pair.verdict == "EAS":
            assert r_eas(pair, noise) >= r_ebs(pair, noise) - 1e-15


def test_every_quantity_is_the_printed_one() -> None:
    compared = 0
    for pair in ALL:
        p_min, delta, p_mme = min(pair.p_a, pair.p_b), abs(pair.p_a - pair.p_b), pair.mme / pair.n
        if pair.verdict == "premises fail" or not delta:
            continue
        printed = 0.5 + 1 / (2 + 4 * (p_min - pair.p_ab) / delta)
        assert pair.threshold == pytest.approx(printed, rel=1e-12)
        assert p_mme == pytest.approx(pair.p_ab + pair.p * (pair.p_a + pair.p_b - 2 * pair.p_ab), abs=1e-14)
        assert (pair.verdict == "EAS") == (pair.p <= 0.5)
        if abs(pair.p - printed) > 1e-9:
            assert (pair.verdict == "EBS") == (pair.p > printed)
        if max(pair.p_a, pair.p_b) < 1 and 0 < p_mme < 1:
            assert r_ebs(pair, NOISE) == pytest.approx(0.5 * ndtri(p_mme), abs=1e-14)
            r_h = 0.25 * (ndtri(pair.p_a) + ndtri(pair.p_b))
            assert r_eas(pair, NOISE) == pytest.approx(r_h, abs=1e-14)
            compared += 1
    assert compared > 300


@pytest.mark.parametrize(
    ("wins", "p", "threshold", "verdict"),
    [
        ((9, 9, 9, 9), np.nan, np.nan, "open"),  # exactly one is never right
        ((9, 8, 8, 9), 1.0, 1.0, "open"),  # p_min = p_ab: the second is never right alone
        ((9, 8, 8, 8), 0.0, 1.0, "EAS"),
        ((8, 8, 7, 9), 1.0, 0.5, "EBS"),  # delta = 0
        ((8, 8, 7, 8), 0.5, 0.5, "EAS"),
        ((9, 8, 7, 9), 2 / 3, 2 / 3, "open"),  # exactly at the threshold
        ((10, 10, 10, 10), np.nan, np.nan, "open"),
        ((9, 5, 5, 9), 1.0, 1.0, "premises fail"),
        ((0, 0, 0, 0), np.nan, np.nan, "premises fail"),
    ],
)
def test_edges(wins: tuple[int, int, int, int], p: float, threshold: float, verdict: str) -> None:
    pair = PairWins(10, *wins)
    assert pair.verdict == verdict
    assert pair.p == pytest.approx(p, nan_ok=True)
    assert pair.threshold == pytest.approx(threshold, nan_ok=True)


def test_counts_are_those_of_the_confidences_sample_by_sample() -> None:
    """Confidences on a coarse grid, so that ties within members and between margins abound."""
    table = torch.randint(0, 4, (2, 4_000, 3), generator=torch.Generator().manual_seed(0)).float()
    first, second = table.argmax(-1)
    mme = max_margin(table).argmax(-1)
    assert bool(((mme == first) | (mme == second)).all())
    for truth in range(3):
        pair = pair_wins(table, truth)
        only_one = (first == truth) ^ (second == truth)
        assert pair.n == 4_000
        assert pair.p_a == float((first == truth).double().mean())
        assert pair.p_b == float((second == truth).double().mean())
        assert pair.p_ab == float(((first == truth) & (second == truth)).double().mean())
        assert pair.p == pytest.approx(float((mme == truth)[only_one].double().mean()), rel=1e-12)


def test_what_cannot_be_is_refused() -> None:
    table = torch.rand(2, 5, 3)
    for truth in (3, -1):
        with pytest.raises(sw.UserError, match=f"lies in 0 to 2; given: {truth}"):
            pair_wins(table, truth)
    for wrong in (table[:1], table[0], table[:, :0]):
        with pytest.raises(sw.UserError, match=r"\(2, n, K\) of two members are needed; given"):
            pair_wins(wrong, 0)
