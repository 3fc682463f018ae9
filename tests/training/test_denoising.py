"""The loss of a denoiser against the formula, one noisy copy at a time."""

import pytest
import torch
from loss_tools import loss_at
from torch import nn

import shieldwall as sw

X = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 0, 1])


@pytest.mark.parametrize(("mse", "stability"), [(1.0, 1.0), (3.0, 0.0), (0.0, 0.5)])
def test_loss_is_the_formula(mse: float, stability: float) -> None:
    torch.manual_seed(0)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    members = [sw.Denoised(nn.Conv2d(1, 1, 3, padding=1), classifier) for _ in range(2)]
    objective = sw.Denoising(sw.Gaussian(0.5), num_noise=3, mse=mse, stability=stability)
    batch = objective.draw(X, Y, torch.Generator().manual_seed(4))
    loss = objective(members, batch)
    total = 0.0
    for member in members:
        for eps in batch.by_copy(batch.noise):
            for x, e in zip(X, eps, strict=True):
                image = member.denoiser((x + e)[None]).detach()
                answer = classifier(x[None]).argmax()
                total += mse * float((image - x).square().sum()) / 16 / (3 * 5)
                total -= stability * float(classifier(image).log_softmax(-1)[0, answer].detach()) / (3 * 5)
    assert float(loss.total.detach()) == pytest.approx(total, rel=1e-5)
    assert set(loss.terms) == {"mse", "stability", "noisy_accuracy"}


def test_labels_do_not_matter() -> None:
    torch.manual_seed(0)
    member = sw.Denoised(nn.Conv2d(1, 1, 3, padding=1), nn.Sequential(nn.Flatten(), nn.Linear(16, 3)))
    objective = sw.Denoising(sw.Gaussian(0.5))
    losses = [loss_at(objective, [member], X, y, torch.Generator().manual_seed(4)).total for y in (Y, 2 - Y)]
    assert losses[0].equal(losses[1])
