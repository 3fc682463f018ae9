"""Stability training: divergences against scipy and numpy, the loss against a slow loop."""

import math

import numpy as np
import pytest
import torch
from loss_tools import loss_at
from scipy.special import softmax
from scipy.stats import entropy
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.training.member_methods import Stability, kl, renyi

X = torch.rand(4, 1, 2, 2, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 0])


def member() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 3))


def literal(divergence: str, order: float, p: np.ndarray, q: np.ndarray) -> float:
    if divergence == "kl":
        return float(entropy(p, q))
    if divergence == "renyi":
        return math.log(sum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))) / (order - 1)
    return float(entropy(p, q) + entropy(p))


def logs(p: list[float]) -> Tensor:
    return torch.tensor(p).log()


def test_divergences_by_hand() -> None:
    p, q = logs([0.5, 0.5]), logs([0.25, 0.75])
    assert float(kl(p, q)) == pytest.approx(0.5 * math.log(4 / 3), abs=1e-6)
    assert float(renyi(p, q, 2)) == pytest.approx(math.log(4 / 3), abs=1e-6)
    assert float(renyi(p, q, 0.5)) == pytest.approx(
        -2 * math.log(math.sqrt(0.125) + math.sqrt(0.375)), abs=1e-6
    )


@pytest.mark.parametrize("seed", range(3))
def test_divergences_vanish_at_equality_and_renyi_tends_to_kl(seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    p, q = (torch.randn(6, 5, generator=source, dtype=torch.float64).log_softmax(-1) for _ in range(2))
    for order in (0.5, 2.0, 3.0):
        assert torch.allclose(renyi(p, p, order), torch.zeros(6, dtype=torch.float64), atol=1e-12)
        assert bool((renyi(p, q, order) > 0).all())
    assert torch.allclose(kl(p, p), torch.zeros(6, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(renyi(p, q, 1 + 1e-5), kl(p, q), rtol=1e-3)
    assert bool((renyi(p, q, 0.5) < kl(p, q)).all())
    assert bool((kl(p, q) < renyi(p, q, 2)).all())


@pytest.mark.parametrize(
    ("divergence", "order"), [("kl", 2.0), ("renyi", 2.0), ("renyi", 0.5), ("cross_entropy", 2.0)]
)
@pytest.mark.parametrize("num_noise", [1, 3])
def test_loss_is_clean_cross_entropy_and_mean_divergence(
    divergence: str, order: float, num_noise: int
) -> None:
    objective = Stability(sw.Gaussian(0.7), num_noise, lam=3.0, divergence=divergence, order=order)
    loss = loss_at(objective, [member()], X, Y, torch.Generator().manual_seed(4))
    noise = 0.7 * torch.randn(num_noise, 4, 1, 2, 2, generator=torch.Generator().manual_seed(4))
    cross_entropy, divergences = 0.0, []
    for image, label in enumerate(Y.tolist()):
        p = softmax(member()(X[image : image + 1]).detach().double().numpy()[0])
        cross_entropy -= math.log(p[label]) / len(Y)
        for copy in noise:
            q = softmax(member()(X[image : image + 1] + copy[image]).detach().double().numpy()[0])
            divergences.append(literal(divergence, order, p, q))
    assert float(loss.terms["cross_entropy"]) == pytest.approx(cross_entropy, rel=1e-5)
    assert float(loss.terms["divergence"]) == pytest.approx(np.mean(divergences), rel=1e-4)
    expected = cross_entropy + 3 * np.mean(divergences)
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-5)


def test_divergences_of_saturated_predictions_are_finite_with_their_gradients() -> None:
    logits = torch.tensor([[500.0, -500.0, 0.0]], requires_grad=True)
    p, q = logits.log_softmax(-1), logits.flip(-1).log_softmax(-1)
    for value in (kl(p, q), renyi(p, q, 2), renyi(p, q, 0.5)):
        (gradient,) = torch.autograd.grad(value.sum(), logits, retain_graph=True)
        assert bool(value.isfinite().all())
        assert bool(gradient.isfinite().all())


def test_the_literature_s_weight() -> None:
    assert Stability(sw.Gaussian(0.5)).lam == 2
