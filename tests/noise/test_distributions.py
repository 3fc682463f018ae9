"""Noise: radii against adversaries whose probabilities are known exactly, and draws against distributions."""

import copy
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr, ndtri

from shieldwall import UserError, vocabulary
from shieldwall.noise.distributions import (
    KINDS,
    Gaussian,
    Laplace,
    Noise,
    Uniform,
    noise_by_name,
    standard_laplace,
)

Array = NDArray[np.float64]
SCALE = 0.4
NOISES = [Gaussian(SCALE), Uniform(SCALE), Laplace(SCALE)]
each_noise = pytest.mark.parametrize("noise", NOISES, ids=str)


def distribution(noise: Noise) -> stats.rv_continuous:
    if isinstance(noise, Gaussian):
        return stats.norm(0, noise.sigma)
    if isinstance(noise, Uniform):
        return stats.uniform(-noise.lam, 2 * noise.lam)
    assert isinstance(noise, Laplace)
    return stats.laplace(0, noise.lam)


def cdf(noise: Noise, e: Array) -> Array:
    if isinstance(noise, Gaussian):
        return ndtr(e / noise.sigma)
    if isinstance(noise, Uniform):
        return np.clip((e + noise.lam) / (2 * noise.lam), 0, 1)
    assert isinstance(noise, Laplace)
    tail = np.exp(-np.abs(e) / noise.lam) / 2
    return np.where(e < 0, tail, 1 - tail)


def probability(noise: Noise, edges: Array, shifts: Array) -> Array:
    """P of the union of intervals between edges 0 and 1, 2 and 3, ..., with the noise about each shift."""
    below = cdf(noise, edges - shifts[:, None])
    return (below[:, 1::2] - below[:, ::2]).sum(1)


def intervals(rng: np.random.Generator) -> Array:
    """Up to six intervals; the outermost ones often reach to infinity."""
    edges = np.sort(rng.laplace(0, 2 * SCALE, size=2 * rng.integers(1, 7)))
    if rng.random() < 0.4:
        edges[0] = -np.inf
    if rng.random() < 0.4:
        edges[-1] = np.inf
    return edges


@each_noise
def test_no_pair_of_events_changes_places_within_the_radius(noise: Noise) -> None:
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(400):
        a, b = intervals(rng), intervals(rng)
        p_a, p_b = (float(probability(noise, one, np.zeros(1))[0]) for one in (a, b))
        if p_a < p_b:
            a, b, p_a, p_b = b, a, p_b, p_a
        if p_a - p_b < 1e-9:
            continue
        radius = float(noise.radius(p_a, p_b))
        shifts = min(radius, 20 * SCALE) * np.linspace(-0.999999, 0.999999, 81)
        assert (probability(noise, a, shifts) >= probability(noise, b, shifts) - 1e-13).all()
        largest = max(largest, radius)
    assert largest > 0.3 * SCALE


@each_noise
def test_no_class_of_a_plane_loses_within_the_radius(noise: Noise) -> None:
    """Classifiers that label the cells of a grid at random: all their probabilities are sums of products."""
    rng = np.random.default_rng(1)
    edges = np.array([-np.inf, *np.linspace(-2, 2, 9) * SCALE, np.inf])
    cells = len(edges) - 1
    angles = np.linspace(0, 2 * math.pi, 64, endpoint=False)
    directions = np.stack([np.cos(angles), np.sin(angles)])
    directions /= np.linalg.norm(directions, ord={"l1": 1, "l2": 2}[noise.norm], axis=0)

    def class_probabilities(labels: NDArray[np.int64], shifts: Array) -> Array:
        masses = [np.diff(cdf(noise, edges - shift[:, None])) for shift in shifts]
        members = (labels == np.arange(3)[:, None, None]).astype(float)
        return np.einsum("sx,sy,cxy->sc", *masses, members)

    separated = 0
    for _ in range(200):
        slope = rng.normal(size=2)
        leaning = slope[0] * np.arange(cells)[:, None] + slope[1] * np.arange(cells) > rng.normal(4.5, 4)
        labels = np.where(rng.random((cells, cells)) < 0.8, leaning, rng.integers(0, 3, (cells, cells)))
        here = class_probabilities(labels, np.zeros((2, 1)))[0]
        top = int(here.argmax())
        second = float(np.delete(here, top).max())
        for p_b in {None, second} if here[top] > 0.5 else {second}:
            radius = float(noise.radius(here[top], p_b))
            there = class_probabilities(labels, 0.999999 * radius * directions)
            assert (there.argmax(1) == top).all()
            separated += radius > 0.1 * SCALE
    assert separated > 100


