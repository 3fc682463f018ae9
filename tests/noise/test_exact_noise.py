"""Exact noise: its table against Phi by another series at 120 digits, its draws against its table."""

import bisect
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import ndtr
from torch import Tensor

from shieldwall import UserError
from shieldwall.noise.distributions import ExactGaussian, Gaussian
from shieldwall.noise.exact import _table, upper_count, upper_thresholds

CPU = torch.device("cpu")
HALF = Decimal("0.5")
IMAGENET = 3 * 224 * 224


@lru_cache
def pi() -> Decimal:
    """By Machin's formula: 16 arctan(1/5) - 4 arctan(1/239)."""

    def arctan_inverse(n: int) -> Decimal:
        return sum((Decimal((-1) ** k) / ((2 * k + 1) * n ** (2 * k + 1)) for k in range(90)), Decimal(0))

    return 16 * arctan_inverse(5) - 4 * arctan_inverse(239)


def phi(x: Decimal) -> Decimal:
    """1/2 + (2 pi)^-1/2 sum_n (-1)^n x^(2n+1) / (2^n n! (2n+1)), whose terms cancel: hence 120 digits."""
    term, total, n = x, x, 0
    while abs(term) > Decimal("1e-60") or n < 50:
        n += 1
        term = -term * x * x / (2 * n)
        total += term / (2 * n + 1)
    return HALF + total / (2 * pi()).sqrt()


def boundary(k: int, sigma: float) -> Decimal:
    """The one between k - 1 and k."""
    return (k - HALF) / (255 * Decimal(sigma))


@pytest.mark.parametrize("sigma", [0.0123, 0.25, 1.0])
def test_thresholds_are_the_nearest_integers(sigma: float) -> None:
    thresholds = upper_thresholds(sigma)
    assert len(thresholds) == upper_count(sigma)
    with localcontext(prec=120):
        assert abs(phi(Decimal(1)) - Decimal("0.841344746068542948585232545632")) < Decimal("1e-30")
        for k in {1, 2, len(thresholds), *range(5, len(thresholds), 61)}:
            assert abs(thresholds[k - 1] - 2**63 * phi(boundary(k, sigma))) <= HALF + Decimal(2) ** -26
        assert boundary(len(thresholds), sigma) <= 9 < boundary(len(thresholds) + 1, sigma)
    ks = np.arange(1, len(thresholds) + 1)
    near = np.array(thresholds, dtype=np.float64) / 2**63
    np.testing.assert_allclose(near, ndtr((ks - 0.5) / (255 * sigma)), rtol=0, atol=3e-16)
    assert thresholds == sorted(thresholds)
    assert thresholds[-1] < 2**63


def table_counts(sigma: float) -> list[int]:
    """How many of the 2^63 integers give -K, ..., K."""
    ends = [0, *_table(sigma, CPU).thresholds.tolist(), 2**63]
    return [upper - lower for lower, upper in pairwise(ends)]


@pytest.mark.parametrize("sigma", [0.0123, 0.05])
def test_the_distance_from_the_ideal_is_below_what_is_promised(sigma: float) -> None:
    counts = table_counts(sigma)
    assert sum(counts) == 2**63
    assert counts == counts[::-1]
    last = len(counts) // 2
    with localcontext(prec=120):
        below = [phi(boundary(k, sigma)) for k in range(-last, last + 2)]
        ideal = [upper - lower for lower, upper in pairwise(below)]
        tails = 2 * below[0]
        parts = [abs(Decimal(count) / 2**63 - p) for count, p in zip(counts, ideal, strict=True)]
        distance = (sum(parts, Decimal(0)) + tails) / 2
    assert 0 < distance <= Decimal(ExactGaussian(sigma).total_variation(1))


def test_the_sampling_error_grows_with_size_and_sigma_and_stays_small() -> None:
    sizes = [ExactGaussian(0.25).total_variation(size) for size in (1, 64, 3072, IMAGENET)]
    sigmas = [ExactGaussian(sigma).total_variation(IMAGENET) for sigma in (0.12, 0.25, 0.5, 1.0, 16.0)]
    for errors in (sizes, sigmas):
        assert errors == sorted(errors)
        assert 0 < errors[0] < errors[-1] < 1e-9
    assert sizes[-1] == pytest.approx(IMAGENET * sizes[0])


