"""A certificate file: a tab-separated table with a line for each input, ours or another tool's.

    idx label predict radius correct                    must be among the columns, by name
    time                                                H:MM:SS.ffffff
    p_lower p_upper n alpha n0 seed norm precision vote
    bound                                               one-sided, two-sided, sequential(N), ...
    counts counts0                                      9,1,0; by member for EAS: 9,1,0;8,2,0
    noise                                               gaussian(0.25), laplace(0.177), ...

Ours have all of these columns, radii and bounds at full precision. What the certificates were made with is
read where there are columns for it.
"""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import yaml

from shieldwall.errors import UserError
from shieldwall.files import disk_errors, write_atomic
from shieldwall.recipes import difference
from shieldwall.results.certificates import (
    DEVIATIONS,
    Certificates,
    Floats,
    Ints,
    shared,
    split_call,
)
from shieldwall.vocabulary import ABSTAIN, NORMS

REQUIRED = ("idx", "label", "predict", "radius", "correct")
COLUMNS = (
    *REQUIRED, "time", "p_lower", "p_upper", "bound", "n", "alpha", "counts", "n0", "counts0",
    "noise", "norm", "precision", "seed", "vote",
)  # fmt: skip
HEADER = ("\t".join(COLUMNS) + "\n").encode()
UNSAID = {"data_sha256", "batch_size", "threads"}
"""Settings that older folders do not have: nothing is compared where nothing was said."""
USUAL_NORM = "l2"
"""The norm of a file that does not say: what other tools certify."""

_HARMED_BY_A_CUT = {*REQUIRED, "noise", "bound", "n", "alpha", "norm", "precision"} - {"correct"}
_T = TypeVar("_T")


def parse(content: bytes, source: str) -> tuple[Certificates, str | None]:
    """The certificates in a file, at least one, and the vote that it names; a cut last line is left out."""
    table = _Table.split(content, source)
    indices, truth, labels = (table.whole(column) for column in ("idx", "label", "predict"))
    radii, correct = table.real("radius"), table.whole("correct")
    table.refuse(
        (truth < 0) | (labels < ABSTAIN),
        lambda k: f"label {truth[k]}, predict {labels[k]}; classes count from 0, {ABSTAIN} abstains",
    )
    table.refuse(
        correct != (labels == truth),
        lambda k: f"correct is {correct[k]}, but predict is {labels[k]} and label is {truth[k]}",
    )
    table.refuse(
        (labels == ABSTAIN) & (radii > 0),
        lambda k: f"radius is {radii[k]:g}, but an abstention certifies nothing",
    )
    table.check_indices(indices)
    certificates = Certificates(
        labels,
        radii,
        p_lower=table.numbers("p_lower"),
        p_upper=table.numbers("p_upper"),
        counts=table.counts("counts"),
        selection_counts=table.counts("counts0"),
        n=table.whole("n") if "n" in table.columns else None,
        n0=table.shared("n0", int),
        alpha=shared(table.real("alpha").tolist()) if "alpha" in table.columns else None,
        bound=table.bound(),
        noise=table.noise(),
        norm=table.norm(),
        precision=table.shared("precision", str),
        seed=table.shared("seed", int),
        indices=indices,
        truth=truth,
        seconds=table.seconds(),
    )
    return certificates, table.shared("vote", str)


