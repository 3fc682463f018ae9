"""A disk that fills up: one line, what was written stays whole, and running again completes it.

A limit on the size of files stands for the full disk.
"""

import json
import resource
from pathlib import Path

import pytest
from cli_tools import VOTES, Outcome, Shieldwall, finish, process, refused, rows, snapshot, timeless
from safetensors.torch import load_file

pytestmark = pytest.mark.slow


def limited(size: int, *command: str | Path) -> Outcome:
    """The command in a process that can write no file larger than `size`."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    with process("-m", "shieldwall", *command, before=limit) as started:
        return finish(started)


def test_training_keeps_what_it_had_and_goes_on(shieldwall: Shieldwall, finished: Path, tmp_path: Path):
    folder = tmp_path / "run"
    refused(
        limited(100_000, "train", "smoke", "--out", folder),
        f"cannot write {folder}/checkpoint.safetensors: the disk is full",
        "run the same command again",
    )
    assert set(snapshot(folder)) == {".lock", "SHA256SUMS", "recipe.yaml", "environment.json"}
    assert (folder / "recipe.yaml").read_bytes() == (finished / "recipe.yaml").read_bytes()
    assert json.loads((folder / "environment.json").read_text())["train"]["threads"] == 1
    assert shieldwall("train", "smoke", "--out", folder).code == 0
    for number in (1, 2):
        name = f"members/member-{number}.safetensors"
        assert (folder / name).read_bytes() == (finished / name).read_bytes()


def test_certifying_keeps_whole_lines_and_goes_on(shieldwall: Shieldwall, trained: Path, finished: Path):
    refused(limited(3_000, "certify", trained), f"cannot write {trained}/certificates/", "the disk is full")
    done = [len(rows(trained / "certificates" / f"{vote}.tsv")) - 1 for vote in VOTES]
    assert 5 < min(done) <= max(done) < 30
    assert max(done) - min(done) <= 1
    for vote, count in zip(VOTES, done, strict=True):
        assert timeless(trained, min(done))[vote] == timeless(finished, min(done))[vote], count
    assert shieldwall("certify", trained).code == 0
    assert timeless(trained) == timeless(finished)


def test_a_full_disk_leaves_the_checkpoint_before_it(
    shieldwall: Shieldwall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from shieldwall import files
    from shieldwall.runs.folder import RunFolder

    def stop(self: RunFolder, records: object) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_log", stop)
        assert shieldwall("train", "smoke", "--out", folder).code == 130
    before = snapshot(folder)
    assert load_file(folder / "checkpoint.safetensors")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        refused(shieldwall("train", "smoke", "--out", folder), "cannot write", "the disk is full")
    assert snapshot(folder) == before
