"""The certificate folder: appended line by line, and cut back to what all votes have."""

import errno
import os
from pathlib import Path
from typing import BinaryIO

import pytest
import torch

from shieldwall.errors import UserError
from shieldwall.noise.distributions import Gaussian
from shieldwall.results import certificate_writer
from shieldwall.results.certificate_file import HEADER
from shieldwall.results.certificate_writer import CertificateWriter
from shieldwall.results.certificates import Certificates
from shieldwall.smoothing.certificates import certificates_from_counts

VOTES = ["we", "mme"]
SETTINGS = {"noise": "gaussian(0.1)", "seed": 7, "compiled": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "certificates"


def opened(folder: Path, settings: dict[str, object] = SETTINGS) -> CertificateWriter:
    return CertificateWriter(folder, VOTES, settings)


def one(successes: int) -> dict[str, Certificates]:
    counts = torch.tensor([[100 - successes, successes]])
    certificate = certificates_from_counts(torch.tensor([[1, 9]]), counts, Gaussian(0.1), 0.001)
    return dict.fromkeys(VOTES, certificate)


def test_a_line_holds_everything_the_certificate_was_made_from(folder: Path):
    with opened(folder) as files:
        assert files.done == []
        files.append(3, 1, one(99), 0.25)
        files.append(6, 0, one(99), 61.5)
        files.append(9, 0, one(40), 0.0)
    certificate = one(99)["we"]
    radius, p_lower, p_upper = (
        repr(float(values[0])) for values in (certificate.radii, certificate.p_lower, certificate.p_upper)
    )
    header, first, second, third = (folder / "we.tsv").read_text().splitlines()
    assert header + "\n" == HEADER.decode()
    assert first.split("\t") == [
        *("3", "1", "1", radius, "1", "0:00:00.250000", p_lower, p_upper, "one-sided"),
        *("100", "0.001", "1,99", "10", "1,9", "gaussian(0.1)", "l2", "float32", "7", "we"),
    ]
    assert second.split("\t")[:6] == ["6", "0", "1", radius, "0", "0:01:01.500000"]
    assert third.split("\t")[:6] == ["9", "0", "-1", "0.0", "0", "0:00:00"]
    assert (folder / "mme.tsv").read_text().splitlines()[1] == first.removesuffix("we") + "mme"


def test_what_is_done_comes_back(folder: Path):
    with opened(folder) as files:
        files.append(3, 1, one(99), 0.25)
        files.append(6, 0, one(99), 0.25)
    with opened(folder) as files:
        assert files.done == [3, 6]
        files.append(9, 0, one(99), 0.25)
    with opened(folder) as files:
        assert files.done == [3, 6, 9]


def test_other_settings_do_not_get_in(folder: Path):
    with opened(folder):
        pass
    before = (folder / "settings.yaml").read_bytes()
    with pytest.raises(UserError, match=r"other settings \(seed: 7, not 8\)"):
        opened(folder, {**SETTINGS, "seed": 8})
    with pytest.raises(UserError, match=r"other settings \(n: None, not 5\)"):
        opened(folder, {**SETTINGS, "n": 5})
    assert (folder / "settings.yaml").read_bytes() == before


def test_other_data_do_not_get_in(folder: Path):
    with opened(folder, {**SETTINGS, "data_sha256": "ab"}):
        pass
    with pytest.raises(UserError, match=r"other settings \(data_sha256: 'ab', not 'cd'\)"):
        opened(folder, {**SETTINGS, "data_sha256": "cd"})


def test_an_input_that_only_some_votes_have_is_dropped(folder: Path):
    with opened(folder) as files:
        files.append(3, 1, one(99), 0.25)
        whole = (folder / "we.tsv").read_bytes()
        files.append(6, 0, one(99), 0.25)
    (folder / "mme.tsv").write_bytes((folder / "mme.tsv").read_bytes()[:-30])
    with opened(folder) as files:
        assert files.done == [3]
    assert (folder / "we.tsv").read_bytes() == whole
    assert (folder / "mme.tsv").read_bytes() == whole.replace(b"\twe\n", b"\tmme\n")


@pytest.mark.parametrize("rest", [b"6\t0", b"\x00" * 300, b"\n", b"6\t0\t1\n"])
def test_a_last_line_that_is_not_whole_is_dropped(rest: bytes, folder: Path):
    with opened(folder) as files:
        files.append(3, 1, one(99), 0.25)
    whole = (folder / "we.tsv").read_bytes()
    (folder / "we.tsv").write_bytes(whole + rest)
    with opened(folder) as files:
        assert files.done == [3]
    assert (folder / "we.tsv").read_bytes() == whole


def test_a_write_that_fails_half_way_leaves_whole_lines(folder: Path, monkeypatch: pytest.MonkeyPatch):
    written = []

    def half(file: BinaryIO, content: bytes) -> None:
        written.append(content)
        file.write(content[: len(content) // 2] if len(written) == 2 else content)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(folder) as files:
        files.append(3, 1, one(99), 0.25)
        whole = (folder / "mme.tsv").read_bytes()
        monkeypatch.setattr(certificate_writer, "_write_all", half)
        with pytest.raises(UserError, match=r"mme\.tsv: the disk is full"):
            files.append(6, 0, one(99), 0.25)
    monkeypatch.undo()
    assert (folder / "mme.tsv").read_bytes() == whole
    with opened(folder) as files:
        assert files.done == [3]


def open_files() -> list[Path]:
    links = list(Path("/proc/self/fd").iterdir())
    return [link.readlink() for link in links if link.is_symlink()]


def test_files_of_other_columns_are_refused_and_left_open_by_nobody(folder: Path):
    with opened(folder):
        pass
    (folder / "mme.tsv").write_bytes(b"idx\tother\n")
    with pytest.raises(UserError, match=r"mme\.tsv does not start with the columns"):
        opened(folder)
    assert (folder / "mme.tsv").read_bytes() == b"idx\tother\n"
    assert not [path for path in open_files() if path.is_relative_to(folder)]
