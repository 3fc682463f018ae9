"""The smoothness of smoothed confidences by quadrature: steps, intervals, probits, small networks."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import norm

from shieldwall.errors import UserError
from shieldwall.theory.conditions import sharp_smoothness_bound, smoothness_bound, smoothness_lower_bound

Floats = NDArray[np.float64]
LINE = np.linspace(-3, 3, 121)[:, None]
REACH = 9.0
"""Quadrature leaves out what lies further than this many sigma from the input, 3e-17 in the mean of z^2."""


def smoothed_hessians(
    confidence: Callable[[Floats], Floats], points: Floats, sigma: float, nodes: int = 61
) -> Floats:
    """E f(x + sigma z) (z z^T - I) / sigma^2 at points (M, d), by the trapezoid rule: (M, d, d).

    There are nodes^d nodes. For differentiable confidences 61 give ten digits and more; for steps the error
    falls as 1 / nodes.
    """
    dimension = points.shape[1]
    axis = np.linspace(-REACH, REACH, nodes)
    density = np.exp(-(axis**2) / 2.0)
    density /= density.sum()
    z = np.stack([grid.ravel() for grid in np.meshgrid(*[axis] * dimension, indexing="ij")], axis=-1)
    weight = np.prod([grid.ravel() for grid in np.meshgrid(*[density] * dimension, indexing="ij")], axis=0)
    kernel = weight[:, None, None] * (z[:, :, None] * z[:, None, :] - np.eye(dimension)) / sigma**2
    return np.stack([np.einsum("b,bij->ij", confidence(point + sigma * z), kernel) for point in points])


def measured_smoothness(
    confidence: Callable[[Floats], Floats], points: Floats, sigma: float, nodes: int = 61
) -> float:
    """The largest ||Hessian||_2 over the points: no beta below this one holds for the confidence."""
    hessians = smoothed_hessians(confidence, points, sigma, nodes)
    return float(np.abs(np.linalg.eigvalsh(hessians)).max())


@pytest.mark.parametrize("sigma", [0.25, 1.0, 3.0])
def test_a_step_reaches_the_lower_bound_and_an_interval_the_sharp_one(sigma: float) -> None:
    def step(x: Floats) -> Floats:
        return (x[:, 0] >= 0).astype(np.float64)

    def interval(x: Floats) -> Floats:
        return (np.abs(x[:, 0]) > sigma).astype(np.float64)

    points = sigma * LINE
    assert measured_smoothness(step, points, sigma, nodes=20_001) == pytest.approx(
        smoothness_lower_bound(sigma), rel=1e-3
    )
    assert measured_smoothness(interval, points, sigma, nodes=20_001) == pytest.approx(
        sharp_smoothness_bound(sigma), rel=1e-3
    )


def test_no_union_of_intervals_exceeds_the_sharp_bound() -> None:
    """The second derivative of the smoothed indicator of (a, b) is phi'(b - x) - phi'(a - x), sigma = 1."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.normal(0, 2, size=(5000, 6)), axis=-1)
    x = np.linspace(-4, 4, 81)
    t = ends[:, :, None] - x
    slope = -t * norm.pdf(t)
    curvature = (slope[:, 1::2] - slope[:, ::2]).sum(1)
    largest = np.abs(curvature).max(-1)
    assert largest.max() <= sharp_smoothness_bound(1.0)
    assert largest.max() > smoothness_lower_bound(1.0)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_hessians_of_a_probit_are_those_of_its_closed_form(dimension: int) -> None:
    """E Phi(b + w . (x + noise)) = Phi(u) with u = (b + w . x) / v and v^2 = 1 + sigma^2 |w|^2.

    Its Hessian is -u phi(u) w w^T / v^2.
    """
    rng = np.random.default_rng(1)
    w, b, sigma = rng.normal(size=dimension), 0.3, 0.7
    points = rng.normal(size=(5, dimension))
    v = np.sqrt(1 + sigma**2 * (w @ w))
    u = (b + points @ w) / v
    expected = (-u * norm.pdf(u))[:, None, None] * np.outer(w, w) / v**2
    found = smoothed_hessians(lambda x: norm.cdf(b + x @ w), points, sigma)
    assert found == pytest.approx(expected, abs=1e-10)


def random_network(rng: np.random.Generator, dimension: int, steepness: float) -> Callable[[Floats], Floats]:
    """The first confidence of a ReLU network with 16 hidden units and three classes."""
    hidden = rng.normal(size=(dimension, 16)) * steepness
    offset = rng.normal(size=16) * steepness
    out = rng.normal(size=(16, 3)) * steepness
    return lambda x: softmax(np.maximum(x @ hidden + offset, 0.0) @ out, axis=-1)[:, 0]


@pytest.mark.parametrize(("dimension", "nodes"), [(1, 4001), (2, 121)])
@pytest.mark.parametrize("sigma", [0.25, 1.0])
def test_small_networks_stay_within_the_sharp_bound(dimension: int, nodes: int, sigma: float) -> None:
    """From nearly linear to nearly discontinuous; quadrature of steps on 121 nodes errs by some percents."""
    rng = np.random.default_rng(2)
    points = rng.uniform(-1, 1, size=(12, dimension))
    tolerance = 1.001 if dimension == 1 else 1.1
    measured = []
    for steepness in (0.3, 1.0, 3.0, 10.0):
        for _ in range(3):
            network = random_network(rng, dimension, steepness)
            measured.append(measured_smoothness(network, points, sigma, nodes=nodes))
    assert max(measured) <= sharp_smoothness_bound(sigma) * tolerance
    assert max(measured) <= smoothness_bound(sigma)
    assert max(measured) > smoothness_lower_bound(sigma) / 2


def test_bounds_in_numbers() -> None:
    assert smoothness_bound(0.5) == 8.0
    assert smoothness_bound(0.5, -1.0, 1.0) == 16.0
    assert sharp_smoothness_bound(1.0) == pytest.approx(2 * norm.pdf(1.0), rel=1e-14)
    assert smoothness_lower_bound(1.0) == pytest.approx(norm.pdf(1.0), rel=1e-14)
    assert sharp_smoothness_bound(2.0, 0.0, 3.0) == pytest.approx(sharp_smoothness_bound(1.0) * 3 / 4)


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="sigma must be positive; given: 0"):
        smoothness_bound(0.0)
    with pytest.raises(UserError, match=r"the lower first; given: 1\.0, 0\.0"):
        sharp_smoothness_bound(1.0, 1.0, 0.0)
