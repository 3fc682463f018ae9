"""WE alone: members run only where they can change the label, and every count is that of all passes."""

from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall import UserError
from shieldwall.ensembles.votes import Vote, weighted

NOISE, SHAPE, CLASSES = sw.Gaussian(0.5), (2, 6, 6), 4
X = torch.rand(6, *SHAPE, generator=torch.Generator().manual_seed(1))


class Member(nn.Module):
    """A small network whose confidences are near 0 and 1 for a large steepness; it notes its batches."""

    batches: ClassVar[Counter[tuple[int, int]]] = Counter()

    def __init__(self, number: int, steepness: float = 30.0) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.layers = nn.Sequential(nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, CLASSES))
        self.number, self.steepness = number, steepness

    def forward(self, x: Tensor) -> Tensor:
        self.batches[self.number, len(x)] += 1
        scores: Tensor = self.steepness * self.layers(x)
        return scores


@pytest.mark.parametrize("steepness", [0.5, 5.0, 50.0])
@pytest.mark.parametrize(("count", "precision"), [(3, "float32"), (4, "bfloat16"), (5, "float32")])
def test_counts_are_those_of_all_passes(count: int, precision: str, steepness: float) -> None:
    members = [Member(k, steepness) for k in range(count)]
    options = [{"n": 700, "batch_size": 64}, {"n": 300, "batch_size": 999}, {"n": 1_000, "radii": [0.1, 0.3]}]
    for option in options:
        alone, beside = (
            sw.certify_members(members, X, noise=NOISE, votes=votes, n0=20, precision=precision, **option)[
                "we"
            ]
            for votes in (["we"], ["we", Vote("the same", weighted)])
        )
        for name in ("counts", "selection_counts", "labels", "radii"):
            assert np.array_equal(getattr(alone, name), getattr(beside, name))


def test_passes_are_spared_and_batches_stay_full() -> None:
    members = [Member(k) for k in range(3)]
    for member in members[1:]:  # they agree
        member.load_state_dict(members[0].state_dict())
    Member.batches.clear()
    sw.certify_members(members, X, noise=NOISE, votes=["we"], n0=20, n=2_000, batch_size=64)
    passes = [Member.batches[k, 64] for k in range(3)]
    assert passes[0] == passes[1] >= 6 * 2_020 / 64
    assert 6 <= passes[2] < 0.5 * passes[0]
    assert {rows for _, rows in Member.batches} <= {1, 4, 64}  # 1 and 4 before anything is counted


def test_scores_that_are_not_numbers_are_refused() -> None:
    members = [Member(k) for k in range(3)]
    with torch.no_grad():
        members[2].layers[3].bias[1] = float("nan")
    with pytest.raises(UserError, match="NaN scores"):
        sw.certify_members(members, X, noise=NOISE, votes=["we"], n0=20, n=500)