class _Table:
    """The cells of a file by column; what is wrong is told by line."""

    def __init__(self, columns: dict[str, tuple[str, ...]], source: str) -> None:
        self.columns = columns
        self.source = source

    @staticmethod
    def split(content: bytes, source: str) -> "_Table":
        try:
            *lines, last = content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
        except UnicodeDecodeError:
            raise UserError(f"{source}: this is not text, so not a certification log") from None
        if not lines and not last:
            raise UserError(f"{source}: the file is empty")
        header = (lines[0] if lines else last).split("\t")
        if missing := [column for column in REQUIRED if column not in header]:
            raise UserError(
                f"{source}, line 1: no column {', '.join(missing)}; "
                f"a certification log is tab-separated and starts with {' '.join(REQUIRED)}"
            )
        rows = [line.split("\t") for line in lines[1:]]
        # A file that an editor saved may lack the last newline and still be whole; a number in the
        # last cell could have lost digits, so there only the newline proves that it did not.
        cells = last.split("\t")
        if lines and len(cells) == len(header) and cells[-1] and header[-1] not in _HARMED_BY_A_CUT:
            rows.append(cells)
        if not rows:
            raise UserError(f"{source}: no input is certified in this file yet")
        table = _Table({}, source)
        for k, row in enumerate(rows):
            if len(row) != len(header):
                raise table.error(k, f"the header has {len(header)} columns, this line has {len(row)}")
        table.columns = dict(zip(header, zip(*rows, strict=True), strict=True))
        return table

    def error(self, row: int, what: str) -> UserError:
        return UserError(f"{self.source}, line {row + 2}: {what}")

    def refuse(self, wrong: "np.ndarray[Any, np.dtype[np.bool_]]", what: Callable[[int], str]) -> None:
        """Raise for the first row that is wrong."""
        if wrong.any():
            row = int(wrong.argmax())
            raise self.error(row, what(row))

    def check_indices(self, indices: Ints) -> None:
        first: dict[int, int] = {}
        for row, index in enumerate(indices.tolist()):
            if first.setdefault(index, row) != row:
                raise self.error(row, f"idx {index} is already on line {first[index] + 2}")

    def whole(self, column: str) -> Ints:
        cells = self.columns[column]
        return np.array([self._whole(column, row, cell) for row, cell in enumerate(cells)], dtype=np.int64)

    def real(self, column: str) -> Floats:
        cells = self.columns[column]
        return np.array([self._real(column, row, cell) for row, cell in enumerate(cells)], dtype=np.float64)

    def _whole(self, column: str, row: int, cell: str) -> int:
        try:
            return int(cell)
        except ValueError:
            raise self.error(row, f"{column} is {cell!r}, not a whole number") from None

    def _real(self, column: str, row: int, cell: str) -> float:
        try:
            value = float(cell)
        except ValueError:
            raise self.error(row, f"{column} is {cell!r}, not a number") from None
        if not (math.isfinite(value) and value >= 0):
            raise self.error(row, f"{column} is {cell}; it must be finite and not negative")
        return value

    def _different(self, column: str) -> dict[str, int]:
        """The cells that differ, each with the first row that has it."""
        first: dict[str, int] = {}
        for row, cell in enumerate(self.columns.get(column, ())):
            first.setdefault(cell, row)
        return first

    def norm(self) -> str:
        norms = self._different("norm") or {USUAL_NORM: 0}
        usual = next(iter(norms))
        for norm, row in norms.items():
            if norm not in NORMS:
                raise self.error(row, f"norm is {norm!r}, not one of {', '.join(NORMS)}")
            if norm != usual:
                raise self.error(row, f"norm is {norm}, but that of line 2 is {usual}; a log has one norm")
        return usual

    def noise(self) -> str | None:
        for noise, row in self._different("noise").items():
            kind, parameter = split_call(noise)
            if parameter is not None and kind in DEVIATIONS:
                self._real("noise", row, parameter)
        return self.shared("noise", str)

    def bound(self) -> str | None:
        """The bound of all inputs; of several with other parameters, the kind."""
        bounds = self._different("bound")
        for bound, row in bounds.items():
            kind, parameter = split_call(bound)
            if parameter is not None and kind.endswith("sequential"):
                self._whole("bound", row, parameter)
        return self.shared("bound", str) or shared(split_call(bound)[0] for bound in bounds)

    # Other tools may have something else in the columns below: what is not in our form is not read.

    def shared(self, column: str, form: Callable[[str], _T]) -> _T | None:
        """The value that all inputs have."""
        cell = shared(self._different(column))
        try:
            return None if cell is None else form(cell)
        except ValueError:
            return None

    def numbers(self, column: str) -> Floats | None:
        cells = self.columns.get(column)
        try:
            return None if cells is None else np.array([float(cell) for cell in cells], dtype=np.float64)
        except ValueError:
            return None

    def counts(self, column: str) -> Ints | None:
        """(M, K), or (M, N, K) where cells have several members."""
        cells = self.columns.get(column)
        if cells is None:
            return None
        try:
            by_member = [[member.split(",") for member in cell.split(";")] for cell in cells]
            counts = np.array(by_member, dtype=np.int64)
        except ValueError:  # no numbers, or not as many in each cell
            return None
        return counts[:, 0] if counts.shape[1] == 1 else counts

    def seconds(self) -> Floats | None:
        try:
            times = [_seconds(cell) for cell in self.columns["time"]]
        except (KeyError, ValueError):
            return None
        return np.array(times, dtype=np.float64)


