"""Files that are whole or not there."""

import errno
import os
from pathlib import Path

import pytest
import torch

from shieldwall import files
from shieldwall.errors import UserError
from shieldwall.files import atomic_file, load_tensors, remove_parts, save_tensors, write_atomic, write_output


def fail_with(number: int, monkeypatch: pytest.MonkeyPatch, name: str = "fsync") -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, name, fail)


def test_content_replaces_the_old_one(tmp_path: Path):
    path = tmp_path / "file"
    for content in (b"a" * 100_000, b"b", b""):
        write_atomic(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk is full; earlier files are intact"),
        (errno.EDQUOT, "the disk is full; earlier files are intact"),
        (errno.EFBIG, "the disk is full; earlier files are intact"),
        (errno.EIO, "Input/output error$"),
    ],
)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    number: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    fail_with(number, monkeypatch)
    with pytest.raises(UserError, match=f"cannot write {path}: {said}"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_is_there_until_the_new_one_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen = []
    monkeypatch.setattr(files.os, "fsync", lambda _: seen.append(path.read_bytes()))
    write_atomic(path, b"new")
    assert seen == [b"old", b"new"]  # the file, then its folder


def test_the_old_file_is_replaced_in_one_step_and_not_written_over(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as old:
        write_atomic(path, b"new")
        assert old.read() == b"old"
    assert path.read_bytes() == b"new"


def test_a_folder_in_the_way_is_named(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        write_atomic(tmp_path / "folder", b"new")
    with pytest.raises(UserError, match="No such file or directory"):
        write_atomic(tmp_path / "nowhere/file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_two_may_write_at_once(tmp_path: Path):
    with atomic_file(tmp_path / "file") as slow:
        slow.write(b"slow")
        write_atomic(tmp_path / "file", b"quick")
        assert (tmp_path / "file").read_bytes() == b"quick"
    assert (tmp_path / "file").read_bytes() == b"slow"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_a_kill_left_of_a_run_is_removed(tmp_path: Path):
    (tmp_path / ".member-1.safetensors.0123.part").write_bytes(b"x" * 50)
    (tmp_path / ".settings.yaml.part").write_bytes(b"x")
    (tmp_path / ".page.html.0123.part").write_bytes(b"x" * 50)
    remove_parts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".page.html.0123.part"]


def test_an_output_replaces_regular_files_only(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "link", tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(UserError, match="is not a regular file, so it is not replaced"):
            write_output(path, b"new")
    write_output(tmp_path / "new folder/file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert (tmp_path / "new folder/file").read_bytes() == b"new"


def test_tensors_come_back_with_their_metadata(tmp_path: Path):
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.arange(6).reshape(2, 3).T}
    save_tensors(tmp_path / "t.safetensors", tensors, {"key": "value"})
    found, metadata = load_tensors(tmp_path / "t.safetensors")
    assert metadata == {"key": "value"}
    assert set(found) == {"a", "b"}
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    save_tensors(tmp_path / "t.safetensors", tensors)
    assert load_tensors(tmp_path / "t.safetensors")[1] == {}


def test_tensors_that_are_not_there_are_named(tmp_path: Path):
    with pytest.raises(UserError, match="does not exist"):
        load_tensors(tmp_path / "nowhere.safetensors")
    with pytest.raises(UserError, match="truncated or corrupt"):
        load_tensors(tmp_path)
