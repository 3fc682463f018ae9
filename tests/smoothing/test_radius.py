"""Radii in other norms: random points for soundness, the extreme ones for tightness."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from shieldwall import UserError
from shieldwall.smoothing.count_bounds import in_norm
from shieldwall.vocabulary import NORMS

ORDER = {"l1": 1, "l2": 2, "linf": math.inf}
PAIRS = list(product(NORMS, NORMS))


@pytest.mark.parametrize(("native", "wanted"), PAIRS)
@pytest.mark.parametrize("size", [1, 2, 3, 17, 3072])
def test_the_ball_lies_inside_and_touches(native: str, wanted: str, size: int) -> None:
    radius = 0.7
    found = in_norm(radius, native, wanted, size)
    rng = np.random.default_rng(size)
    extremes = [np.ones(size), np.eye(size)[0]]
    points = np.stack([*rng.normal(size=(50, size)), *rng.laplace(size=(50, size)) ** 3, *extremes])
    points *= found / np.linalg.norm(points, ord=ORDER[wanted], axis=1, keepdims=True)
    lengths = np.linalg.norm(points, ord=ORDER[native], axis=1)
    assert lengths.max() <= radius * (1 + 1e-12)
    assert lengths[-2:].max() == pytest.approx(radius, rel=1e-12)


def test_formulas() -> None:
    assert in_norm(1.0, "l2", "l1", 100) == 1.0
    assert in_norm(1.0, "l2", "linf", 100) == 0.1
    assert in_norm(1.0, "l1", "l2", 100) == 0.1
    assert in_norm(1.0, "l1", "linf", 100) == 0.01


@pytest.mark.parametrize("norm", NORMS)
def test_the_same_norm_changes_nothing(norm: str) -> None:
    radii = np.random.default_rng(0).random(100)
    assert np.array_equal(in_norm(radii, norm, norm, 784), radii)


def test_arrays_and_tensors_stay_what_they_are() -> None:
    radii = np.array([0.0, 1.0, 2.0])
    assert in_norm(radii, "l2", "linf", 4).tolist() == [0.0, 0.5, 1.0]
    found = in_norm(torch.from_numpy(radii), "l2", "linf", 4)
    assert found.dtype == torch.float64
    assert found.tolist() == [0.0, 0.5, 1.0]


def test_refusals() -> None:
    with pytest.raises(UserError, match="unknown norm 'l3'; did you mean"):
        in_norm(1.0, "l2", "l3", 4)
    with pytest.raises(UserError, match="unknown norm 'gaussian'; choose from l1, l2, linf"):
        in_norm(1.0, "gaussian", "l2", 4)
    with pytest.raises(UserError, match="at least one dimension; given: 0"):
        in_norm(1.0, "l2", "linf", 0)
