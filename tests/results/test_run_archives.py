"""A run in one file: the same bytes every time, and nothing harmful comes out of one."""

import io
import lzma
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from shieldwall.errors import UserError
from shieldwall.results import archive as archives
from shieldwall.results.archive import pack, read_archive
from shieldwall.results.record import Log, read_runs

HEADER = "idx\tlabel\tpredict\tradius\tcorrect\tvote\n"
KEPT = {
    "recipe.yaml": "name: digits\n",
    "start.yaml": "name: digits before\n",
    "environment.json": '{"train": {}}\n',
    "training.jsonl": '{"epoch": 1}\n',
    "weights.yaml": "sween: [0.5, 0.5]\n",
    "certificates/settings.yaml": "n: 1000\n",
    "certificates/we.tsv": f"{HEADER}0\t3\t3\t0.5\t1\twe\n",
    "certificates/member-1.tsv": f"{HEADER}0\t3\t3\t0.25\t1\tmember-1\n",
    "more-draws/settings.yaml": "n: 9000\n",
    "more-draws/we.tsv": f"{HEADER}0\t3\t3\t0.75\t1\twe\n",
}
LEFT = (
    *("members/member-1.safetensors", "checkpoint.safetensors", ".lock", "certified-accuracy.png"),
    *("certificates/.settings.yaml.part", "theory/notes.tsv"),
)


def read_logs(paths: list[Path]) -> list[Log]:
    return [log for record in read_runs(paths) for log in record.logs]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    for name, text in (*KEPT.items(), *((name, "not to be kept") for name in LEFT)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def archive(file: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """A packed run with a recipe and whatever else."""
    recipe = tarfile.TarInfo("recipe.yaml")
    recipe.size = 8
    with tarfile.open(file, "w:xz") as out:
        for member, data in ((recipe, b"name: x\n"), *members):
            out.addfile(member, io.BytesIO(data))
    return file


def test_all_but_weights_and_plots_comes_back(run: Path, tmp_path: Path) -> None:
    pack(run, tmp_path / "digits-0.25.tar.xz")
    content = read_archive(tmp_path / "digits-0.25.tar.xz")
    assert {name: text.decode() for name, text in content.items()} == KEPT


def test_the_same_run_gives_the_same_bytes(run: Path, tmp_path: Path) -> None:
    pack(run, tmp_path / "first.tar.xz")
    for path in sorted(run.rglob("*"), reverse=True):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    pack(run, tmp_path / "second.tar.xz")
    first, second = ((tmp_path / f"{name}.tar.xz").read_bytes() for name in ("first", "second"))
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(first))) as plain:
        members = plain.getmembers()
    assert [member.name for member in members] == sorted(KEPT)
    assert {(one.mtime, one.uid, one.gid, one.uname, one.gname, one.mode) for one in members} == {
        (0, 0, 0, "", "", 0o644)
    }


def test_packing_replaces_the_file_in_one_step(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.tar.xz"
    file.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="the disk is full"):
        pack(run, file)
    assert file.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.tar.xz"]


def test_nothing_is_unpacked_to_the_disk(run: Path, tmp_path: Path) -> None:
    pack(run, tmp_path / "run.tar.xz")
    code = "import sys; from shieldwall.results.record import read_runs; read_runs(sys.argv[1:])"
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "run.tar.xz"],
        check=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.tar.xz"]


def test_a_packed_run_reads_as_its_folder_does(run: Path, tmp_path: Path) -> None:
    pack(run, tmp_path / "run.tar.xz")
    (of_folder,), (of_archive,) = read_runs([run]), read_runs([tmp_path / "run.tar.xz"])
    assert of_archive.files == of_folder.files
    assert list(of_archive.certificates) == list(of_folder.certificates) == ["member-1", "we"]
    assert of_archive.settings == {"n": 1000}
    assert of_archive.origins == [{"name": "digits before"}]


def test_reports_read_packed_runs_and_tell_them_apart_by_file_name(run: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("drt-0.25.tar.xz", "drt-0.5.tar.xz", "more/drt-0.5.tar.xz")]
    (tmp_path / "more").mkdir()
    for file in files:
        pack(run, file)
    alone = read_logs([files[0]])
    assert [(log.title, log.vote, log.certificates.radii.tolist()) for log in alone] == [
        ("digits member 1", "member-1", [0.25]),
        ("digits WE", "we", [0.5]),
    ]
    assert [log.title for log in read_logs([*files[:2], files[0]])] == [
        "digits (drt-0.25) member 1",
        "digits (drt-0.25) WE",
        "digits (drt-0.5) member 1",
        "digits (drt-0.5) WE",
    ]
    assert {log.run for log in read_logs(files[1:])} == {
        f"digits ({tmp_path.name}/drt-0.5)",
        "digits (more/drt-0.5)",
    }
    assert {log.run for log in read_logs([run, files[0]])} == {"digits (run)", "digits (drt-0.25)"}


def test_a_packed_run_without_certificates(tmp_path: Path) -> None:
    file = archive(tmp_path / "bare.tar.xz")
    with pytest.raises(UserError, match=f"{file}: this packed run has no certificates"):
        read_logs([file])


@pytest.mark.parametrize("name", ["../outside", "/outside", "certificates/../../outside", "a//outside"])
def test_paths_that_lead_outside_are_refused(tmp_path: Path, name: str) -> None:
    file = archive(tmp_path / "bad.tar.xz", (tarfile.TarInfo(name), b""))
    with pytest.raises(UserError, match=r"bad\.tar\.xz is not a packed run: it holds '.*outside"):
        read_archive(file)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    link = tarfile.TarInfo("environment.json")
    link.type, link.linkname = kind, "/etc/passwd"
    with pytest.raises(UserError, match=r"it holds 'environment\.json', which is no plain file"):
        read_archive(archive(tmp_path / "bad.tar.xz", (link, b"")))


def test_a_file_that_unpacks_to_too_much_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 2**24)
    bomb = tmp_path / "bomb.tar.xz"
    bomb.write_bytes(lzma.compress(bytes(2**24 + 1), preset=0))
    with pytest.raises(UserError, match=r"bomb\.tar\.xz unpacks to more than is allowed"):
        read_archive(bomb)
    monkeypatch.setattr(archives, "MAX_BYTES", 100)
    with pytest.raises(UserError, match="too much for one file"):
        pack(run, tmp_path / "run.tar.xz")


def test_damage_is_told_in_one_line(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.tar.xz"
    pack(run, file)
    whole = file.read_bytes()
    for bad, what in [
        (whole[: len(whole) // 2], "cut off"),
        (b"nothing of the kind", "damaged"),
        (whole[:60] + bytes([whole[60] ^ 255]) + whole[61:], "damaged"),
        (lzma.compress(b"not an archive" * 100), "damaged"),
        (b"", "cut off"),
    ]:
        file.write_bytes(bad)
        with pytest.raises(UserError, match=what):
            read_archive(file)
    with pytest.raises(UserError, match="no such file"):
        read_archive(tmp_path / "nowhere.tar.xz")


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "other.tar.xz", "w:xz") as out:
        out.addfile(tarfile.TarInfo("readme.txt"))
    with pytest.raises(UserError, match=r"there is no recipe\.yaml in it"):
        read_archive(tmp_path / "other.tar.xz")


def test_what_cannot_be_packed(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is called NAME\.tar\.xz; given: .*run\.zip"):
        pack(run, tmp_path / "run.zip")
    with pytest.raises(UserError, match="certificates is not a run folder"):
        pack(run / "certificates", tmp_path / "run.tar.xz")
