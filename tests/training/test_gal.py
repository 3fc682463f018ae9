"""GAL against gradients of linear softmax members in closed form."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from loss_tools import loss_at
from scipy.special import softmax
from torch import nn

import shieldwall as sw
from shieldwall.training.diversity import GAL, log_mean_exp_cosine

X = torch.rand(4, 1, 2, 2, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 0])


def make_members(count: int) -> list[nn.Module]:
    torch.manual_seed(count)
    return [nn.Sequential(nn.Flatten(), nn.Linear(4, 3)) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_loss_is_the_formula(count: int) -> None:
    """grad_x CE(Wx + b, y) = W^T (softmax(Wx + b) - e_y)."""
    members = make_members(count)
    loss = loss_at(
        GAL(sw.Gaussian(0.7), num_noise=2, weight=0.5), members, X, Y, torch.Generator().manual_seed(4)
    )
    noise = 0.7 * torch.randn(2, 4, 1, 2, 2, generator=torch.Generator().manual_seed(4))
    cross_entropies, alignments = [], []
    for copy in noise:
        for image, label in enumerate(Y.tolist()):
            inputs = (X[image] + copy[image]).flatten().double().numpy()
            gradients = []
            for one in members:
                weight, bias = (parameter.detach().double().numpy() for parameter in one.parameters())
                p = softmax(weight @ inputs + bias)
                cross_entropies.append(-math.log(p[label]))
                gradients.append(weight.T @ (p - np.eye(3)[label]))
            cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in combinations(gradients, 2)]
            if cosines:
                factor = 2 / (count * (count - 1))
                alignments.append(math.log(factor * sum(math.exp(cosine) for cosine in cosines)))
    alignment = np.mean(alignments) if alignments else 0.0
    expected = count * np.mean(cross_entropies) + 0.5 * alignment
    assert float(loss.terms["alignment"]) == pytest.approx(alignment, abs=1e-5)
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-5)


def test_alignment_by_hand() -> None:
    east, north, west = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1e-3]]), torch.tensor([[-5.0, 0.0]])
    for gradients, expected in (
        ([east, east], 1.0),
        ([east, north], 0.0),
        ([east, west], -1.0),
        ([east, east, east], 1.0),
        ([east, north, west], math.log((2 + math.exp(-1)) / 3)),
        ([east, torch.zeros(1, 2)], 0.0),
    ):
        assert float(log_mean_exp_cosine(gradients)) == pytest.approx(expected, abs=1e-6)


def test_alignment_trains_through_the_gradients() -> None:
    """The derivative of the derivative, against finite differences in float64."""
    members = [one.double() for one in make_members(2)]
    weight = members[0][1].weight

    def loss() -> torch.Tensor:
        return loss_at(GAL(sw.Gaussian(0.7), weight=3.0), members, X.double(), Y, torch.Generator()).total

    (gradient,) = torch.autograd.grad(loss(), weight)
    for cell in np.ndindex(*weight.shape):
        slopes = []
        for shift in (1e-6, -1e-6):
            with torch.no_grad():
                weight[cell] += shift
            slopes.append(loss().item())
            with torch.no_grad():
                weight[cell] -= shift
        assert gradient[cell].item() == pytest.approx((slopes[0] - slopes[1]) / 2e-6, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("length", [0.0, 1e-30, 1e-13, 1e-6, 1e10])
def test_gradients_of_any_length_are_safe(length: float) -> None:
    source = torch.Generator().manual_seed(0)
    one = (length * torch.randn(3, 6, generator=source)).requires_grad_()
    other = torch.randn(3, 6, generator=source).requires_grad_()
    value = log_mean_exp_cosine([one, other])
    value.sum().backward()
    assert bool((value.abs() <= 1 + 1e-6).all())
    assert bool(one.grad.isfinite().all())
    assert bool(other.grad.isfinite().all())


def test_the_clean_images_are_left_alone() -> None:
    x = X.clone()
    loss_at(GAL(sw.Gaussian(0.7)), make_members(2), x, Y, torch.Generator())
    assert not x.requires_grad
    assert x.equal(X)


def test_the_paper_s_weight() -> None:
    assert GAL(sw.Gaussian(0.5)).weight == 1.0
