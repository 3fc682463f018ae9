"""Indicators and radii at one input, of members whose soft-smoothed margin and gradient are known."""

import math

import numpy as np
import pytest

from shieldwall.theory import conditions
from shieldwall.theory.conditions import sharp_smoothness_bound, smoothness_bound
from shieldwall.theory.diagnosis import plain_indicators, soft_indicators
from shieldwall.theory.first_order import FirstOrder

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
def test_indicators_are_the_conditions_at_the_rival_with_the_largest_indicator(members: int):
    plain, soft = first_orders(members)
    indicators, soft_indicator = plain_indicators(plain, R), soft_indicators(soft, R, SIGMA)
    names = [*(f"member-{k + 1}" for k in range(members)), "we", "mme"]
    assert list(indicators) == list(soft_indicator) == names
    beta, sharp = smoothness_bound(SIGMA), sharp_smoothness_bound(SIGMA)
    for name, weights in zip(names, [*np.eye(members), np.ones(members)], strict=False):
        of_vote = conditions.weighted_conditions(plain.margins, plain.gradients, weights, beta=0.0)
        eri = of_vote.eri(R)[0]
        for indicator in (indicators[name], soft_indicator[name]):
            assert indicator.rival == plain.rivals[0, eri.argmax()]
            assert indicator.eri == pytest.approx(eri.max())
            assert indicator.eri == pytest.approx(indicator.slope - indicator.margin / R)
        exact = [
            conditions.weighted_conditions(plain.margins, plain.gradients, weights, beta=b)
            for b in (beta, sharp)
        ]
        assert soft_indicator[name].certified_radius == pytest.approx(float(exact[0].certified_radius()[0]))
        assert soft_indicator[name].certified_radius_sharp == pytest.approx(
            float(exact[1].certified_radius()[0])
        )
        assert soft_indicator[name].possible_radius == pytest.approx(float(exact[1].possible_radius()[0]))
        assert soft_indicator[name].certified_radius_error < 1e-9
    mme = soft_indicator["mme"]
    radius = conditions.max_margin_radius(plain.margins, plain.gradients, beta=sharp)
    assert mme.certified_radius_sharp == pytest.approx(float(radius[0]))
    assert mme.certified_radius < mme.certified_radius_sharp
    assert math.isnan(mme.eri) == (members > 2)
    if members == 2:
        of_mme = conditions.max_margin_conditions(plain.margins, plain.gradients, beta=0.0)
        pairs = of_mme.eri(R)[0].reshape(3, 3)
        assert mme.eri == pytest.approx(pairs.max())
        assert mme.rival == plain.rivals[0, np.unravel_index(pairs.argmax(), pairs.shape)[0]]
