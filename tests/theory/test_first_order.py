"""Margins, gradients and indicators of real members against finite differences, quadrature and loops."""

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from torch import Tensor, nn

from shieldwall import UserError
from shieldwall.noise.distributions import Gaussian
from shieldwall.theory import conditions
from shieldwall.theory.first_order import (
    FirstOrder,
    cosine,
    first_order,
    inner,
    jackknife,
    length,
    max_margin_estimate,
    max_margin_radius_estimate,
    smoothed_first_order,
    weighted_estimate,
)

Floats = NDArray[np.float64]
SIGMA = 0.7


def network(seed: int, classes: int = 4) -> nn.Module:
    """Smooth, of 6 inputs, in double precision."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, classes)).double()


def some_inputs(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    x = torch.rand(count, 1, 2, 3, generator=generator, dtype=torch.float64)
    return x, torch.randint(4, (count,), generator=generator)


class Slope(nn.Module):
    """Two classes and one direction: f(x)_1 = 1 / (1 + exp(-(w.x + b)))."""

    def __init__(self, weights: list[float], bias: float) -> None:
        super().__init__()
        self.weights = torch.tensor(weights, dtype=torch.float64)
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        logit = x.flatten(1) @ self.weights + self.bias
        return torch.stack([torch.zeros_like(logit), logit], dim=1)

    def smoothed(self, x: Tensor) -> tuple[float, Floats]:
        """The margin of class 1 under noise of deviation SIGMA, and its gradient, by Gauss's quadrature."""
        nodes, shares = hermegauss(80)
        shares = shares / shares.sum()
        spread = SIGMA * float(self.weights.norm())
        p = 1 / (1 + np.exp(-(float(x.flatten() @ self.weights) + self.bias + spread * nodes)))
        slope = float((shares * 2 * p * (1 - p)).sum())
        return float((shares * (2 * p - 1)).sum()), slope * self.weights.numpy()


SLOPES = [Slope([1.0, -0.5, 0.3, 0.8, 0.0, 0.6], 0.2), Slope([0.7, 0.9, -0.4, 0.1, 1.2, 0.0], -0.1)]
POINT = torch.tensor([[0.4, 0.1, 0.9, 0.5, 0.3, 0.8]], dtype=torch.float64)
OF_CLASS_1 = torch.tensor([1])


def at_point(seed: int, draws: int = 200, members: list[Slope] = SLOPES) -> FirstOrder:
    return smoothed_first_order(members, POINT, OF_CLASS_1, Gaussian(SIGMA), draws=draws, seed=seed)


def expected_eri(r: float) -> float:
    (m1, g1), (m2, g2) = (one.smoothed(POINT) for one in SLOPES)
    return float(np.linalg.norm((g1 + g2) / 2) - (m1 + m2) / 2 / r)


def test_margins_and_gradients_are_those_of_finite_differences():
    members = [network(0), network(1), network(2)]
    x, y = some_inputs(5)
    found = first_order(members, x, y)
    assert found.margins.shape == (3, 5, 3)
    assert found.gradients.shape == (3, 5, 3, 6)
    step = 1e-5
    for j, member in enumerate(members):
        for b in range(5):
            others = [k for k in range(4) if k != int(y[b])]
            assert found.rivals[b].tolist() == others

            def margins(point: Tensor, member=member, label=int(y[b]), others=others) -> Floats:
                with torch.no_grad():
                    f = member(point[None]).softmax(-1)[0].numpy()
                return f[label] - f[others]

            np.testing.assert_allclose(found.margins[j, b], margins(x[b]), rtol=1e-12)
            for d in range(6):
                move = torch.zeros(6, dtype=torch.float64)
                move[d] = step
                moved = margins(x[b] + move.view(1, 2, 3)) - margins(x[b] - move.view(1, 2, 3))
                np.testing.assert_allclose(found.gradients[j, b, :, d], moved / (2 * step), atol=1e-8)


def test_eri_is_the_formula_written_out():
    members, weights, r = [network(3), network(4), network(5)], [0.5, 2.0, 1.0], 0.3
    x, y = some_inputs(4)
    found = first_order(members, x, y)
    indicator = conditions.weighted_conditions(found.margins, found.gradients, weights, beta=0.0).eri(r)
    for b in range(4):
        for c, rival in enumerate(found.rivals[b]):
            point = x[b : b + 1].clone().requires_grad_()
            f = sum(w * one(point).softmax(-1)[0] for w, one in zip(weights, members, strict=True))
            margin = f[y[b]] - f[rival]
            margin.backward()
            expected = float(point.grad.norm()) / 3.5 - float(margin.detach()) / (r * 3.5)
            assert indicator[b, c] == pytest.approx(expected, rel=1e-10)


def test_soft_smoothed_margins_and_gradients_are_those_of_quadrature():
    """Each of 14 means of twenty groups is beyond 5 errors with probability 8e-5."""
    found = at_point(seed=0, draws=4_000)
    for j, member in enumerate(SLOPES):
        margin, gradient = member.smoothed(POINT)
        of_margin = found.margins[:, j, 0, 0]
        assert abs(of_margin.mean() - margin) < 5 * of_margin.std(ddof=1) / np.sqrt(20)
        groups = found.gradients[:, j, 0, 0]
        error = groups.std(0, ddof=1) / np.sqrt(20)
        assert (np.abs(groups.mean(0) - gradient) <= 5 * error + 1e-12).all()


