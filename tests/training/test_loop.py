"""The loop: the same seed gives the same losses, whole or in pieces."""

import contextlib
import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall import recipes, seeds
from shieldwall.data.splits import Dataset, crop_and_flip
from shieldwall.files import load_tensors, save_tensors
from shieldwall.models.registry import build_members
from shieldwall.training import checkpoint as checkpoints
from shieldwall.training.diversity import ADP, GAL
from shieldwall.training.drt import DRT
from shieldwall.training.loop import Record
from shieldwall.training.objective import Loss, Objective
from shieldwall.training.step import Step, make_optimizer

OBJECTIVE = sw.GaussianAugmentation(sw.Gaussian(0.25))
SCHEDULE = sw.Schedule(epochs=3, batch_size=100, lr=0.1, decay_every=2)
GOLDEN = Path(__file__).parent / "golden-smoke.json"


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return sw.load_data("digits")


def fresh(count: int = 2, seed: int = 0, model: str = "digits-cnn") -> list[nn.Module]:
    return build_members(model, count, 10, (1, 8, 8), seed)


def losses(records: list[Record]) -> list[float]:
    return [record["loss"] for record in records]


def weights(members: list[nn.Module]) -> list[Tensor]:
    return [value for member in members for value in member.state_dict().values()]


def test_the_same_seed_gives_the_same_losses_and_weights(digits: Dataset) -> None:
    first, second = fresh(), fresh()
    a = sw.train(first, digits.train, OBJECTIVE, schedule=SCHEDULE)
    b = sw.train(second, digits.train, OBJECTIVE, schedule=SCHEDULE)
    assert losses(a) == losses(b)
    assert all(x.equal(y) for x, y in zip(weights(first), weights(second), strict=True))
    other = sw.train(fresh(), digits.train, OBJECTIVE, schedule=SCHEDULE, seed=1)
    assert losses(a) != losses(other)


def test_training_learns(digits: Dataset) -> None:
    members = fresh()
    records = sw.train(members, digits.train, OBJECTIVE, schedule=SCHEDULE)
    assert losses(records) == sorted(losses(records), reverse=True)
    x = digits.test.images(range(len(digits.test)))
    with torch.no_grad():
        accuracy = [(member(x).argmax(-1) == digits.test.labels).float().mean() for member in members]
    assert min(accuracy) > 0.7
    assert not any(module.training for member in members for module in member.modules())


@pytest.mark.parametrize("killed_after", [1, 2])
def test_training_resumes_to_the_same_losses(digits: Dataset, tmp_path: Path, killed_after: int) -> None:
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
    checkpoints.save(tmp_path / "c.safetensors", [layer], [optimizer], [], "same")
    fresh_optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    checkpoints.load(tmp_path / "c.safetensors", [layer], [fresh_optimizer], "same")
    for parameter in layer.parameters():
        found = fresh_optimizer.state[parameter]["momentum_buffer"]
        assert found.equal(optimizer.state[parameter]["momentum_buffer"])
        assert found.stride() == parameter.stride()


def test_a_checkpoint_of_another_training_is_refused(digits: Dataset, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    one_epoch = sw.Schedule(epochs=1, batch_size=500)
    sw.train(fresh(), digits.train, OBJECTIVE, schedule=one_epoch, checkpoint=checkpoint)
    with pytest.raises(sw.UserError, match=r"another training \(seed=0; this one: seed=1\)"):
        sw.train(fresh(), digits.train, OBJECTIVE, schedule=one_epoch, checkpoint=checkpoint, seed=1)
    turned = digits.train.subset(range(len(digits.train))[::-1])
    with pytest.raises(sw.UserError, match=r"another training \(data=\w{64}; this one: data=\w{64}\)"):
        sw.train(fresh(), turned, OBJECTIVE, schedule=one_epoch, checkpoint=checkpoint)


def test_batch_norm_statistics_resume_too(digits: Dataset, tmp_path: Path) -> None:
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
    assert [schedule.lr_at(update, 7) for update in (0, 30 * 7 - 1)] == [0.01, 0.01]
    assert schedule.lr_at(30 * 7, 7) == pytest.approx(0.001)
    assert schedule.lr_at(90 * 7 - 1, 7) == pytest.approx(0.0001)


def test_the_learning_rate_follows_a_cosine_after_its_warm_up() -> None:
    schedule = sw.Schedule(epochs=10, lr=0.2, curve="cosine", warmup=4)
    assert schedule.lr_at(0, 8) == pytest.approx(0.2 / 4)
    assert schedule.lr_at(1, 8) == pytest.approx(0.2 * 2 / 4 * (1 + math.cos(math.pi / 80)) / 2)
    assert schedule.lr_at(40, 8) == pytest.approx(0.1)
    assert schedule.lr_at(79, 8) == pytest.approx(0.2 * (1 + math.cos(math.pi * 79 / 80)) / 2)
    assert sw.Schedule(lr=0.2, warmup=4).lr_at(1, 8) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("key", "value"), [("curve", "linear"), ("precision", "float16"), ("warmup", -1), ("warmup", 1.5)]
)
def test_impossible_schedules_are_refused(key: str, value: object) -> None:
    with pytest.raises(sw.UserError, match=rf"schedule\.{key}.*{value}"):
        sw.Schedule(**{key: value})


