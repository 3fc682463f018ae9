"""The loop: the same seed gives the same losses, whole or in pieces."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall import recipes
from shieldwall.files import load_tensors, save_tensors
from shieldwall.models.registry import build_members
from shieldwall.training import checkpoint as checkpoints
from shieldwall.training.loop import Record
from shieldwall.training.objective import Loss, Objective

OBJECTIVE = sw.GaussianAugmentation(sw.Gaussian(0.25))
SCHEDULE = sw.Schedule(epochs=3, batch_size=100, lr=0.1, decay_every=2)
GOLDEN = Path(__file__).parent / "golden-smoke.json"


@pytest.fixture(scope="module")
def digits() -> sw.data.Dataset:
    return sw.load_data("digits")


def fresh(count: int = 2, seed: int = 0, model: str = "digits-cnn") -> list[nn.Module]:
    return build_members(model, count, 10, (1, 8, 8), seed)


def losses(records: list[Record]) -> list[float]:
    return [record["loss"] for record in records]


def weights(members: list[nn.Module]) -> list[Tensor]:
    return [value for member in members for value in member.state_dict().values()]


def test_the_same_seed_gives_the_same_losses_and_weights(digits: sw.data.Dataset) -> None:
    first, second = fresh(), fresh()
    a = sw.train(first, digits.train, OBJECTIVE, schedule=SCHEDULE)
    b = sw.train(second, digits.train, OBJECTIVE, schedule=SCHEDULE)
    assert losses(a) == losses(b)
    assert all(x.equal(y) for x, y in zip(weights(first), weights(second), strict=True))
    other = sw.train(fresh(), digits.train, OBJECTIVE, schedule=SCHEDULE, seed=1)
    assert losses(a) != losses(other)


def test_training_learns(digits: sw.data.Dataset) -> None:
    members = fresh()
    records = sw.train(members, digits.train, OBJECTIVE, schedule=SCHEDULE)
    assert losses(records) == sorted(losses(records), reverse=True)
    x = digits.test.images(range(len(digits.test)))
    with torch.no_grad():
        accuracy = [(member(x).argmax(-1) == digits.test.labels).float().mean() for member in members]
    assert min(accuracy) > 0.7
    assert not any(module.training for member in members for module in member.modules())


@pytest.mark.parametrize("killed_after", [1, 2])
def test_training_resumes_to_the_same_losses(
    digits: sw.data.Dataset, tmp_path: Path, killed_after: int
) -> None:
    class KilledError(Exception):
        pass

    def kill(records: list[Record]) -> None:
        if len(records) == killed_after:
            raise KilledError

    whole, cut = fresh(), fresh()
    expected = sw.train(whole, digits.train, OBJECTIVE, schedule=SCHEDULE)
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KilledError):
        sw.train(cut, digits.train, OBJECTIVE, schedule=SCHEDULE, checkpoint=checkpoint, on_epoch=kill)
    resumed = fresh()
    seen: list[int] = []
    records = sw.train(
        resumed, digits.train, OBJECTIVE, schedule=SCHEDULE, checkpoint=checkpoint, on_batch=seen.append
    )
    assert losses(records) == losses(expected)
    assert all(x.equal(y) for x, y in zip(weights(whole), weights(resumed), strict=True))
    assert seen[0] == killed_after * len(digits.train) + 100, "epochs that were done are not run again"
    assert seen[-1] == 3 * len(digits.train)
    again = sw.train(fresh(), digits.train, OBJECTIVE, schedule=SCHEDULE, checkpoint=checkpoint)
    assert losses(again) == losses(expected)


def test_momentum_comes_back_in_the_layout_of_its_parameter(tmp_path: Path) -> None:
    """Fused optimizers refuse momentum whose strides are not the parameter's."""
    layer = nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(torch.ones(1, 4, 5, 5)).sum().backward()
    optimizer.step()
    checkpoints.save(tmp_path / "c.safetensors", [layer], optimizer, [], "same")
    fresh_optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    checkpoints.load(tmp_path / "c.safetensors", [layer], fresh_optimizer, "same")
    for parameter in layer.parameters():
        found = fresh_optimizer.state[parameter]["momentum_buffer"]
        assert found.equal(optimizer.state[parameter]["momentum_buffer"])
        assert found.stride() == parameter.stride()


