"""`train --tensorboard`: every number of the log once, wherever training was stopped."""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_tools import Shieldwall, finish, line_count, process, refused, snapshot, wait_until
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer import event_file_writer

from shieldwall.runs.folder import RunFolder
from shieldwall.runs.train import _curves

Points = dict[str, list[tuple[int, np.float32]]]


def write_curves(run: RunFolder) -> None:
    with _curves(run, True) as write:
        write([json.loads(line) for line in (run.path / "training.jsonl").read_text().splitlines()])


def read(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return found


def shown(folder: Path) -> Points:
    """What TensorBoard shows: by tag, each step and its value."""
    found = read(folder / "tensorboard")
    return {tag: [(one.step, np.float32(one.value)) for one in found.Scalars(tag)] for tag in tags(found)}


def tags(found: EventAccumulator) -> list[str]:
    names: list[str] = found.Tags()["scalars"]
    return names


@pytest.fixture(autouse=True)
def ordered_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard reads files in the order of their names: the second, and then a number, 10 before 9."""
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(100))


def event_file(folder: Path) -> Path:
    """The file of the last call."""
    return max((folder / "tensorboard").iterdir())


def written(folder: Path) -> list[tuple[str, int]]:
    """Tag and step of every scalar in the last event file, as they lie there."""
    events = [Event.FromString(raw) for raw in RawEventFileLoader(str(event_file(folder))).Load()]
    return [(value.tag, event.step) for event in events for value in event.summary.value]


def logged(folder: Path) -> Points:
    """The same from training.jsonl."""
    records = [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
    return {
        f"training/{name}": [(record["epoch"], np.float32(record[name])) for record in records]
        for name in records[0]
        if name != "epoch"
    }


def assert_as_logged(folder: Path, epochs: int) -> None:
    assert shown(folder) == logged(folder)
    assert {"training/loss", "training/cross_entropy", "training/lr", "training/seconds"} <= set(
        logged(folder)
    )
    assert [step for step, _ in shown(folder)["training/loss"]] == list(range(1, epochs + 1))
    assert len(written(folder)) == len(set(written(folder))) == epochs * len(logged(folder))


def stop_when(record: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C after the checkpoint of an epoch and before its log."""
    save = RunFolder.save_log

    def save_or_stop(self: RunFolder, records: list[dict[str, Any]]) -> None:
        if len(records) == record:
            raise KeyboardInterrupt
        save(self, records)

    monkeypatch.setattr(RunFolder, "save_log", save_or_stop)


def test_every_number_of_the_log_is_a_point(shieldwall: Shieldwall, tmp_path: Path):
    done = shieldwall("train", "smoke", "--out", tmp_path / "run", "--tensorboard")
    assert done.code == 0
    assert f"curves: tensorboard --logdir {tmp_path}/run\n" in done.out
    assert_as_logged(tmp_path / "run", 3)


def test_without_it_nothing_is_written(finished: Path):
    assert not (finished / "tensorboard").exists()


@pytest.mark.parametrize("epoch", [1, 2, 3])
@pytest.mark.parametrize("first", [[], ["--tensorboard"]])
def test_resuming_neither_loses_nor_doubles_a_point(
    epoch: int, first: list[str], shieldwall: Shieldwall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_when(epoch, patch)
        assert shieldwall("train", "smoke", "--out", folder, *first).code == 130
    if first and epoch > 1:
        assert [step for step, _ in shown(folder)["training/loss"]] == list(range(1, epoch))
    assert shieldwall("train", "smoke", "--out", folder, "--tensorboard").code == 0
    assert_as_logged(folder, 3)


@pytest.mark.slow
def test_a_kill_loses_no_point(shieldwall: Shieldwall, tmp_path: Path):
    command = ["train", "smoke", "--set", "schedule.epochs=5", "--tensorboard", "--out"]
    folder = tmp_path / "run"
    with process("-m", "shieldwall", *command, folder) as started:
        wait_until(lambda: line_count(folder / "training.jsonl") > 0, started)
        started.kill()
        assert finish(started).code == -9
    assert shieldwall(*command, folder).code == 0
    assert_as_logged(folder, 5)


def test_a_file_cut_anywhere_is_completed(shieldwall: Shieldwall, run: Path):
    command = ["train", "smoke", "--out", run, "--tensorboard"]
    assert "is trained already" in shieldwall(*command).out
    assert_as_logged(run, 3)
    whole = event_file(run).read_bytes()
    for size in (0, 5, 24, len(whole) // 3, len(whole) // 2, len(whole) - 1, len(whole)):
        event_file(run).write_bytes(whole[:size])
        write_curves(RunFolder(run))
        assert_as_logged(run, 3)


def test_nothing_else_of_a_trained_run_changes(shieldwall: Shieldwall, run: Path):
    before = snapshot(run)
    assert shieldwall("train", "smoke", "--out", run, "--tensorboard").code == 0
    after = snapshot(run)
    assert after.pop(str(event_file(run).relative_to(run)))
    assert after == before


def test_a_log_that_cannot_be_read_is_named(shieldwall: Shieldwall, run: Path):
    command = ["train", "smoke", "--out", run, "--tensorboard"]
    (run / "training.jsonl").write_text("not json\n")
    refused(shieldwall(*command), "training.jsonl is damaged")


def test_a_watching_tensorboard_sees_every_point_once(finished: Path, tmp_path: Path):
    lines = (finished / "training.jsonl").read_text().splitlines()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/recipe.yaml").write_bytes((finished / "recipe.yaml").read_bytes())
    run = RunFolder(tmp_path / "run")
    run.save_log([json.loads(line) for line in lines[:1]])
    write_curves(run)
    watching = read(run.path / "tensorboard")
    assert [one.step for one in watching.Scalars("training/loss")] == [1]
    run.save_log([json.loads(line) for line in lines])
    write_curves(run)
    watching.Reload()
    assert [one.step for one in watching.Scalars("training/loss")] == [1, 2, 3]


def test_relative_times_are_those_of_training(shieldwall: Shieldwall, run: Path):
    log = run / "training.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    for record, seconds in zip(records, (50.0, 100.0, 20.0), strict=True):
        record["seconds"] = seconds
    RunFolder(run).save_log(records)
    assert shieldwall("train", "smoke", "--out", run, "--tensorboard").code == 0
    times = [one.wall_time for one in read(run / "tensorboard").Scalars("training/loss")]
    assert np.diff(times) == pytest.approx([100.0, 20.0], abs=1e-3)


def test_a_missing_package_is_told_before_training(
    shieldwall: Shieldwall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    told = shieldwall("train", "smoke", "--out", tmp_path / "run", "--tensorboard")
    refused(told, "pip install 'shieldwall[tensorboard]'")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_after_a_full_disk_the_points_are_completed(shieldwall: Shieldwall, run: Path):
    """A limit on the size of files stands for it. TensorBoard's own thread prints into the error."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

    command = ["train", "smoke", "--out", run, "--tensorboard"]
    with process("-m", "shieldwall", *command, before=limit) as started:
        assert finish(started).code == 2
    time.sleep(1.1)  # files of events are in the order of the second in their names
    assert shieldwall(*command).code == 0
    assert_as_logged(run, 3)
