"""The run folder as a library sees it."""

import errno
import json
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch
from torch import nn

from shieldwall import recipes
from shieldwall.errors import UserError
from shieldwall.recipes import Recipe, difference
from shieldwall.results.archive import pack
from shieldwall.runs import environment, folder
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import load

SMOKE = recipes.get("smoke")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "deep" / "run", SMOKE)


def members(offset: float = 0.0) -> list[nn.Linear]:
    pair = [nn.Linear(3, 2), nn.Linear(3, 2)]
    for k, member in enumerate(pair):
        nn.init.constant_(member.weight, k + offset)
    return pair


def test_a_folder_is_made_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """While the first writes its recipe, the second, of another recipe, is refused and changes nothing."""
    other = recipes.override(SMOKE, ["seed=1"])
    write, refusals = folder.write_atomic, []

    def write_late(path: Path, content: bytes) -> None:
        with pytest.raises(UserError, match="another process is working on") as refusal:
            RunFolder.create(tmp_path / "run", other)
        refusals.append(refusal)
        write(path, content)

    monkeypatch.setattr(folder, "write_atomic", write_late)
    assert RunFolder.create(tmp_path / "run", SMOKE).recipe == SMOKE
    assert len(refusals) == 1
    assert RunFolder(tmp_path / "run").recipe == SMOKE
    with pytest.raises(UserError, match="holds a run of another recipe"):
        RunFolder.create(tmp_path / "run", other)


def test_all_who_make_one_folder_at_once_have_the_same_recipe(tmp_path: Path):
    variants = [recipes.override(SMOKE, [f"seed={seed}"]) for seed in range(8)]
    for attempt in range(5):
        path, gate = tmp_path / f"run-{attempt}", Barrier(len(variants))

        def create(recipe: Recipe, path: Path = path, gate: Barrier = gate) -> Recipe | str:
            gate.wait()
            try:
                return RunFolder.create(path, recipe).recipe
            except UserError as error:
                return str(error)

        with ThreadPoolExecutor(len(variants)) as pool:
            made = list(pool.map(create, variants))
        assert [recipe for recipe in made if not isinstance(recipe, str)] == [RunFolder(path).recipe]
        refusals = [words for words in made if isinstance(words, str)]
        assert all(
            re.search("another process is working|holds a run of another", words) for words in refusals
        )


def test_a_run_comes_back_with_its_recipe(run: RunFolder):
    assert RunFolder(run.path).recipe == SMOKE
    assert RunFolder(str(run.path)).path == run.path
    assert RunFolder.create(run.path, SMOKE).recipe == SMOKE


def test_another_recipe_does_not_get_in(run: RunFolder):
    other = recipes.override(SMOKE, ["schedule.lr=0.001"])
    with pytest.raises(UserError, match=r"another recipe \(schedule.lr: [0-9.]+, not 0.001\)"):
        RunFolder.create(run.path, other)
    assert RunFolder(run.path).recipe == SMOKE


def test_an_empty_folder_may_become_a_run(tmp_path: Path):
    assert RunFolder.create(tmp_path, SMOKE).path == tmp_path


def test_a_full_folder_may_not(tmp_path: Path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UserError, match="exists and is not a run folder"):
        RunFolder.create(tmp_path, SMOKE)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("opened", [RunFolder, load])
def test_a_packed_run_is_said_to_have_no_weights(
    run: RunFolder, tmp_path: Path, opened: Callable[[Path], object]
):
    pack(run.path, tmp_path / "run.tar.xz")
    with pytest.raises(
        UserError, match=r"run\.tar\.xz is a packed run, which has no weights; give the folder of a"
    ):
        opened(tmp_path / "run.tar.xz")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UserError, match=r"notes\.txt is not a run folder: it is a file"):
        opened(tmp_path / "notes.txt")


def test_members_are_trained_once_all_are_saved(run: RunFolder):
    assert not run.is_trained()
    with pytest.raises(UserError, match="is not trained yet"):
        run.load_members(members())
    run.save_members(members(offset=5.0))
    assert run.is_trained()
    fresh = members()
    run.load_members(fresh)
    assert [member.weight.unique().tolist() for member in fresh] == [[5.0], [6.0]]
    run.member_paths()[1].unlink()
    assert not run.is_trained()


def test_the_digest_names_the_weights_of_all_members(run: RunFolder):
    torch.manual_seed(0)
    first = members()
    run.save_members(first)
    digest = run.weights_digest()
    run.save_members(first)
    assert run.weights_digest() == digest
    run.save_members(first[::-1])
    assert run.weights_digest() != digest
    nn.init.constant_(first[1].bias, 3.0)
    run.save_members(first)
    assert run.weights_digest() != digest


def test_a_full_disk_is_told_in_one_line(run: RunFolder, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(UserError, match="the disk is full"):
        run.save_members(members())
    with pytest.raises(UserError, match="the disk is full"):
        RunFolder.create(run.path / "other", SMOKE)


def test_the_log_is_replaced_as_a_whole(run: RunFolder):
    run.save_log([{"epoch": 1, "loss": 0.1}])
    run.save_log([{"epoch": 1, "loss": 0.1}, {"epoch": 2, "loss": 1 / 3}])
    lines = (run.path / "training.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"epoch": 1, "loss": 0.1}, {"epoch": 2, "loss": 1 / 3}]


def test_epochs_are_done_while_there_is_a_checkpoint(run: RunFolder):
    assert run.epochs_done() == 0
    run.save_log([{"epoch": 1}, {"epoch": 2}])
    assert run.epochs_done() == 0
    run.checkpoint.touch()
    assert run.epochs_done() == 2


def test_every_stage_keeps_its_environment(run: RunFolder):
    run.note_environment("train", {"torch": "1"})
    run.note_environment("certify", {"torch": "2"})
    run.note_environment("train", {"torch": "3"})
    known = json.loads((run.path / "environment.json").read_text())
    history = [("train", "1"), ("certify", "2"), ("train", "3")]
    assert known.pop("history") == [{"stage": stage, "torch": torch} for stage, torch in history]
    assert known == {"train": {"torch": "3"}, "certify": {"torch": "2"}}


def test_the_environment_can_be_written_as_json():
    described = environment.describe(torch.device("cpu"))
    assert json.loads(json.dumps(described)) == described
    assert described["device"].startswith("cpu (")


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    assert environment.commit() is None


def test_a_difference_names_keys_on_either_side():
    ours, theirs = {"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 4}, "e": 5}
    assert difference(ours, theirs) == "b.c: 2, not 4; b.d: 3, not None; e: None, not 5"
    assert difference(ours, ours) == ""
