"""The attack of SmoothAdv beside foolbox's L2 PGD, where foolbox is installed (compared with 3.3.4).

foolbox attacks one model, the mean of the noisy copies' confidences for the same noise, with the same steps
and from the same start. It projects to the ball before the box, we to the box before the ball, so both give
the same images as long as no pixel reaches 0 or 1; then the losses that they reach are compared.
"""

import warnings

import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.models.attack import smoothed_loss, smoothed_pgd

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    foolbox = pytest.importorskip("foolbox")

STEPS, COPIES = 10, 8


class MeanOverNoise(nn.Module):
    """log( 1/m sum_j softmax(f(x + eps_j)) ), whose cross-entropy is the attack's J."""

    def __init__(self, member: nn.Module, noise: Tensor) -> None:
        super().__init__()
        self.member, self.noise = member, noise

    def forward(self, x: Tensor) -> Tensor:
        p = torch.stack([self.member(x + eps).softmax(-1) for eps in self.noise])
        return p.mean(0).log()


def theirs(member: nn.Module, x: Tensor, y: Tensor, noise: Tensor, epsilon: float) -> Tensor:
    model = foolbox.PyTorchModel(MeanOverNoise(member, noise).eval(), bounds=(0, 1), device="cpu")
    attack = foolbox.attacks.L2ProjectedGradientDescentAttack(
        abs_stepsize=2 * epsilon / STEPS, steps=STEPS, random_start=False
    )
    found: Tensor = attack.run(model, x, foolbox.criteria.Misclassification(y), epsilon=epsilon)
    return found


def test_both_find_the_same_images_inside_the_box() -> None:
    torch.manual_seed(0)
    member = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)).eval()
    x, y = 0.4 + 0.2 * torch.rand(6, 1, 4, 4), torch.arange(6) % 3
    noise = 0.25 * torch.randn(COPIES, 6, 1, 4, 4)
    ours = smoothed_pgd(member, x, y, noise, 0.3, STEPS)
    assert 0 < float(ours.min()) < float(ours.max()) < 1
    assert torch.allclose(ours, theirs(member, x, y, noise, 0.3), atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0])
def test_on_digits_both_reach_the_same_loss(epsilon: float) -> None:
    digits = sw.load_data("digits").test
    member = sw.load("digits-gaussian-0.25").members[0]
    x, y = digits.images(range(60)), digits.labels[:60]
    noise = 0.25 * torch.randn(COPIES, 60, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    found = [smoothed_pgd(member, x, y, noise, epsilon, STEPS), theirs(member, x, y, noise, epsilon)]
    with torch.no_grad():
        before, ours, foolbox_s = (smoothed_loss(member, image, y, noise) for image in (x, *found))
    assert float((ours - before).mean()) > 0.05
    assert float((ours - foolbox_s).mean()) > -0.03 * float((foolbox_s - before).mean())
    assert float((ours - foolbox_s).abs().mean()) < 0.15 * float((foolbox_s - before).mean())
