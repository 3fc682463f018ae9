"""PREDICT: the test between the two leading classes, and how often it errs."""

import pytest
import torch
from linear import Linear
from scipy.stats import binom, binomtest
from torch import Tensor

import shieldwall as sw


def test_labels_and_p_values_follow_the_counts() -> None:
    model = Linear(12)
    x = torch.rand(20, 12, generator=torch.Generator().manual_seed(2))
    found = sw.predict(model, x, noise=sw.Gaussian(1.0), n=200, alpha=0.01, seed=0)
    for k in range(len(x)):
        counts = found.counts[k].tolist()
        p_value = binomtest(max(counts), sum(counts), 0.5).pvalue
        assert abs(float(found.p_values[k]) - p_value) < 1e-12
        expected = counts.index(max(counts)) if p_value <= 0.01 else sw.ABSTAIN
        assert int(found.labels[k]) == expected
    assert sw.ABSTAIN in found.labels.tolist()
    assert len(set(found.labels.tolist())) > 1


def test_the_seed_is_fresh_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(20, 12, generator=torch.Generator().manual_seed(2))

    def counts(**seed: int) -> list[list[int]]:
        return sw.predict(Linear(12), x, noise=sw.Gaussian(1.0), n=200, **seed).counts.tolist()

    assert counts(seed=5) == counts(seed=5) != counts(seed=6)
    fresh = iter((5, 6))
    monkeypatch.setattr("secrets.randbits", lambda bits: next(fresh))
    assert [counts(), counts()] == [counts(seed=5), counts(seed=6)]


def test_a_fair_coin_is_named_no_more_often_than_alpha() -> None:
    """2,000 fair coins at alpha = 5%: a false alarm has probability below 1e-6."""

    def coin(x: Tensor) -> Tensor:
        return torch.stack([x[:, 0], -x[:, 0]], dim=1)

    found = sw.predict(coin, torch.zeros(2_000, 1), noise=sw.Gaussian(1.0), n=100, alpha=0.05, seed=0)
    assert int((found.labels != sw.ABSTAIN).sum()) <= binom.isf(1e-6, 2_000, 0.05)
