"""Gaussian augmentation against the cross-entropy worked out on the noise it was given."""

import pytest
import torch
from loss_tools import loss_at
from torch import nn
from torch.nn import functional as F

import shieldwall as sw
from shieldwall.training.registry import build_objective

X = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 0, 1])


def members(count: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Flatten(), nn.Linear(16, 3)) for _ in range(count)]


@pytest.mark.parametrize("num_noise", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 3])
def test_loss_is_the_sum_over_members_of_the_mean_over_copies(num_noise: int, count: int) -> None:
    parts = members(count)
    objective = sw.GaussianAugmentation(sw.Gaussian(0.7), num_noise)
    loss = loss_at(objective, parts, X, Y, torch.Generator().manual_seed(4))
    noise = 0.7 * torch.randn(num_noise * 5, 1, 4, 4, generator=torch.Generator().manual_seed(4))
    expected = torch.zeros(())
    for part in parts:
        for copy in noise.split(5):
            expected = expected + F.cross_entropy(part(X + copy), Y) / num_noise
    assert torch.allclose(loss.total, expected)
    assert torch.allclose(loss.terms["cross_entropy"], expected / count)
    assert 0 <= float(loss.terms["noisy_accuracy"]) <= 1
    loss.total.backward()
    assert all(parameter.grad is not None for part in parts for parameter in part.parameters())


def test_it_is_built_by_name_with_its_options() -> None:
    noise = sw.Gaussian(0.5)
    assert build_objective({"name": "gaussian", "num_noise": 3}, noise) == sw.GaussianAugmentation(noise, 3)
    with pytest.raises(sw.UserError, match="did you mean 'gaussian'"):
        build_objective({"name": "gausian"}, noise)
    with pytest.raises(sw.UserError, match=r"did you mean 'objective\.num_noise'"):
        build_objective({"name": "gaussian", "num_nose": 3}, noise)
    with pytest.raises(sw.UserError, match="num_noise"):
        build_objective({"name": "gaussian", "num_noise": 0}, noise)
    with pytest.raises(sw.UserError, match="name"):
        build_objective({}, noise)
