"""A training that was stopped goes on to the losses and the weights of one that was not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_tools import Outcome, Shieldwall, finish, line_count, process, wait_until
from PIL import Image
from torch import nn

from shieldwall.runs.folder import RunFolder
from shieldwall.training import checkpoint, loop


def epochs(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
    for record in records:
        assert record.pop("seconds") > 0
    return records


def weights(folder: Path) -> list[bytes]:
    return [(folder / "members" / f"member-{k}.safetensors").read_bytes() for k in (1, 2)]


def stop_after(epoch: int, monkeypatch: pytest.MonkeyPatch, *, logged: bool) -> None:
    """Press Ctrl-C right before or after an epoch gets into the log."""
    save = RunFolder.save_log

    def save_and_stop(self: RunFolder, records: list[dict[str, Any]]) -> None:
        if len(records) < epoch or logged:
            save(self, records)
        if len(records) == epoch:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "save_log", save_and_stop)


def assert_stopped(outcome: Outcome) -> None:
    assert outcome.code == 130
    assert outcome.err == "interrupted; run the same command to resume\n"


@pytest.mark.parametrize(("epoch", "logged"), [(1, True), (2, False), (3, True), (3, False)])
def test_resuming_after_any_epoch_gives_the_same(
    epoch: int,
    logged: bool,
    shieldwall: Shieldwall,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    folder = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        stop_after(epoch, patch, logged=logged)
        assert_stopped(shieldwall("train", "smoke", "--out", folder))
    assert (folder / "checkpoint.safetensors").is_file()
    assert not (folder / "members").exists()
    assert line_count(folder / "training.jsonl") == (epoch if logged else epoch - 1)

    assert shieldwall("train", "smoke", "--out", folder).code == 0
    assert epochs(folder) == epochs(finished)
    assert weights(folder) == weights(finished)
    assert not (folder / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("facts", [{"torch": "1.0"}, {"device": "NVIDIA H200"}])
def test_going_on_with_another_torch_or_device_is_said(
    facts: dict[str, str], shieldwall: Shieldwall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        stop_after(1, patch, logged=True)
        assert "note:" not in shieldwall("train", "smoke", "--out", folder).out
    file = folder / "environment.json"
    stages = json.loads(file.read_text())
    stages["train"].update(facts)
    file.write_text(json.dumps(stages))
    began = f"torch {facts.get('torch', torch.__version__)} on {facts.get('device', 'cpu')}"
    assert shieldwall("train", "smoke", "--out", folder).out.splitlines()[0] == (
        f"note: it began with {began} and continues with torch {torch.__version__} on cpu: "
        "results may differ in rounding"
    )


def test_a_stop_between_two_members_is_made_good(
    shieldwall: Shieldwall, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        stop_after(3, patch, logged=True)
        assert_stopped(shieldwall("train", "smoke", "--out", folder))
    (folder / "members").mkdir()
    (folder / "members/.member-2.safetensors.part").write_bytes(weights(finished)[1][:100])
    (folder / "members/member-1.safetensors").write_bytes(weights(finished)[0])
    assert shieldwall("train", "smoke", "--out", folder).code == 0
    assert weights(folder) == weights(finished)
    assert not list(folder.rglob("*.part"))


def test_a_kill_before_the_recipe_was_whole_is_no_obstacle(shieldwall: Shieldwall, tmp_path: Path):
    folder = tmp_path / "begun"
    folder.mkdir()
    (folder / ".recipe.yaml.part").write_bytes(b"name: smo")
    assert shieldwall("train", "smoke", "--out", folder, "--set", "schedule.epochs=1").code == 0
    assert not list(folder.rglob("*.part"))


def test_a_killed_training_goes_on_to_the_same_losses_and_weights(shieldwall: Shieldwall, tmp_path: Path):
    command = ["train", "smoke", "--set", "schedule.epochs=5", "--out"]
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    with process("-m", "shieldwall", *command, folder) as started:
        wait_until(lambda: line_count(folder / "training.jsonl") > 0, started)
        started.kill()
        assert finish(started).code == -9
    assert 1 <= line_count(folder / "training.jsonl") < 5
    assert not (folder / "members").exists()
    assert shieldwall(*command, folder).code == 0
    assert shieldwall(*command, whole).code == 0
    assert epochs(folder) == epochs(whole)
    assert weights(folder) == weights(whole)


def test_progress_after_resuming_starts_where_it_stopped(
    shieldwall: Shieldwall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        stop_after(2, patch, logged=True)
        assert_stopped(shieldwall("train", "smoke", "--out", folder))
    assert RunFolder(folder).epochs_done() == 2
    first, *_, last = shieldwall("train", "smoke", "--out", folder).out.splitlines()[:-2]
    assert int(first.partition("%")[0].split()[-1]) in range(67, 80)
    assert "100%" in last
    assert "epoch 3, loss " in last
    assert RunFolder(folder).epochs_done() == 0  # nothing is interrupted any more


def tiny(num_classes: int) -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, num_classes))


def test_class_folders_of_photos_through_every_stage(
    shieldwall: Shieldwall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Train, a kill in mid-epoch of the second member, resume to the same, certify, report."""
    random = np.random.default_rng(0)
    for part, count in (("train", 7), ("val", 2)):
        for label in range(3):
            place = tmp_path / "data" / "imagenet" / part / f"n{label}"
            place.mkdir(parents=True)
            for k in range(count):
                pixels = random.integers(60 * label, 60 * label + 100, (50 + k, 90, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(place / f"{k}.JPEG")
    options = (
        "train", "imagenet-gaussian", "--data-dir", tmp_path / "data", "--set", "data=imagenet-64", "--set",
        f"model={__name__}:tiny", "--set", "members=2", "--set", "schedule.epochs=2", "--set",
        "schedule.batch_size=4",
    )  # fmt: skip
    whole, folder, save, positions = tmp_path / "whole", tmp_path / "stopped", checkpoint.save, []
    assert shieldwall(*options, "--out", whole).code == 0

    def save_and_stop(*arguments: Any) -> None:
        save(*arguments)
        positions.append(arguments[5:] and arguments[5][:2])
        if positions[-1] == (1, 3) and () in positions:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_is_due", lambda *_: True)
        patch.setattr(checkpoint, "save", save_and_stop)
        assert_stopped(shieldwall(*options, "--out", folder))
    assert line_count(folder / "training.jsonl") == 1
    done = shieldwall(*options, "--out", folder)
    assert done.code == 0, done.err
    assert epochs(folder) == epochs(whole)
    assert weights(folder) == weights(whole)
    certify = ("certify", folder, "--every", "1", "--n", "100", "--data-dir", tmp_path / "data")
    assert shieldwall(*certify).code == 0
    assert "imagenet-gaussian WE" in shieldwall("report", folder).out
