"""The certificate files of a run: one input is appended after another, and an interrupted run resumes."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import yaml

from shieldwall.errors import UserError
from shieldwall.files import PART, disk_errors, write_atomic
from shieldwall.recipes import difference
from shieldwall.results.certificate_file import COLUMNS, HEADER, to_tsv, with_current_names
from shieldwall.results.certificates import Certificates
from shieldwall.texts import read_yaml

SPLIT, HELD_OUT = "split", "held-out"  #: the setting, where training images that no member saw are certified
WANTED = "inputs"  #: the setting of how many are wanted; a folder's next certification may want more or fewer


class CertificateWriter:
    """A run's certificates under one set of settings, a file for each vote, open for appending. A kill can
    leave an input in some of the files only, or half a line: opening the folder again drops it."""

    def __init__(self, folder: Path, votes: Sequence[str], settings: Mapping[str, Any]) -> None:
        self.path, self.seed = folder, settings["seed"]
        self._settings = folder / "settings.yaml"
        self._check_settings(settings)
        self._synced = time.monotonic()
        with ExitStack() as files, disk_errors(folder):
            self._files: dict[str, BinaryIO] = {}
            for vote in votes:
                self._files[vote] = files.enter_context((folder / f"{vote}.tsv").open("a+b", buffering=0))
            self.done = self._drop_incomplete()
            stored, wanted = read_settings(self._settings), settings.get(WANTED)
            if wanted is not None and len(self.done) < wanted != stored.get(WANTED):  # some are left to do
                write_yaml(self._settings, {**stored, WANTED: wanted})
            self._open = files.pop_all()

    def append(self, idx: int, label: int, certificates: Mapping[str, Certificates], seconds: float) -> None:
        inputs = {"indices": np.array([idx]), "truth": np.array([label]), "seconds": np.array([seconds])}
        lines = {}
        for vote in self._files:
            fields = {**vars(certificates[vote]), **inputs, "seed": self.seed}
            header, line = (f"{text}\n".encode() for text in to_tsv(fields, vote))
            if header != HEADER:
                raise ValueError(f"the certificate of {vote} at input {idx} lacks its bounds or its counts")
            lines[vote] = line
        self.append_lines(lines)

    def append_lines(self, lines: Mapping[str, bytes]) -> None:
        """Add one input's lines as another folder of the same votes has them."""
        for vote, file in self._files.items():
            end = os.fstat(file.fileno()).st_size
            with disk_errors(self.path / f"{vote}.tsv"):
                try:
                    _write_all(file, lines[vote])
                except OSError:
                    file.truncate(end)
                    raise
        if time.monotonic() - self._synced > 1.0:
            self.sync()

    def sync(self) -> None:
        for vote, file in self._files.items():
            with disk_errors(self.path / f"{vote}.tsv"):
                os.fsync(file.fileno())
        self._synced = time.monotonic()

    def __enter__(self) -> "CertificateWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        with self._open:
            self.sync()

    def _check_settings(self, settings: Mapping[str, Any]) -> None:
        if self._settings.is_file():
            return refuse_other_settings(self.path, settings)
        with disk_errors(self.path):
            self.path.mkdir(exist_ok=True)
        if any(item.suffix != PART for item in self.path.iterdir()):
            what = "holds files, but no settings.yaml that says what they were made with"
            raise UserError(f"{self.path} {what}; use --to NAME for a new folder")
        return write_yaml(self._settings, settings)

    def _drop_incomplete(self) -> list[int]:
        """Cut every file back to the inputs that all of them have; return these."""
        lines = {vote: _whole_lines(file, self.path / f"{vote}.tsv") for vote, file in self._files.items()}
        done: list[int] = []
        for rows in zip(*lines.values(), strict=False):
            if len(indices := {_index(row) for row in rows}) > 1:
                where = f"the files in {self.path} disagree about input {min(indices)}"
                raise UserError(f"{where}; were they edited?")
            done.append(indices.pop())
        for vote, file in self._files.items():
            if os.fstat(file.fileno()).st_size:
                file.truncate(len(HEADER) + sum(map(len, lines[vote][: len(done)])))
            else:
                _write_all(file, HEADER)
        return done


def write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    write_atomic(path, yaml.safe_dump(dict(content), sort_keys=False).encode())


def _write_all(file: BinaryIO, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]


def _whole_lines(file: BinaryIO, path: Path) -> list[bytes]:
    """The complete lines after the header; half a header counts as an empty file."""
    file.seek(0)
    content = file.read()
    if not content.startswith(HEADER):
        if HEADER.startswith(content):
            file.truncate(0)
            return []
        raise UserError(f"{path} does not start with the columns of a certificate file; move it away")
    lines = content[len(HEADER) :].splitlines(keepends=True)
    if lines and not _is_whole(lines[-1]):
        lines.pop()
    for number, line in enumerate(lines, start=2):
        if not _is_whole(line):
            raise UserError(f"{path}, line {number} is damaged; move the file away and certify again")
    return lines


def _index(line: bytes) -> int:
    return int(line.split(b"\t", 1)[0])


def _is_whole(line: bytes) -> bool:
    cells = line.split(b"\t")
    return line.endswith(b"\n") and len(cells) == len(COLUMNS) and cells[0].isdigit()


def refuse_other_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise if the folder, where there is one, was certified with other settings than these."""
    path = folder / "settings.yaml"
    if not path.is_file():
        return
    stored = read_settings(path)
    if "shard" not in stored:  # a shard's place among the inputs depends on how many there are
        stored, settings = ({k: v for k, v in some.items() if k != WANTED} for some in (stored, settings))
    if other := difference(stored, settings):
        advice = "use --to NAME for a new folder, or delete it"
        raise UserError(f"{folder} was certified with other settings ({other}); {advice}")


def read_lines(folder: Path, votes: Sequence[str]) -> dict[int, tuple[bytes, ...]]:
    """The whole lines of the inputs that all of these votes have, in order; nothing is changed."""
    by_vote: list[dict[int, bytes]] = []
    for path in (folder / f"{vote}.tsv" for vote in votes):
        lines = path.read_bytes().splitlines(keepends=True)[1:] if path.is_file() else []
        by_vote.append({_index(line): line for line in lines if _is_whole(line)})
    common = [index for index in by_vote[0] if all(index in lines for lines in by_vote)] if by_vote else []
    return {index: tuple(lines[index] for lines in by_vote) for index in common}


def read_settings(path: Path) -> dict[str, Any]:
    """What a folder of certificates was made with, in today's names."""
    try:
        (settings,) = read_yaml(path)
        return with_current_names(settings)
    except (ValueError, AttributeError) as error:
        what = "is damaged, so what these certificates are is unknown; move the folder away"
        raise UserError(f"{path} {what}") from error
