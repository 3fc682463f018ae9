"""Counts that cannot be counts make no certificates."""

from typing import Any

import numpy as np
import pytest
import torch

import shieldwall as sw

NOISE = sw.Gaussian(0.5)
GOOD = torch.tensor([[900, 100], [20, 980]])
PARTS = GOOD + 0.5


@pytest.mark.parametrize(
    ("selection", "counts", "message"),
    [
        (GOOD[:1], GOOD, r"must both be \(M, K\).*given shapes: \(1, 2\) and \(2, 2\)"),
        (torch.tensor([[9, 1, 0]]), GOOD[:1], r"given shapes: \(1, 3\) and \(1, 2\)"),
        (GOOD[0], GOOD[0], r"given shapes: \(2,\) and \(2,\)"),
        (GOOD[:, :1], GOOD[:, :1], "K >= 2 classes"),
        (GOOD, PARTS, "^counts must be whole numbers, such as int64; given: float32"),
        (PARTS, GOOD, "^selection_counts must be whole numbers"),
        (GOOD, GOOD > 500, "given: bool"),
        (GOOD, GOOD - 50, "^counts must not be negative; given: -30"),
        (GOOD - 50, GOOD, "^selection_counts must not be negative"),
    ],
)
def test_counts_that_are_refused(selection: Any, counts: Any, message: str) -> None:
    with pytest.raises(sw.UserError, match=message):
        sw.certificates_from_counts(selection, counts, NOISE, 0.001)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan"), "0.001", None])
def test_alphas_that_are_refused(alpha: Any) -> None:
    with pytest.raises(sw.UserError, match="alpha"):
        sw.certificates_from_counts(GOOD, GOOD, NOISE, alpha)
    with pytest.raises(sw.UserError, match="alpha"):
        sw.eas_from_counts(GOOD[None], GOOD[None], NOISE, alpha)


def test_noise_that_is_none_is_refused() -> None:
    with pytest.raises(sw.UserError, match=r"such as sw\.Gaussian\(0\.25\); given: None"):
        sw.certificates_from_counts(GOOD, GOOD, None, 0.001)  # type: ignore[arg-type]
    with pytest.raises(sw.UserError, match=r"such as sw\.Gaussian\(0\.25\); given: None"):
        sw.eas_from_counts(GOOD[None], GOOD[None], None, 0.001)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.array, list, lambda rows: torch.tensor(rows, dtype=torch.uint8)])
@pytest.mark.parametrize("bound", ["one-sided", "two-sided"])
def test_whole_numbers_of_any_kind_give_the_same(kind: Any, bound: str) -> None:
    rows = [[90, 10], [2, 98]]
    wanted = sw.certificates_from_counts(torch.tensor(rows), torch.tensor(rows), NOISE, 0.001, bound=bound)
    found = sw.certificates_from_counts(kind(rows), kind(rows), NOISE, 0.001, bound=bound)
    assert np.array_equal(found.radii, wanted.radii)
    assert np.array_equal(found.counts, wanted.counts)


@pytest.mark.parametrize(
    ("selection", "counts", "message"),
    [
        (GOOD, PARTS, "counts must be whole numbers"),
        (PARTS, GOOD, "selection_counts must be whole numbers"),
        (GOOD, torch.tensor([[1100, -100], [20, 980]]), "counts must not be negative; given: -100"),
    ],
)
def test_members_counts_that_are_refused(selection: Any, counts: Any, message: str) -> None:
    with pytest.raises(sw.UserError, match=message):
        sw.eas_from_counts(selection[None], counts[None], NOISE, 0.001)
