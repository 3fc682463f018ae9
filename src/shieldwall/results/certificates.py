"""Certificates on disk: one tab-separated file per vote, appended input by input.

The first columns are the field's own, so that other tools read these files; then everything the
certificate was computed from, radii and bounds at full precision. A kill can leave an input in some
of the files only, or half a line: opening the folder again drops that input and nothing else.
"""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import yaml
from torch import Tensor

from shieldwall.errors import UserError
from shieldwall.files import disk_errors, write_atomic
from shieldwall.recipes import difference
from shieldwall.smoothing.certificates import Certificates

FIELD_COLUMNS = ["idx", "label", "predict", "radius", "correct", "time"]
OWN_COLUMNS = [
    "p_lower", "p_upper", "bound", "n", "alpha", "counts", "n0", "counts0",
    "noise", "norm", "precision", "seed", "vote",
]  # fmt: skip
COLUMNS = FIELD_COLUMNS + OWN_COLUMNS
DATA = "data_sha256"
"""The setting that tells test sets of one name apart."""
HEADER = ("\t".join(COLUMNS) + "\n").encode()


class CertificateFolder:
    """The certificates of one run under one set of settings, open for appending."""

    def __init__(self, path: Path, votes: Sequence[str], settings: Mapping[str, Any]) -> None:
        self.path = path
        self.seed = settings["seed"]
        self._check_settings(dict(settings))
        self._files: dict[str, BinaryIO] = {}
        self._synced = time.monotonic()
        try:
            with disk_errors(path):
                for vote in votes:
                    self._files[vote] = (path / f"{vote}.tsv").open("a+b", buffering=0)
                self.done = self._drop_incomplete()
        except BaseException:
            self._close()
            raise

    def append(self, idx: int, label: int, certificates: Mapping[str, Certificates], seconds: float) -> None:
        """Add one input's certificates, a line to every vote's file."""
        for vote, file in self._files.items():
            line = self._line(idx, label, vote, certificates[vote], seconds)
            end = os.fstat(file.fileno()).st_size
            with disk_errors(self.path / f"{vote}.tsv"):
                try:
                    _write_all(file, line)
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

    def __enter__(self) -> "CertificateFolder":
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.sync()
        finally:
            self._close()

    def _close(self) -> None:
        for file in self._files.values():
            file.close()

    def _check_settings(self, settings: dict[str, Any]) -> None:
        path = self.path / "settings.yaml"
        if path.is_file():
            stored = _read_settings(path)
            if DATA not in stored:  # an older folder, which never said
                settings.pop(DATA, None)
            if other := difference(stored, settings):
                raise UserError(
                    f"{self.path} holds certificates made with other settings ({other}); write these "
                    "to another folder with --to NAME, or delete the old ones"
                )
            return
        with disk_errors(self.path):
            self.path.mkdir(exist_ok=True)
        if any(item.name != f".{path.name}.part" for item in self.path.iterdir()):
            raise UserError(
                f"{self.path} holds files, but no settings.yaml that says what they were made with; "
                "write to another folder with --to NAME"
            )
        write_atomic(path, yaml.safe_dump(settings, sort_keys=False).encode())

    def _drop_incomplete(self) -> list[int]:
        """Cut every file back to the inputs that all of them have; return these."""
        lines = {vote: _whole_lines(file, self.path / f"{vote}.tsv") for vote, file in self._files.items()}
        done: list[int] = []
        for rows in zip(*lines.values(), strict=False):
            indices = {int(row.split(b"\t", 1)[0]) for row in rows}
            if len(indices) > 1:
                raise UserError(
                    f"the files in {self.path} disagree about input {min(indices)}; were they edited?"
                )
            done.append(indices.pop())
        for vote, file in self._files.items():
            kept = HEADER + b"".join(lines[vote][: len(done)])
            if len(kept) != os.fstat(file.fileno()).st_size:
                file.truncate(min(len(kept), os.fstat(file.fileno()).st_size))
                if not os.fstat(file.fileno()).st_size:
                    _write_all(file, HEADER)
        return done

    def _line(self, idx: int, label: int, vote: str, found: Certificates, seconds: float) -> bytes:
        predicted = int(found.labels[0])
        cells = [
            idx, label, predicted, repr(float(found.radii[0])), int(predicted == label),
            timedelta(seconds=seconds),
            repr(float(found.p_lower[0])), repr(float(found.p_upper[0])), found.bound,
            int(found.n[0]), repr(found.alpha), _joined(found.counts[0]),
            found.n0, _joined(found.selection_counts[0]),
            found.noise, found.norm, found.precision, self.seed, vote,
        ]  # fmt: skip
        return ("\t".join(map(str, cells)) + "\n").encode()


def _joined(counts: Tensor) -> str:
    """Counts of classes by commas; of several members, these by semicolons."""
    if counts.ndim == 2:
        return ";".join(map(_joined, counts))
    return ",".join(map(str, counts.tolist()))


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


def _is_whole(line: bytes) -> bool:
    cells = line.split(b"\t")
    return line.endswith(b"\n") and len(cells) == len(COLUMNS) and cells[0].isdigit()


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        settings = yaml.safe_load(path.read_text())
    except (UnicodeDecodeError, yaml.YAMLError):
        settings = None
    if not isinstance(settings, dict):
        raise UserError(f"{path} is damaged, so what these certificates are is unknown; move the folder away")
    return settings
