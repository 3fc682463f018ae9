"""Verdicts on one input, on members whose soft-smoothed margin and gradient are known."""

import math

import numpy as np
import pytest

from shieldwall.theory import conditions
from shieldwall.theory.members import FirstOrder
from shieldwall.theory.smoothness import sharp_smoothness_bound, smoothness_bound
from shieldwall.theory.standing import Standing, plain_standings, soft_standings

SIGMA, R = 0.5, 0.2


def first_orders(members: int) -> tuple[FirstOrder, FirstOrder]:
    """One input of class 1 among 4, the same plain and, in 6 equal groups, soft-smoothed."""
    generator = np.random.default_rng(members)
    rivals = np.array([[0, 2, 3]])
    margins = generator.uniform(0.1, 0.9, (members, 1, 3))
    gradients = generator.normal(size=(members, 1, 3, 5))
    soft = FirstOrder(rivals, np.stack([margins] * 6), np.stack([gradients] * 6))
    return FirstOrder(rivals, margins, gradients), soft


@pytest.mark.parametrize("members", [2, 3])
def test_standings_are_the_conditions_at_the_rival_with_the_largest_indicator(members: int):
    plain, soft = first_orders(members)
    found, found_soft = plain_standings(plain, R), soft_standings(soft, R, SIGMA)
    names = [*(f"member-{k + 1}" for k in range(members)), "we", "mme"]
    assert list(found) == list(found_soft) == names
    beta, sharp = smoothness_bound(SIGMA), sharp_smoothness_bound(SIGMA)
    for name, weights in zip(names, [*np.eye(members), np.ones(members)], strict=False):
        eri = conditions.eri_weighted(plain.margins, plain.gradients, weights, R)[0]
        for one in (found[name], found_soft[name]):
            assert one.rival == plain.rivals[0, eri.argmax()]
            assert one.eri == pytest.approx(eri.max())
            assert one.eri == pytest.approx(one.slope - one.margin / R)
        exact = [
            conditions.weighted_conditions(plain.margins, plain.gradients, weights, beta=b)
            for b in (beta, sharp)
        ]
        assert found_soft[name].sure == pytest.approx(float(exact[0].certified_radius()[0]))
        assert found_soft[name].sure_sharp == pytest.approx(float(exact[1].certified_radius()[0]))
        assert found_soft[name].possible == pytest.approx(float(exact[1].possible_radius()[0]))
        assert found_soft[name].sure_error < 1e-9
    mme = found_soft["mme"]
    radius = conditions.max_margin_radius(plain.margins, plain.gradients, beta=sharp)
    assert mme.sure_sharp == pytest.approx(float(radius[0]))
    assert mme.sure < mme.sure_sharp
    assert math.isnan(mme.eri) == (members > 2)
    if members == 2:
        pairs = conditions.eri_mme(plain.margins, plain.gradients, R)[0]
        assert mme.eri == pytest.approx(pairs.max())
        assert mme.rival == plain.rivals[0, np.unravel_index(pairs.argmax(), pairs.shape)[0]]


@pytest.mark.parametrize(
    ("standing", "verdict"),
    [
        (Standing(0, 0.9, 0.1, -1.0, sure_sharp=0.30, sure_error=0.04, possible=math.inf), "robust"),
        (Standing(0, 0.9, 0.1, -1.0, sure_sharp=0.30, sure_error=0.06, possible=math.inf), "open"),
        (Standing(0, 0.1, 5.0, 4.0, sure_sharp=0.05, sure_error=0.01, possible=0.1), "not robust"),
        (Standing(0, 0.1, 5.0, 4.0, sure_sharp=0.05, sure_error=0.06, possible=0.1), "open"),
        (Standing(0, -0.1, 0.1, 0.6, sure_sharp=0.0, possible=0.0), "not robust"),
        (Standing(sure_sharp=0.3), "robust"),
        (Standing(sure_sharp=0.1), "open"),
    ],
)
def test_verdicts_keep_two_errors_away(standing: Standing, verdict: str):
    assert standing.verdict(0.2) == verdict
