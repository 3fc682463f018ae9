"""Training on a GPU: its gradients against a CPU's, and steps replayed from a graph against steps run."""

import copy
from collections.abc import Callable
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw

GPU = torch.device("cuda")
NOISE = sw.Gaussian(0.25)
OBJECTIVES: dict[str, sw.Objective] = {
    "gaussian": sw.GaussianAugmentation(NOISE),
    "smoothadv": sw.SmoothAdv(NOISE, steps=2, warmup=1),
    "macer": sw.MACER(NOISE, num_noise=4),
    "drt": sw.DRT(sw.GaussianAugmentation(NOISE), rho_gd=1.0, rho_cm=0.5),
    "drt-smoothadv": sw.DRT(sw.SmoothAdv(NOISE, steps=2, warmup=1), rho_gd=1.0, rho_cm=0.5),
}
SCHEDULE = sw.Schedule(epochs=3, batch_size=128, lr=0.02, decay_every=1, decay=0.5)
each = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)


def fresh_members(model: str = "digits-cnn", shape: tuple[int, int, int] = (1, 8, 8)) -> list[nn.Module]:
    return sw.build_members(model, 2, 10, shape, seed=3)


def flat(members: list[nn.Module]) -> Tensor:
    return torch.cat(
        [weight.detach().flatten().cpu() for member in members for weight in member.parameters()]
    )


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that grows with every replay of a CUDA graph."""
    seen: list[object] = []
    replay: Callable[[torch.cuda.CUDAGraph], None] = torch.cuda.CUDAGraph.replay

    def note(graph: torch.cuda.CUDAGraph) -> None:
        seen.append(graph)
        replay(graph)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", note)
    return seen


@each
def test_loss_and_gradients_are_those_of_a_cpu(objective: sw.Objective):
    source = torch.Generator().manual_seed(1)
    x, y = torch.rand(32, 1, 8, 8, generator=source), torch.arange(32) % 10
    batch = objective.at_epoch(5).draw(x, y, source)
    tensors = {f.name: getattr(batch, f.name) for f in fields(batch)}
    on_gpu = replace(
        batch, **{name: value.to(GPU) for name, value in tensors.items() if isinstance(value, Tensor)}
    )
    losses, gradients = [], []
    for members, inputs in ((fresh_members(), batch), ([m.to(GPU) for m in fresh_members()], on_gpu)):
        loss = objective.at_epoch(5)(members, inputs)
        weights = [weight for member in members for weight in member.parameters()]
        gradients.append(
            torch.cat([part.flatten().cpu() for part in torch.autograd.grad(loss.total, weights)])
        )
        losses.append(float(loss.total.detach()))
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert (gradients[1] - gradients[0]).norm() < 1e-3 * gradients[0].norm()


@each
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_replayed_steps_do_what_steps_that_are_run_do(
    objective: sw.Objective, precision: str, replays: list[object], monkeypatch: pytest.MonkeyPatch
):
    """Batches, noise and learning rate all change from step to step; the last batch of an epoch is smaller.

    The scale is how far apart other noise and another order bring the members, from the same weights.
    """
    data = sw.load_data("digits").train
    schedule = replace(SCHEDULE, precision=precision)

    def trained(seed: int) -> Tensor:
        members = fresh_members()
        sw.train(members, data, objective, schedule=schedule, seed=seed, device=GPU)
        return flat(members)

    replayed = trained(seed=0)
    assert len(replays) > 10
    replays.clear()
    monkeypatch.setattr("shieldwall.training.step.WARM_UP", 10**9)
    as_run, other = trained(seed=0), trained(seed=1)
    assert not replays
    assert (replayed - as_run).norm() < 0.1 * (other - as_run).norm()


def test_a_replayed_step_draws_new_noise(replays: list[object]):
    """A rate of nearly nothing and the same images: were the noise the same, so would be the losses."""
    x = torch.rand(64, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    data = sw.Split.from_tensors(x, torch.arange(64) % 10)
    schedule = sw.Schedule(epochs=8, batch_size=64, lr=1e-12, momentum=0.0, weight_decay=0.0)
    records = sw.train(fresh_members(), data, OBJECTIVES["gaussian"], schedule=schedule, seed=0, device=GPU)
    assert len(replays) >= 4
    losses = [record["loss"] for record in records[-4:]]
    assert len(set(losses)) == 4


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch 2.11, while it compiles
@pytest.mark.parametrize("model", ["lenet", "resnet110"])
def test_larger_members_learn_from_replayed_steps(model: str, replays: list[object]):
    """Two constant images that noise of 0.25 does not hide: what learns at all tells them apart."""
    shape = (1, 28, 28) if model == "lenet" else (3, 32, 32)
    x = torch.stack([torch.full(shape, 0.1), torch.full(shape, 0.9)]).repeat(64, 1, 1, 1)
    data = sw.Split.from_tensors(x, torch.arange(128) % 2)
    members = fresh_members(model, shape)
    schedule = sw.Schedule(epochs=30, batch_size=64, lr=0.01)
    records = sw.train(copy.deepcopy(members), data, OBJECTIVES["drt"], schedule=schedule, seed=0, device=GPU)
    assert len(replays) > 30
    assert records[-1]["loss"] < 0.5 * records[0]["loss"]
