"""A training that was stopped goes on to the losses and the weights of one that was not."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from cli_tools import Outcome, Shieldwall, finish, line_count, process, wait_until

from shieldwall.runs.folder import RunFolder


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
        f"note: this training began with {began} and continues with torch {torch.__version__} on cpu: "
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