@pytest.mark.parametrize("sigma", [0.0001, 0.0123, 0.25, 1.0])
def test_looking_up_is_counting_thresholds(sigma: float) -> None:
    table = _table(sigma, CPU)
    thresholds = table.thresholds.tolist()
    u = torch.empty(20_000, dtype=torch.int64).random_(generator=torch.Generator().manual_seed(0)).tolist()
    u += [0, 2**63 - 1, *(2**47 * cell + off for cell in (1, 77, 2**16 - 1) for off in (-1, 0))]
    u += [threshold + off for threshold in thresholds for off in (-1, 0)]
    expected = [bisect.bisect_right(thresholds, one) - len(thresholds) // 2 for one in u]
    looked_up = table.look_up(torch.tensor(u))
    assert table.search(torch.tensor(u)).equal(looked_up)
    found = looked_up.double() * 255
    assert found.round().long().tolist() == expected
    assert (found - found.round()).abs().max() < 1e-3


def test_random_integers_fill_63_bits() -> None:
    """Every bit set in half of 100,000 draws, to 6 standard errors: false alarm below 63 * 2e-9."""
    u = torch.empty(100_000, dtype=torch.int64).random_(generator=torch.Generator().manual_seed(1))
    assert (u >= 0).all()
    shares = ((u[:, None] >> torch.arange(63)) & 1).double().mean(0)
    assert (shares - 0.5).abs().max() < 6 * 0.5 / 100_000**0.5


@pytest.mark.parametrize("sigma", [0.0123, 0.25, 1.0])
def test_draws_follow_the_table(sigma: float) -> None:
    """A chi-square test that fails by chance with probability 1e-7."""
    draws = 500_000
    drawn = ExactGaussian(sigma).sample((500, 1000), torch.Generator().manual_seed(2))
    assert drawn.shape == (500, 1000)
    assert drawn.dtype == torch.float32
    ks = (drawn.flatten().double() * 255).round().long().numpy()
    edges = np.unique((stats.norm.ppf(np.linspace(0.002, 0.998, 200)) * 255 * sigma).round()) + 0.5
    p = np.diff(ndtr(edges / (255 * sigma)), prepend=0, append=1)
    observed = np.bincount(np.searchsorted(edges, ks), minlength=len(p))
    assert (draws * p).min() > 5
    statistic = float(((observed - draws * p) ** 2 / (draws * p)).sum())
    assert stats.chi2.sf(statistic, len(p) - 1) > 1e-7


def test_draws_are_those_of_the_generator_and_no_more_than_needed() -> None:
    noise = ExactGaussian(0.25)
    whole = noise.sample((4, 32), torch.Generator().manual_seed(5))
    generator = torch.Generator().manual_seed(5)
    assert whole.equal(torch.cat([noise.sample((2, 32), generator) for _ in range(2)]))
    assert not whole.equal(noise.sample((4, 32), torch.Generator().manual_seed(6)))


def on_the_grid() -> Tensor:
    return torch.arange(256, dtype=torch.uint8).float() / 255


@pytest.mark.parametrize("sigma", [0.25, 16.0])
def test_the_noisy_pixel_is_a_function_of_the_integer_alone(sigma: float) -> None:
    x = on_the_grid()
    largest = upper_count(sigma)
    ks = torch.cat([torch.arange(-largest, -largest + 500), torch.arange(-500, largest + 1, 7)])
    drawn = (ks.double() / 255).float()[:, None].repeat(1, 256)
    noisy = ExactGaussian(sigma).perturb(x, drawn)
    integers = (torch.arange(256) + ks[:, None]).float()
    assert noisy.equal(integers / 255)


def test_integer_noise_is_rounded_continuous_noise_on_the_grid() -> None:
    """round(255 (x + e)) = i + round(255 e), with room for float64 next to a half."""
    generator = torch.Generator().manual_seed(7)
    i = torch.randint(0, 256, (100_000,), generator=generator)
    e = torch.randn(100_000, generator=generator, dtype=torch.float64) * 0.25
    clear = ((255 * e).frac().abs() - 0.5).abs() > 1e-9
    assert clear.float().mean() > 0.99
    direct = (255 * (i.double() / 255 + e)).round()
    assert direct[clear].equal((i + (255 * e).round())[clear])


def test_inputs_must_lie_on_the_grid() -> None:
    noise = ExactGaussian(0.25)
    noise.validate(on_the_grid().reshape(1, 1, 16, 16))
    noise.validate(on_the_grid() * 255 * (1 / 255))
    noise.validate(torch.tensor([-1.0, 3.0]))
    shown = {0.5: "127.5/255", 0.1234: "31.467/255", 100.5 / 255: "100.5/255", 1e6: "2.55e"}
    for value, text in shown.items():
        with pytest.raises(UserError, match=f"multiples of 1/255; given: .*{text}"):
            noise.validate(torch.tensor([0.0, value, 1.0]))
    with pytest.raises(UserError, match="multiples"):
        noise.validate(torch.tensor([10 / 255 + 1e-6]))


def test_it_is_gaussian_noise_of_its_own_name() -> None:
    noise = ExactGaussian(0.25)
    p = np.linspace(0.5, 0.99, 20)
    assert np.array_equal(noise.radius(p), Gaussian(0.25).radius(p))
    assert np.array_equal(noise.radius(p, 0.1), Gaussian(0.25).radius(p, 0.1))
    assert (noise.norm, noise.sigma, str(noise)) == ("l2", 0.25, "exact-gaussian(0.25)")
    assert isinstance(noise, Gaussian)
    assert noise != Gaussian(0.25)


def test_sigmas_that_are_refused() -> None:
    with pytest.raises(UserError, match="sigma of at most 16; given: 17"):
        ExactGaussian(17.0)
    with pytest.raises(UserError, match="positive number; given: 0"):
        ExactGaussian(0.0)


def test_a_table_made_in_inference_mode_serves_outside() -> None:
    _table.cache_clear()
    noise = ExactGaussian(0.03)
    with torch.inference_mode():
        inside = noise.sample((64,), torch.Generator().manual_seed(0))
    outside = noise.sample((64,), torch.Generator().manual_seed(0))
    assert outside.equal(inside)
    assert not outside.is_inference()
    (outside.mul_(2) * torch.ones(64, requires_grad=True)).sum().backward()