def test_soft_smoothed_eri_has_an_honest_error():
    """Over 200 seeds: the mean within 4 errors (6e-5), the spread what the errors say (within a fifth)."""
    r = 0.5

    def eri(margins: Floats, gradients: Floats) -> Floats:
        return weighted_estimate(margins, gradients, beta=0.0).eri(r)

    drawn = [at_point(seed) for seed in range(200)]
    found = [jackknife(eri, one.margins, one.gradients) for one in drawn]
    values = np.array([float(one.value[0, 0]) for one in found])
    errors = np.array([float(one.error[0, 0]) for one in found])
    assert abs(values.mean() - expected_eri(r)) < 4 * values.std() / np.sqrt(200)
    assert np.sqrt((errors**2).mean()) == pytest.approx(values.std(), rel=0.2)


def test_inner_products_have_no_bias_where_the_mean_is_too_long():
    """The mean of n noisy vectors in 300 dimensions is longer by sqrt(1 + 300/n); beyond 4 errors: 6e-5."""
    generator = np.random.default_rng(0)
    truth = np.zeros(300)
    truth[0] = 1.0
    groups = truth + np.sqrt(20) * generator.standard_normal((400, 20, 300))
    squares = np.array([float(inner(one, one)) for one in groups])
    assert abs(squares.mean() - 1.0) < 4 * squares.std() / np.sqrt(400)
    assert np.mean([np.linalg.norm(one.mean(0)) for one in groups]) > 15
    assert float(length(np.ones((3, 4)) * np.array([1.0, -1.0, 0.0])[:, None])) == 0.0


def test_estimates_without_noise_are_the_conditions():
    generator = np.random.default_rng(1)
    margins, gradients = generator.uniform(0.1, 1, (3, 2, 4)), generator.normal(size=(3, 2, 4, 5))
    m, g = np.tile(margins, (6, 1, 1, 1)), np.tile(gradients, (6, 1, 1, 1, 1))
    weights = [1.0, 0.0, 2.0]
    estimates = [
        weighted_estimate(m, g, weights, beta=0.4),
        max_margin_estimate(m[:, :2], g[:, :2], beta=0.4),
    ]
    exacts = [
        conditions.weighted_conditions(margins, gradients, weights, beta=0.4),
        conditions.max_margin_conditions(margins[:2], gradients[:2], beta=0.4),
    ]
    for estimate, exact in zip(estimates, exacts, strict=True):
        np.testing.assert_allclose(estimate.margin, exact.margin, rtol=1e-12)
        np.testing.assert_allclose(estimate.slope, exact.slope, rtol=1e-9)
        assert estimate.beta == exact.beta
    np.testing.assert_allclose(
        max_margin_radius_estimate(m, g, beta=0.4),
        conditions.max_margin_radius(margins, gradients, beta=0.4),
        rtol=1e-9,
    )
    assert jackknife(lambda a: a.mean(0), m).error.max() < 1e-12


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(2).normal(size=(9, 3))
    found = jackknife(lambda a: a.mean(0), values)
    np.testing.assert_allclose(found.value, values.mean(0))
    np.testing.assert_allclose(found.error, values.std(0, ddof=1) / 3)


def test_cosines():
    a, b = np.array([[3.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [1.0, 0.0]])
    expected = [np.sqrt(0.5), np.nan]
    np.testing.assert_allclose(conditions.cosines(a, b), expected)
    np.testing.assert_allclose(cosine(np.stack([a] * 4), np.stack([b] * 4)), expected)
    found, other = at_point(0, 8_000), SLOPES[0].weights.numpy() @ SLOPES[1].weights.numpy()
    truth = other / float(SLOPES[0].weights.norm() * SLOPES[1].weights.norm())
    assert float(cosine(found.gradients[:, 0, 0, 0], found.gradients[:, 1, 0, 0])) == pytest.approx(
        truth, rel=1e-3
    )


def test_an_inputs_draws_depend_on_its_name_alone():
    members, noise = [network(0), network(1)], Gaussian(0.5)
    x, y = some_inputs(3)
    both = smoothed_first_order(members, x, y, noise, draws=60, seed=3, indices=[10, 4, 8])
    alone = smoothed_first_order(members, x[1:2], y[1:2], noise, draws=60, seed=3, indices=[4], batch_size=1)
    np.testing.assert_allclose(both.gradients[:, :, 1:2], alone.gradients, rtol=1e-10, atol=1e-14)
    other = smoothed_first_order(members, x[1:2], y[1:2], noise, draws=60, seed=4, indices=[4])
    assert not np.allclose(other.margins, alone.margins)


def test_members_are_left_as_they_were():
    member = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Dropout(0.5)).double()
    member.train()
    member[1].eval()
    x, y = some_inputs(2)
    first, second = (first_order([member], x, y) for _ in range(2))
    np.testing.assert_array_equal(first.margins, second.margins)
    assert [part.training for part in member] == [True, False, True]
    assert all(parameter.grad is None for parameter in member.parameters())
    assert not x.requires_grad


def test_mistakes():
    x, y = some_inputs(1)
    with pytest.raises(UserError, match="3 groups or more needs a draw; given: 10 draws in 20 groups"):
        smoothed_first_order([network(0)], x, y, Gaussian(0.5), draws=10)
    found = at_point(0)
    with pytest.raises(UserError, match=r"2 members need 2 weights.*given: \[1.0\]"):
        weighted_estimate(found.margins, found.gradients, [1.0], beta=0.0)
    with pytest.raises(UserError, match="MME of 2 members; given: 1"):
        max_margin_estimate(found.margins[:, :1], found.gradients[:, :1], beta=0.0)