def first_loss(noise: Noise, a: Array, b: Array, radius: float) -> float:
    """The smallest shift to the right at which b is as likely as a, among multiples of radius/1000."""
    shifts = radius * np.arange(1, 2001) / 1000
    lost = probability(noise, a, shifts) <= probability(noise, b, shifts) + 1e-12
    return float(shifts[lost.argmax()]) if lost.any() else math.inf


@each_noise
@pytest.mark.parametrize("p", [0.51, 0.6, 0.75, 0.9, 0.999])
def test_the_radius_is_that_of_the_half_line_against_the_rest(noise: Noise, p: float) -> None:
    end = distribution(noise).ppf(p)
    radius = float(noise.radius(p))
    found = first_loss(noise, np.array([-np.inf, end]), np.array([end, np.inf]), radius)
    assert found == pytest.approx(radius, rel=1e-9)


@each_noise
@pytest.mark.parametrize(("p_a", "p_b"), [(0.4, 0.01), (0.45, 0.05), (0.99, 0.6), (0.95, 0.55)])
def test_the_radius_with_both_probabilities_is_that_of_opposite_half_lines(
    noise: Noise, p_a: float, p_b: float
) -> None:
    d = distribution(noise)
    a, b = np.array([-np.inf, d.ppf(p_a)]), np.array([d.isf(p_b), np.inf])
    radius = float(noise.radius(p_a, p_b))
    assert first_loss(noise, a, b, radius) == pytest.approx(radius, rel=1e-9)


@each_noise
def test_the_rest_as_one_class_is_the_worst_case(noise: Noise) -> None:
    p = np.array([0.5, 0.5001, 0.6, 0.9, 0.9999, 1 - 1e-9])
    np.testing.assert_allclose(noise.radius(p, 1 - p), noise.radius(p), rtol=1e-6, atol=1e-12)
    assert (noise.radius(p[1:], (1 - p[1:]) / 2) > noise.radius(p[1:])).all()
    assert float(noise.radius(0.5)) == 0.0


def test_formulas() -> None:
    p = np.linspace(0.5, 0.999, 100)
    assert np.array_equal(Gaussian(0.25).radius(p), 0.25 * ndtri(p))
    np.testing.assert_allclose(Gaussian(0.5).radius(0.8, 0.1), 0.25 * (ndtri(0.8) - ndtri(0.1)), rtol=1e-15)
    np.testing.assert_allclose(Uniform(0.5).radius(p), 2 * 0.5 * (p - 0.5), rtol=1e-15)
    np.testing.assert_allclose(Uniform(0.5).radius(0.8, 0.1), 0.35, rtol=1e-15)
    np.testing.assert_allclose(Laplace(0.5).radius(p), -0.5 * np.log(2 * (1 - p)), rtol=1e-12)
    np.testing.assert_allclose(Laplace(0.5).radius(0.8, 0.1), -0.5 * math.log(0.3), rtol=1e-12)
    np.testing.assert_allclose(Laplace(0.5).radius(0.4, 0.001), 0.25 * math.log(400), rtol=1e-12)


@each_noise
def test_radii_at_the_ends_are_numbers_without_a_warning(noise: Noise) -> None:
    p_a, p_b = (
        np.array([1.0, 1.0, 0.5, 0.0, 1.0, np.nextafter(0.3, 1)]),
        np.array([0.0, 0.5, 0.0, 0.0, 1.0, 0.3]),
    )
    assert (noise.radius(p_a, p_b) >= 0).all()
    assert not np.isnan(noise.radius([0.0, 0.3, 1.0])).any()