def test_a_checkpoint_of_another_training_is_refused(digits: sw.data.Dataset, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    one_epoch = sw.Schedule(epochs=1, batch_size=500)
    sw.train(fresh(), digits.train, OBJECTIVE, schedule=one_epoch, checkpoint=checkpoint)
    with pytest.raises(sw.UserError, match="another training"):
        sw.train(fresh(), digits.train, OBJECTIVE, schedule=one_epoch, checkpoint=checkpoint, seed=1)


def test_batch_norm_statistics_resume_too(digits: sw.data.Dataset, tmp_path: Path) -> None:
    def normed() -> list[nn.Module]:
        torch.manual_seed(3)
        return [nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.BatchNorm1d(10))]

    checkpoint = tmp_path / "checkpoint.safetensors"
    first = normed()
    sw.train(first, digits.train, OBJECTIVE, schedule=sw.Schedule(epochs=1), checkpoint=checkpoint)
    second = normed()
    sw.train(second, digits.train, OBJECTIVE, schedule=sw.Schedule(epochs=1), checkpoint=checkpoint)
    assert float(first[0][2].running_mean.abs().sum()) > 0
    assert all(x.equal(y) for x, y in zip(weights(first), weights(second), strict=True))


def test_the_learning_rate_steps_down() -> None:
    schedule = sw.Schedule(lr=0.01, decay_every=30, decay=0.1)
    assert [schedule.lr_at(epoch) for epoch in (0, 29)] == [0.01, 0.01]
    assert schedule.lr_at(30) == pytest.approx(0.001)
    assert schedule.lr_at(89) == pytest.approx(0.0001)


class Exploding(Objective):
    """Fine in the first two epochs of 1,437 images in one batch, then infinite."""

    def __init__(self) -> None:
        self.calls = 0

    def __str__(self) -> str:
        return "exploding"

    def __call__(self, members, x, y, generator) -> Loss:  # type: ignore[no-untyped-def]
        self.calls += 1
        total = members[0](x).sum() * (0.0 if self.calls < 3 else float("inf"))
        return Loss(total, {"fine": torch.ones(())})


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_epoch(
    digits: sw.data.Dataset, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(sw.UserError, match=r"diverged in epoch 3: loss is not finite.*epoch 2 is kept"):
        sw.train(
            fresh(), digits.train, Exploding(),
            schedule=sw.Schedule(epochs=5, batch_size=2_000), checkpoint=checkpoint,
        )  # fmt: skip
    tensors, metadata = load_tensors(checkpoint)
    assert len(json.loads(metadata["records"])) == 2
    assert all(bool(value.isfinite().all()) for value in tensors.values())


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_tensors(path, {"a": torch.arange(1000)})
    for content in (path.read_bytes()[:-100], b"", b"\xff" * 50, path.read_bytes()[:4]):
        path.write_bytes(content)
        with pytest.raises(sw.UserError, match=r"weights\.safetensors is truncated or corrupt"):
            load_tensors(path)


def test_smoke_losses_are_the_golden_ones(digits: sw.data.Dataset) -> None:
    """Made by this very code; `python tests/training/test_loop.py` writes them anew."""
    assert smoke_losses(digits) == pytest.approx(json.loads(GOLDEN.read_text()), rel=1e-4)


def smoke_losses(digits: sw.data.Dataset) -> list[float]:
    recipe = recipes.get("smoke")
    members = build_members(recipe.model, recipe.members, 10, (1, 8, 8), recipe.seed)
    return losses(sw.train(members, digits.train, OBJECTIVE, schedule=recipe.schedule, seed=recipe.seed))


if __name__ == "__main__":
    torch.set_num_threads(1)
    GOLDEN.write_text(json.dumps(smoke_losses(sw.load_data("digits"))) + "\n")
