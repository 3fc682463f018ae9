"""Noise by what a certificate file says of it."""

import pytest

import shieldwall as sw
from shieldwall.noise.distributions import Noise, parse_noise


@pytest.mark.parametrize(
    "noise", [sw.Gaussian(0.25), sw.ExactGaussian(0.5), sw.Uniform(0.1), sw.Laplace(1e-3)]
)
def test_what_is_printed_is_read_back(noise: Noise) -> None:
    assert parse_noise(str(noise)) == noise
    assert type(parse_noise(str(noise))) is type(noise)


@pytest.mark.parametrize("text", ["", "gaussian", "gaussian()", "gaussian(a)", "cauchy(1)", "0.25"])
def test_what_names_no_noise(text: str) -> None:
    with pytest.raises(sw.UserError, match="noise is recorded as gaussian"):
        parse_noise(text)


def test_a_scale_that_cannot_be_is_refused_as_ever() -> None:
    with pytest.raises(sw.UserError, match="sigma must be a positive number; given: -1"):
        parse_noise("gaussian(-1)")