@each_noise
def test_draws_follow_the_distribution(noise: Noise) -> None:
    """The Kolmogorov-Smirnov test at 1e-7, and moments within 6 standard errors (2e-9)."""
    drawn = noise.sample((100, 2000), torch.Generator().manual_seed(3))
    assert drawn.shape == (100, 2000)
    assert drawn.dtype == torch.float32
    values = drawn.double().flatten().numpy()
    ideal = distribution(noise)
    sigma = noise_by_name(str(noise).partition("(")[0], noise.sigma).sigma
    assert sigma == pytest.approx(ideal.std(), rel=1e-12)
    assert stats.kstest(values, ideal.cdf).pvalue > 1e-7
    error = sigma / math.sqrt(len(values))
    assert abs(values.mean()) < 6 * error
    kurtosis = float(ideal.stats(moments="k")) + 3
    assert abs((values**2).mean() - sigma**2) < 6 * sigma * error * math.sqrt(kurtosis - 1)
    neighbours = (values[1:] * values[:-1]).mean()
    assert abs(neighbours) < 6 * sigma * error


@each_noise
def test_draws_are_those_of_the_generator_and_no_more_than_needed(noise: Noise) -> None:
    whole = noise.sample((4, 32), torch.Generator().manual_seed(5))
    assert whole.equal(noise.sample((4, 32), torch.Generator().manual_seed(5)))
    generator = torch.Generator().manual_seed(5)
    assert whole.equal(torch.cat([noise.sample((2, 32), generator) for _ in range(2)]))
    assert not whole.equal(noise.sample((4, 32), torch.Generator().manual_seed(6)))


def test_laplace_is_finite_and_symmetric_for_every_uniform_number() -> None:
    steps = torch.cat([torch.arange(2**23 - 500, 2**23), torch.arange(0, 500)])
    upper = standard_laplace(steps.float() * 2.0**-23)
    lower = standard_laplace((-1 - steps).float() * 2.0**-23)
    assert upper.isfinite().all()
    assert (upper > 0).all()
    assert lower.equal(-upper)
    assert float(upper.max()) == pytest.approx(24 * math.log(2), rel=1e-6)


@each_noise
def test_defaults(noise: Noise) -> None:
    x, drawn = torch.rand(3, 4), torch.rand(5, 3, 4)
    expected = x + drawn
    assert noise.perturb(x, drawn).equal(expected)
    assert noise.total_variation(150_528) == 0.0
    noise.validate(torch.tensor([0.1234]))
    assert noise.norm == ("l2" if isinstance(noise, Gaussian) else "l1")
    assert copy.copy(noise) == noise
    with pytest.raises(FrozenInstanceError):
        noise.norm = "linf"  # type: ignore[misc]


def test_the_kinds_of_noise_are_those_that_recipes_and_certificates_may_name() -> None:
    assert list(KINDS) == list(vocabulary.NOISES)
    assert {str(noise).partition("(")[0]: noise.sigma / SCALE for noise in NOISES} == pytest.approx(
        vocabulary.NOISES
    )


@pytest.mark.parametrize("kind", KINDS)
def test_noise_by_name_has_the_standard_deviation_asked_for(kind: str) -> None:
    noise = noise_by_name(kind, 0.25)
    assert noise.sigma == pytest.approx(0.25, rel=1e-15)  # type: ignore[attr-defined]
    assert str(noise).startswith(f"{kind}(0.")


def test_names() -> None:
    assert noise_by_name("gaussian", 0.25) == Gaussian(0.25)
    assert str(noise_by_name("gaussian", 0.25)) == "gaussian(0.25)"
    assert str(Uniform(0.433)) == "uniform(0.433)"
    assert str(Laplace(1 / 3)) == f"laplace({1 / 3!r})"
    with pytest.raises(UserError, match="unknown noise 'laplas'; did you mean 'laplace'"):
        noise_by_name("laplas", 0.25)


@pytest.mark.parametrize("kind", [Gaussian, Uniform, Laplace])
@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_bad_scales(kind: Callable[[float], Noise], scale: float) -> None:
    with pytest.raises(UserError, match=r"must be a positive number; given: "):
        kind(scale)