def test_every_update_has_its_own_learning_rate(digits: Dataset) -> None:
    """The weights after a cosine are those of plain SGD that takes the same rates one by one."""
    schedule = sw.Schedule(epochs=2, batch_size=700, lr=0.3, curve="cosine", warmup=2, momentum=0.0)
    members, by_hand = fresh(1), fresh(1)
    sw.train(members, digits.train, OBJECTIVE, schedule=schedule, seed=3)
    update, parameters = 0, list(by_hand[0].parameters())
    for epoch in range(2):
        noise = seeds.generator("cpu", 3, "training noise", epoch)
        order = seeds.generator("cpu", 3, "order", epoch)
        for x, y in digits.train.batches(700, order, "cpu"):
            loss = OBJECTIVE(by_hand, OBJECTIVE.draw(x, y, noise)).total
            lr = schedule.lr_at(update, 3)
            with torch.no_grad():
                for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                    p -= lr * (g + schedule.weight_decay * p)
            update += 1
    for ours, theirs in zip(weights(members), weights(by_hand), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_learning_rate_that_is_a_tensor_gives_the_same_updates(digits: Dataset) -> None:
    """What a recorded CUDA graph reads, here without a graph."""
    x, y = next(iter(digits.train.batches(64, seeds.generator("cpu", 0), "cpu")))
    updated = []
    for lr in (1.0, torch.tensor(1.0)):
        members = fresh(1)
        optimizer = torch.optim.SGD(members[0].parameters(), lr=lr, momentum=0.9)
        step = Step(members, OBJECTIVE, optimizer, seeds.generator("cpu", 1), sw.Schedule())
        for rate in (0.1, 0.05, 0.2):
            step(x, y, rate)
        updated.append(weights(members))
    for ours, theirs in zip(*updated, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("epochs_before", [0, 1])
def test_members_trained_independently_are_those_trained_alone(
    digits: Dataset, tmp_path: Path, epochs_before: int
) -> None:
    """Each on its own order and noise, with or without an interruption; and unlike one another."""
    schedule, noise = sw.Schedule(epochs=2, batch_size=256, lr=0.05), sw.Gaussian(0.25)
    objective, members = sw.GaussianAugmentation(noise), fresh(2)
    kept = tmp_path / "kept"
    if epochs_before:
        with contextlib.suppress(KeyboardInterrupt):
            sw.train(
                fresh(2), digits.train, objective, schedule=schedule, independent=True, checkpoint=kept,
                on_epoch=interrupt,
            )  # fmt: skip
    records = sw.train(members, digits.train, objective, schedule=schedule, independent=True, checkpoint=kept)
    total = 0.0
    for k, member in enumerate(members):
        alone = fresh(2)[k : k + 1]
        optimizer = make_optimizer(alone, schedule, torch.device("cpu"))
        for epoch in range(2):
            noises = seeds.generator("cpu", 0, "training noise", k, epoch)
            step = Step(alone, objective, optimizer, noises, schedule)
            alone[0].train()
            order = seeds.generator("cpu", 0, "order", k, epoch)
            losses = [
                (float(step(x, y, 0.05).total), len(x)) for x, y in digits.train.batches(256, order, "cpu")
            ]
        total += sum(loss * count for loss, count in losses) / len(digits.train)
        for ours, theirs in zip(weights([member]), weights(alone), strict=True):
            assert ours.equal(theirs)
    assert records[-1]["loss"] == pytest.approx(total, rel=1e-6)
    twins = [fresh(1)[0], fresh(1)[0]]
    sw.train(twins, digits.train, objective, schedule=schedule, independent=True)
    assert not weights(twins[:1])[-1].equal(weights(twins[1:])[-1]), "the same start, another order and noise"


def interrupt(records: list[Record]) -> None:
    raise KeyboardInterrupt


def test_methods_that_compare_members_cannot_train_them_independently(digits: Dataset) -> None:
    for objective in (DRT(OBJECTIVE, 1.0, 1.0), GAL(sw.Gaussian(0.25)), ADP(sw.Gaussian(0.25))):
        with pytest.raises(sw.UserError, match="cannot be trained independently"):
            sw.train(fresh(2), digits.train, objective, independent=True)


def test_bfloat16_trains_as_float32_does_up_to_rounding(digits: Dataset) -> None:
    records = {
        precision: sw.train(
            fresh(2), digits.train, DRT(OBJECTIVE, 0.3, 0.2),
            schedule=sw.Schedule(epochs=3, batch_size=64, lr=0.05, precision=precision),
        )
        for precision in ("float32", "bfloat16")
    }  # fmt: skip
    exact, rounded = losses(records["float32"]), losses(records["bfloat16"])
    assert rounded == pytest.approx(exact, rel=0.1)
    assert rounded != exact


class Exploding(Objective):
    """Fine in the first two epochs of 1,437 images in one batch, then infinite."""

    def __init__(self) -> None:
        self.calls, self.noise, self.num_noise = 0, sw.Gaussian(0.25), 1

    def __str__(self) -> str:
        return "exploding"

    def __call__(self, members, batch) -> Loss:  # type: ignore[no-untyped-def]
        self.calls += 1
        total = members[0](batch.x).sum() * (0.0 if self.calls < 3 else float("inf"))
        return Loss(total, {"fine": torch.ones(())}, torch.ones(2))


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_epoch(
    digits: Dataset, tmp_path: Path
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


def test_smoke_losses_are_the_golden_ones(digits: Dataset) -> None:
    """Made by this very code; `python tests/training/test_loop.py` writes them anew."""
    assert smoke_losses(digits) == pytest.approx(json.loads(GOLDEN.read_text()), rel=1e-4)


def smoke_losses(digits: Dataset) -> list[float]:
    recipe = recipes.get("smoke")
    members = build_members(recipe.model, recipe.members, 10, (1, 8, 8), recipe.seed)
    records = sw.train(
        members, digits.train, OBJECTIVE,
        schedule=recipe.schedule, seed=recipe.seed, independent=recipe.independent,
    )  # fmt: skip
    return losses(records)


if __name__ == "__main__":
    torch.set_num_threads(1)
    GOLDEN.write_text(json.dumps(smoke_losses(sw.load_data("digits"))) + "\n")


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("stop", [1, 2, 3, 5, 7])
def test_a_training_killed_in_mid_epoch_goes_on_to_the_same_losses_and_weights(
    digits: Dataset, tmp_path: Path, stop: int, independent: bool
) -> None:
    """Three batches an epoch; independent members go through them one after the other."""
    split = sw.Split.from_tensors(
        digits.train.images(range(130)), digits.train.labels[:130], augment=crop_and_flip
    )
    schedule = sw.Schedule(epochs=3, batch_size=50, lr=0.05)

    def training(members: list[nn.Module], name: str, stop: int = 1000) -> list[Record]:
        seen: list[int] = []

        def on_batch(images: int) -> None:
            seen.append(images)
            if len(seen) == stop:
                raise KeyboardInterrupt

        return sw.train(
            members, split, OBJECTIVE, schedule=schedule, independent=independent, on_batch=on_batch,
            checkpoint=tmp_path / name, checkpoint_minutes=0.0,
        )  # fmt: skip

    whole, members = fresh(), fresh()
    expected = training(whole, "whole")
    with pytest.raises(KeyboardInterrupt):
        training(members, "killed", stop)
    members = fresh()
    found = training(members, "killed")
    assert [{**record, "seconds": 0} for record in found] == [{**record, "seconds": 0} for record in expected]
    assert all(x.equal(y) for x, y in zip(weights(members), weights(whole), strict=True))
