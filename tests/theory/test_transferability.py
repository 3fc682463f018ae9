"""Attacks and their transfer, against linear members, where the best attack is known."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from shieldwall import MaxMarginEnsemble, UserError
from shieldwall.theory.transfer import Transfer, pgd, transferability


def linear(weights: Tensor) -> nn.Module:
    """Two classes: class 1 where weights.(x - 1/2) > 0."""
    layer = nn.Linear(len(weights), 2)
    with torch.no_grad():
        layer.weight.copy_(torch.stack([-weights, weights]))
        layer.bias.copy_(torch.stack([weights.sum(), -weights.sum()]) / 2)
    return nn.Sequential(nn.Flatten(), layer)


@pytest.fixture
def members() -> list[nn.Module]:
    directions = torch.randn(3, 12, generator=torch.Generator().manual_seed(3))
    return [linear(direction + 1.5 * directions[0]) for direction in directions]


def weights_of(member: nn.Module) -> Tensor:
    return member[1].weight.detach()[1]


def test_an_attack_on_a_linear_member_goes_straight(members: list[nn.Module]):
    x = torch.rand(40, 3, 2, 2, generator=torch.Generator().manual_seed(1))
    y = members[0](x).argmax(-1)
    w = weights_of(members[0])
    straight = x.flatten(1) - 0.4 * (2 * y[:, None] - 1) * w / w.norm()
    torch.testing.assert_close(pgd(members[0], x, y, 0.4).flatten(1), straight, atol=1e-4, rtol=0)


def test_transfer_is_counted_as_by_hand(members: list[nn.Module]):
    epsilon = 0.5
    x = torch.rand(200, 3, 2, 2, generator=torch.Generator().manual_seed(2))
    y = (torch.rand(200, generator=torch.Generator().manual_seed(4)) < 0.5).long()
    sign = (2 * y - 1).float()
    tried, fooled = np.zeros((3, 3), int), np.zeros((3, 3), int)
    for i, source in enumerate(members):
        w = weights_of(source)
        moved = x.flatten(1) - epsilon * sign[:, None] * w / w.norm()
        for j, target in enumerate(members):
            v = weights_of(target)
            for before, after, s in zip(x.flatten(1) - 0.5, moved - 0.5, sign, strict=True):
                if s * (before @ w) > 0 and s * (before @ v) > 0 and s * (after @ w) <= 0:
                    tried[i, j] += 1
                    fooled[i, j] += int(s * (after @ v) <= 0)
    found = transferability(members, x, y, epsilon=epsilon)
    np.testing.assert_array_equal(found.tried, tried)
    np.testing.assert_array_equal(found.fooled, fooled)
    assert (np.diag(found.rates) == 1).all()
    assert 0 < found.rates.min() < 1


def test_an_attack_stays_in_its_ball_and_never_helps():
    torch.manual_seed(0)
    member = nn.Sequential(nn.Flatten(), nn.Linear(12, 30), nn.ReLU(), nn.Linear(30, 5))
    x, y = torch.rand(50, 3, 2, 2), torch.randint(5, (50,))

    def lead(points: Tensor) -> Tensor:
        logits = member(points).detach()
        return logits.scatter(1, y[:, None], -torch.inf).max(1).values - logits.gather(1, y[:, None])[:, 0]

    for epsilon in (0.1, 2.0):
        attacked = pgd(member, x, y, epsilon, steps=7)
        assert float((attacked - x).flatten(1).norm(dim=1).max()) <= epsilon * (1 + 1e-5)
        assert bool((lead(attacked) >= lead(x)).all())
        assert bool((lead(attacked) > lead(x)).float().mean() > 0.9)


def test_targets_may_be_ensembles_and_rates_unknown(members: list[nn.Module]):
    x = torch.rand(30, 3, 2, 2, generator=torch.Generator().manual_seed(5))
    y = members[0](x).argmax(-1)
    found = transferability(members[:2], x, y, epsilon=1.0, targets=[MaxMarginEnsemble(members)])
    assert found.tried.shape == (2, 1)
    none = transferability(members[:1], x, 1 - y, epsilon=1.0)
    assert none.tried.tolist() == [[0]]
    assert np.isnan(none.rates).all()
    np.testing.assert_array_equal(Transfer(np.array([[4]]), np.array([[3]])).rates, [[0.75]])


def test_an_attack_needs_a_length(members: list[nn.Module]):
    with pytest.raises(UserError, match=r"steps >= 1; given: 0\.0, 20"):
        pgd(members[0], torch.rand(1, 3, 2, 2), torch.tensor([0]), 0.0)