def _seconds(cell: str) -> float:
    """As Python writes a timedelta: [D day[s], ]H:MM:SS[.ffffff]."""
    days, _, clock = cell.rpartition(", ")
    hours, minutes, seconds = clock.split(":")
    whole_days = int(days.split(" ")[0]) if days else 0
    return 86400 * whole_days + 3600 * int(hours) + 60 * int(minutes) + float(seconds)


class CertificateWriter:
    """The certificates of one run under one set of settings, a file for each vote, open for appending.

    A kill can leave an input in some of the files only, or half a line: opening the folder again drops that
    input and nothing else.
    """

    def __init__(self, folder: Path, votes: Sequence[str], settings: Mapping[str, Any]) -> None:
        self.path = folder
        self.seed = settings["seed"]
        self._check_settings(dict(settings))
        self._files: dict[str, BinaryIO] = {}
        self._synced = time.monotonic()
        try:
            with disk_errors(folder):
                for vote in votes:
                    self._files[vote] = (folder / f"{vote}.tsv").open("a+b", buffering=0)
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

    def append_lines(self, lines: Mapping[str, bytes]) -> None:
        """Add one input's lines as another folder of the same votes has them."""
        for vote, file in self._files.items():
            with disk_errors(self.path / f"{vote}.tsv"):
                _write_all(file, lines[vote])

    def sync(self) -> None:
        for vote, file in self._files.items():
            with disk_errors(self.path / f"{vote}.tsv"):
                os.fsync(file.fileno())
        self._synced = time.monotonic()

    def __enter__(self) -> "CertificateWriter":
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
            refuse_other_settings(self.path, settings)
            return
        with disk_errors(self.path):
            self.path.mkdir(exist_ok=True)
        if any(item.name != f".{path.name}.part" for item in self.path.iterdir()):
            raise UserError(
                f"{self.path} holds files, but no settings.yaml that says what they were made with; use --to "
                "NAME for a new folder"
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

    def _line(self, idx: int, label: int, vote: str, certificate: Certificates, seconds: float) -> bytes:
        c, predicted = certificate, int(certificate.labels[0])
        made_from = (c.p_lower, c.p_upper, c.n, c.counts, c.selection_counts)
        if any(values is None for values in made_from):
            raise ValueError(f"the certificate of {vote} at input {idx} lacks its bounds or its counts")
        p_lower, p_upper, n, counts, counts0 = (rows[0] for rows in made_from if rows is not None)
        cells = [
            idx, label, predicted, repr(float(c.radii[0])), int(predicted == label),
            timedelta(seconds=seconds), repr(float(p_lower)), repr(float(p_upper)), c.bound,
            int(n), repr(c.alpha), _joined(counts), c.n0, _joined(counts0),
            c.noise, c.norm, c.precision, self.seed, vote,
        ]  # fmt: skip
        return ("\t".join(map(str, cells)) + "\n").encode()


def _joined(counts: Ints) -> str:
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


def refuse_other_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise if the folder, where there is one, was certified with other settings than these."""

    path = folder / "settings.yaml"
    if not path.is_file():
        return
    stored = read_settings(path)
    if "compiled" in settings:
        stored.setdefault("compiled", False)
    said = {key: value for key, value in settings.items() if key in stored or key not in UNSAID}
    if other := difference(stored, said):
        raise UserError(
            f"{folder} was certified with other settings ({other}); use --to NAME for a new folder, "
            "or delete it"
        )


def read_lines(folder: Path, votes: Sequence[str]) -> dict[int, tuple[bytes, ...]]:
    """The whole lines of the inputs that all of these votes have, in order; nothing is changed."""
    by_vote: list[dict[int, bytes]] = []
    for vote in votes:
        path = folder / f"{vote}.tsv"
        content = path.read_bytes() if path.is_file() else b""
        lines = [line for line in content.splitlines(keepends=True)[1:] if _is_whole(line)]
        by_vote.append({int(line.split(b"\t", 1)[0]): line for line in lines})
    common = [index for index in by_vote[0] if all(index in lines for lines in by_vote)] if by_vote else []
    return {index: tuple(lines[index] for lines in by_vote) for index in common}


def read_settings(path: Path) -> dict[str, Any]:
    """What a folder of certificates was made with, in today's names."""
    try:
        settings = yaml.safe_load(path.read_text())
    except (UnicodeDecodeError, yaml.YAMLError):
        settings = None
    if not isinstance(settings, dict):
        raise UserError(f"{path} is damaged, so what these certificates are is unknown; move the folder away")
    return with_current_names(settings)


def with_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the keys of older versions renamed."""
    return {"members_sha256" if key == "weights" else key: value for key, value in settings.items()}
