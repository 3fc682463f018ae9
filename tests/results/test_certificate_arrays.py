"""Certificates as arrays: what is derived from counts, rows of them, and several put together."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from shieldwall.errors import UserError
from shieldwall.results.certificates import Certificates
from shieldwall.vocabulary import ABSTAIN

COUNTS = np.array([[9, 1, 0], [3, 4, 3], [0, 0, 12]])
MADE = Certificates(
    labels=np.array([0, ABSTAIN, 2]),
    radii=np.array([0.5, 0.0, 0.75]),
    p_lower=np.array([0.8, 0.1, 0.9]),
    counts=COUNTS,
    selection_counts=np.array([[5, 0, 0], [2, 3, 0], [0, 0, 5]]),
    alpha=0.001,
    bound="sequential(12)",
    noise="laplace(0.5)",
    norm="l1",
)


def test_the_samples_are_counted():
    assert MADE.n is not None
    assert MADE.n.tolist() == [10, 10, 12]
    assert (MADE.n0, MADE.max_n, MADE.bound_kind) == (5, 12, "sequential")
    by_member = Certificates(MADE.labels, MADE.radii, counts=np.stack([COUNTS, COUNTS[:, ::-1]], axis=1))
    assert by_member.n is not None
    assert by_member.n.tolist() == [10, 10, 12]


@pytest.mark.parametrize(
    ("noise", "sigma"),
    [
        ("gaussian(0.25)", 0.25),
        ("exact-gaussian(0.25)", 0.25),
        ("uniform(0.75)", 0.75 / 3**0.5),
        ("laplace(0.5)", 0.5 * 2**0.5),
        ("speckle(0.5)", None),
        ("gaussian", None),
        (None, None),
    ],
)
def test_sigma_is_the_standard_deviation_of_the_noise(noise: str | None, sigma: float | None):
    assert replace(MADE, noise=noise).sigma == (None if sigma is None else pytest.approx(sigma, rel=1e-15))


def test_rows_and_their_concatenation():
    first, rest = MADE[:1], MADE[np.array([1, 2])]
    assert (len(first), len(rest)) == (1, 2)
    both = Certificates.concat([first, rest])
    for name in ("labels", "radii", "p_lower", "counts", "selection_counts", "n"):
        np.testing.assert_array_equal(getattr(both, name), getattr(MADE, name))
    assert (both.alpha, both.bound, both.n0, both.seed) == (0.001, "sequential(12)", 5, None)


def test_what_differs_among_parts_is_not_known_of_all():
    both = Certificates.concat([MADE, replace(MADE, alpha=0.01, p_lower=None)])
    assert (both.alpha, both.p_lower, both.noise) == (None, None, "laplace(0.5)")
    with pytest.raises(UserError, match="different norms"):
        Certificates.concat([MADE, replace(MADE, norm="l2")])


def test_the_right_classes_tell_what_is_correct():
    assert MADE.with_truth([0, 1, 0]).correct.tolist() == [True, False, False]
    with pytest.raises(UserError, match="3 certificates need as many true classes"):
        MADE.with_truth([0, 1])
    with pytest.raises(UserError, match="with_truth"):
        _ = MADE.correct


def test_certificates_need_no_torch():
    code = "import sys, shieldwall.results.certificates; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
