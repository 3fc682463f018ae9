"""What keeps members alive: clipped gradients, weights that grow, and a check that says when one dies."""

import math
from dataclasses import dataclass

import pytest
import torch
from loss_tools import loss_at
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.errors import UserError
from shieldwall.training.drt import DRT
from shieldwall.training.loop import check_alive
from shieldwall.training.objective import Loss, NoisyBatch, Objective
from shieldwall.training.step import Step

NOISE = sw.Gaussian(0.25)


@dataclass(frozen=True)
class Slope(Objective):
    """sum_i scale_i * sum of member i's weights: its gradient is scale_i everywhere."""

    scales: tuple[float, ...]
    noise: sw.Gaussian = NOISE
    num_noise: int = 1

    def __call__(self, members: list[nn.Module], batch: NoisyBatch) -> Loss:
        sums = [member.weight.sum() for member in members]
        total = torch.stack([s * weights for s, weights in zip(self.scales, sums, strict=True)]).sum()
        return Loss(total, {}, torch.ones(len(members)))


def stepped(clip: float | None, scales: tuple[float, ...]) -> list[float]:
    """How far one step of rate 1 moves each of these members, whose gradient has length 2 * scale."""
    members = [nn.Linear(4, 1, bias=False) for _ in scales]
    before = [member.weight.detach().clone() for member in members]
    optimizer = torch.optim.SGD([one.weight for one in members], lr=1.0)
    step = Step(members, Slope(scales), optimizer, torch.Generator(), sw.Schedule(clip=clip))
    step(torch.zeros(1, 4), torch.zeros(1, dtype=torch.int64), 1.0)
    return [float((one.weight.detach() - old).norm()) for one, old in zip(members, before, strict=True)]


def test_each_members_gradient_is_shortened_for_itself() -> None:
    assert stepped(None, (3.0, 0.25)) == pytest.approx([6.0, 0.5])
    assert stepped(1.0, (3.0, 0.25)) == pytest.approx([1.0, 0.5], rel=1e-5)


@pytest.mark.parametrize("clip", [0.0, -1.0, math.inf, math.nan])
def test_a_clip_that_is_no_length_is_refused(clip: float) -> None:
    with pytest.raises(UserError, match=r"schedule\.clip must be positive"):
        sw.Schedule(clip=clip)


def test_both_weights_of_drt_grow_to_their_full_size() -> None:
    drt = DRT(sw.GaussianAugmentation(NOISE), rho_gd=2.0, rho_cm=3.0, warmup=4)
    assert [drt.at_epoch(epoch).rho_gd for epoch in range(6)] == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]
    assert [drt.at_epoch(epoch).rho_cm for epoch in range(6)] == [0.75, 1.5, 2.25, 3.0, 3.0, 3.0]
    members = [nn.Sequential(nn.Flatten(), nn.Linear(4, 3)) for _ in range(2)]
    x, y = torch.rand(8, 1, 2, 2), torch.randint(3, (8,))

    def total(objective: DRT) -> tuple[float, dict[str, Tensor]]:
        found = loss_at(objective, members, x, y, torch.Generator().manual_seed(0))
        return float(found.total.detach()), found.terms

    found, terms = total(drt.at_epoch(1))
    expected = 2 * terms["cross_entropy"] + 0.5 * (2.0 * terms["gd"] + 3.0 * terms["cm"])
    assert found == pytest.approx(float(expected), rel=1e-6)
    assert total(drt.at_epoch(3))[0] == pytest.approx(total(DRT(drt.base, 2.0, 3.0))[0], rel=1e-6)
    with pytest.raises(UserError, match="warmup"):
        DRT(drt.base, 2.0, 3.0, warmup=-1)


def records(*weakest: float) -> list[dict[str, float]]:
    return [{"epoch": k, "weakest": one} for k, one in enumerate(weakest, start=1)]


def test_a_member_that_falls_back_to_chance_stops_the_training() -> None:
    with pytest.raises(UserError, match=r"a member collapsed in epoch 3: .* fell from 90\.0% to 11\.0%"):
        check_alive(records(0.5, 0.9, 0.11), chance=0.11)


@pytest.mark.parametrize("weakest", [(0.11, 0.11), (0.3, 0.11), (0.9, 0.5), (0.9,), ()])
def test_a_slow_start_or_a_bad_epoch_does_not(weakest: tuple[float, ...]) -> None:
    check_alive(records(*weakest), chance=0.11)


def test_a_member_that_dies_is_seen_though_the_others_live() -> None:
    """The second member is thrown far away by its own gradient, and answers one class from then on."""
    digits = sw.load_data("digits").train

    @dataclass(frozen=True)
    class Killing(sw.GaussianAugmentation):
        epoch: int = 0

        def at_epoch(self, epoch: int) -> "Killing":
            return Killing(self.noise, self.num_noise, epoch)

        def __call__(self, members: list[nn.Module], batch: NoisyBatch) -> Loss:
            loss = super().__call__(members, batch)
            harm = 1e4 * members[1][-1].bias[0] if self.epoch == 2 else 0.0
            return loss._replace(total=loss.total - harm)

    members = [nn.Sequential(nn.Flatten(), nn.Linear(64, 10)) for _ in range(2)]
    schedule = sw.Schedule(epochs=4, batch_size=100, lr=0.1)
    with pytest.raises(UserError, match="a member collapsed in epoch 3"):
        sw.train(members, digits, Killing(NOISE), schedule=schedule)


def test_labels_beyond_the_classes_are_refused() -> None:
    split = sw.Split.from_tensors(torch.rand(4, 1, 2, 2), torch.tensor([0, 1, 2, 3]))
    members = [nn.Sequential(nn.Flatten(), nn.Linear(4, 3))]
    with pytest.raises(UserError, match=r"labels go up to 3, but the members have only 3 classes \(0 to 2\)"):
        sw.train(members, split, sw.GaussianAugmentation(NOISE))
