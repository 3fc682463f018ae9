"""SmoothAdv: the attack against closed forms and a slow loop, the loss at what the attack found."""

import math

import pytest
import torch
from loss_tools import loss_at
from torch import Tensor, nn
from torch.nn import functional as F

import shieldwall as sw
from shieldwall.models.attack import project, smoothed_loss, smoothed_pgd
from shieldwall.training.member_methods import SmoothAdv

X = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 0, 1])
NOISE = 0.5 * torch.randn(3, 5, 1, 4, 4, generator=torch.Generator().manual_seed(2))


def linear(classes: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, classes))


def with_batch_norm() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3))


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("steps", [1, 4, 10])
def test_two_linear_classes_are_attacked_straight_across_the_boundary(copies: int, steps: int) -> None:
    """grad J is a positive multiple of w_other - w_y everywhere, so the optimum is epsilon along it."""
    member = linear(classes=2)
    x, y = torch.full((2, 1, 4, 4), 0.5), torch.tensor([0, 1])
    found = smoothed_pgd(member, x, y, NOISE[:copies, :2], 0.4, steps)
    across = member[1].weight[1 - y] - member[1].weight[y]
    optimum = x + 0.4 * F.normalize(across.detach(), dim=1).view_as(x)
    assert torch.allclose(found, optimum, atol=1e-6)


def literal_attack(member: nn.Module, x: Tensor, y: int, noise: Tensor, epsilon: float, steps: int) -> Tensor:
    """One image (1, 4, 4) after the formula, one noisy copy at a time."""
    moved = x.clone()
    for _ in range(steps):
        variable = moved.clone().requires_grad_()
        p = sum(member((variable + eps)[None]).softmax(-1)[0, y] for eps in noise) / len(noise)
        (-p.log()).backward(inputs=[variable])
        moved = (moved + 2 * epsilon / steps * variable.grad / variable.grad.norm()).clamp(0, 1)
        length = float((moved - x).norm())
        moved = x + (moved - x) * min(1, epsilon / length)
    return moved


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_attack_is_the_formula_image_by_image(epsilon: float) -> None:
    member = with_batch_norm().eval()
    found = smoothed_pgd(member, X, Y, NOISE, epsilon, 4)
    for k in range(len(X)):
        expected = literal_attack(member, X[k], int(Y[k]), NOISE[:, k], epsilon, 4)
        assert torch.allclose(found[k], expected, atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0])
def test_attack_stays_in_the_ball_and_the_box_and_raises_the_loss(epsilon: float) -> None:
    member = with_batch_norm().eval()
    found = smoothed_pgd(member, X, Y, NOISE, epsilon, 10)
    assert bool(((found - X).flatten(1).norm(dim=1) <= epsilon * (1 + 1e-5)).all())
    assert bool(((found >= 0) & (found <= 1)).all())
    with torch.no_grad():
        before, after = (smoothed_loss(member, x, Y, NOISE) for x in (X, found))
    assert bool((after > before).all())
    assert not found.requires_grad


def test_projection_by_hand() -> None:
    x, moved = torch.tensor([[0.9, 0.5]]), torch.tensor([[1.3, 0.8]])
    assert torch.allclose(project(moved, x, 0.5), torch.tensor([[1.0, 0.8]])), "the box is enough"
    assert torch.allclose(project(moved, x, 0.1), x + 0.1 * torch.tensor([[0.1, 0.3]]) / math.sqrt(0.1)), (
        "the box, then the ball"
    )
    assert project(x, x, 0.1).equal(x)


def test_attack_leaves_parameters_statistics_and_modes_alone() -> None:
    member = with_batch_norm().train()
    member[2].eval()
    before = {name: value.clone() for name, value in member.state_dict().items()}
    smoothed_pgd(member, X, Y, NOISE, 1.0, 3)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in member.parameters())
    assert all(value.equal(before[name]) for name, value in member.state_dict().items())
    assert [part.training for part in member] == [True, True, False, True, True]
    with pytest.raises(RuntimeError):
        smoothed_pgd(member, X[..., :2], Y, NOISE, 1.0, 3)
    assert [part.training for part in member] == [True, True, False, True, True]


def test_epsilon_may_be_a_tensor_and_gradients_may_be_off() -> None:
    member = with_batch_norm()
    expected = smoothed_pgd(member, X, Y, NOISE, 0.5, 3)
    assert smoothed_pgd(member, X, Y, NOISE, torch.tensor(0.5), 3).equal(expected)
    with torch.no_grad():
        assert smoothed_pgd(member, X, Y, NOISE, 0.5, 3).equal(expected)


def test_an_image_without_a_gradient_stays() -> None:
    member = linear()
    with torch.no_grad():
        member[1].weight.zero_()
    assert smoothed_pgd(member, X, Y, NOISE, 1.0, 3).equal(X)


def test_loss_is_cross_entropy_at_each_members_own_attack_with_the_same_noise() -> None:
    members = [with_batch_norm(), linear()]
    objective = SmoothAdv(sw.Gaussian(0.5), num_noise=2, epsilon=0.5, steps=3)
    loss = loss_at(objective, members, X, Y, torch.Generator().manual_seed(4))
    noise = 0.5 * torch.randn(2 * 5, 1, 4, 4, generator=torch.Generator().manual_seed(4))
    expected = torch.zeros(())
    for member in [with_batch_norm(), linear()]:
        found = smoothed_pgd(member, X, Y, noise.view(2, 5, 1, 4, 4), 0.5, 3)
        expected = expected + F.cross_entropy(member(torch.cat([found, found]) + noise), torch.cat([Y, Y]))
    assert torch.allclose(loss.total, expected)
    assert torch.allclose(loss.terms["cross_entropy"], expected / 2)


def test_a_members_own_inputs_are_its_adversarial_images_under_the_batchs_noise() -> None:
    member, objective = with_batch_norm(), SmoothAdv(sw.Gaussian(0.5), num_noise=3, epsilon=0.5, steps=3)
    batch = objective.draw(X, Y, torch.Generator().manual_seed(4))
    found = objective.inputs(member, batch)
    adversarial = smoothed_pgd(member, X, Y, batch.by_copy(batch.noise), 0.5, 3)
    assert found.equal(torch.cat([adversarial] * 3) + batch.noise)
    assert not found.requires_grad
    plain = sw.GaussianAugmentation(sw.Gaussian(0.5))
    assert plain.inputs(member, batch) is batch.noisy


def test_the_ball_grows_linearly() -> None:
    objective = SmoothAdv(sw.Gaussian(0.5), epsilon=2.0, warmup=10)
    assert [objective.at_epoch(epoch).epsilon for epoch in (0, 4, 9, 10, 89)] == [0.2, 1.0, 2.0, 2.0, 2.0]
    assert SmoothAdv(sw.Gaussian(0.5), warmup=0).at_epoch(0).epsilon == 1.0
    half, whole = objective.at_epoch(4), SmoothAdv(sw.Gaussian(0.5), epsilon=1.0, warmup=0)
    losses = [loss_at(one, [linear()], X, Y, torch.Generator().manual_seed(4)).total for one in (half, whole)]
    assert losses[0].equal(losses[1])
