"""Consistency regularisation against scipy, image by image."""

import math

import numpy as np
import pytest
import torch
from loss_tools import loss_at
from scipy.special import softmax
from scipy.stats import entropy
from torch import nn

import shieldwall as sw
from shieldwall.training.member_methods import Consistency

X = torch.rand(4, 1, 2, 2, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 0])


def member(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 3))


@pytest.mark.parametrize("num_noise", [2, 5])
def test_loss_is_the_formula(num_noise: int) -> None:
    objective = Consistency(sw.Gaussian(0.7), num_noise, lam=10.0, eta=0.5)
    members = [member(0), member(1)]
    loss = loss_at(objective, members, X, Y, torch.Generator().manual_seed(4))
    noise = 0.7 * torch.randn(num_noise, 4, 1, 2, 2, generator=torch.Generator().manual_seed(4))
    expected, divergence = 0.0, 0.0
    for one in members:
        for image, label in enumerate(Y.tolist()):
            logits = one(X[image] + noise[:, image]).detach().double().numpy()
            p_by_copy = [softmax(row) for row in logits]
            p = np.mean(p_by_copy, axis=0)
            cross_entropy = np.mean([-math.log(row[label]) for row in p_by_copy])
            disagreement = np.mean([entropy(p, row) for row in p_by_copy])
            expected += (cross_entropy + 10 * disagreement + 0.5 * entropy(p)) / len(Y)
            divergence += disagreement / len(Y) / 2
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-5)
    assert float(loss.terms["divergence"]) == pytest.approx(divergence, rel=1e-4)


def test_copies_that_agree_pay_for_entropy_alone() -> None:
    deaf = member()
    with torch.no_grad():
        deaf[1].weight.zero_()
        deaf[1].bias.copy_(torch.tensor([0.5, 0.25, 0.25]).log())
    loss = loss_at(Consistency(sw.Gaussian(0.7), lam=10.0, eta=0.5), [deaf], X, Y, torch.Generator())
    assert float(loss.terms["divergence"]) == pytest.approx(0, abs=1e-6)
    assert float(loss.terms["entropy"]) == pytest.approx(1.5 * math.log(2), rel=1e-6)
    assert float(loss.terms["cross_entropy"]) == pytest.approx(1.5 * math.log(2), rel=1e-6)
    assert float(loss.total.detach()) == pytest.approx(1.5 * 1.5 * math.log(2), rel=1e-6)


def test_the_literature_s_defaults() -> None:
    objective = Consistency(sw.Gaussian(0.5))
    assert (objective.num_noise, objective.lam, objective.eta) == (2, 10, 0.5)
