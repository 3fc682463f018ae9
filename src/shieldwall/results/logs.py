"""Certification logs, our own and other tools', read into arrays."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import yaml
from numpy.typing import NDArray

from shieldwall.errors import UserError

ABSTAIN = -1
COLUMNS = ("idx", "label", "predict", "radius", "correct")
FOLDER = "certificates"
_MEMBER = re.compile(r"member-(\d+)")
_ENSEMBLES = {"we": "WE", "mme": "MME"}
_SIGMA = re.compile(r"gaussian\((.+)\)")
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Log:
    """One classifier certified on a set of inputs; the arrays have one entry for each input.

    `correct` is predict == label; no label is -1, so abstaining is never correct. `sigma`, `n` and
    `alpha` are None where the file does not say, or says more than one.
    """

    title: str
    run: str
    vote: str
    path: Path
    idx: NDArray[np.int64]
    label: NDArray[np.int64]
    predict: NDArray[np.int64]
    radius: NDArray[np.float64]
    correct: NDArray[np.bool_]
    sigma: float | None = None
    n: int | None = None
    alpha: float | None = None

    @property
    def is_member(self) -> bool:
        """Whether this is a single member of an ensemble."""
        return _MEMBER.fullmatch(self.vote) is not None


def read_logs(paths: Iterable[str | Path]) -> list[Log]:
    """The logs of run folders, certificate folders and single files, each file once.

    In a folder: the members by number, then WE, then MME, then the rest by name.
    """
    files = {file.resolve(): file for path in paths for file in _files(Path(path))}
    return _told_apart([read_log(file) for file in files.values()])


def read_log(path: str | Path) -> Log:
    """The log in one file; a last line that was cut off is left out."""
    path = Path(path)
    rows = _rows(path)
    stem = _stem(path)
    folder = _run_folder(path)
    run = _recipe_name(folder) if folder else stem
    voted = _only(row.vote for row in rows)
    predict = np.array([row.predict for row in rows], dtype=np.int64)
    label = np.array([row.label for row in rows], dtype=np.int64)
    return Log(
        title=f"{run} {_spoken(stem)}" if folder else run,
        run=run,
        vote=stem if _is_vote(stem) else voted or stem,
        path=path,
        idx=np.array([row.idx for row in rows], dtype=np.int64),
        label=label,
        predict=predict,
        radius=np.array([row.radius for row in rows], dtype=np.float64),
        correct=predict == label,
        sigma=_only(row.sigma for row in rows),
        n=_only(row.n for row in rows),
        alpha=_only(row.alpha for row in rows),
    )


class _Row(NamedTuple):
    idx: int
    label: int
    predict: int
    radius: float
    sigma: float | None
    n: int | None
    alpha: float | None
    vote: str | None


class _Line:
    """The cells of one line by column, with errors that say where."""

    def __init__(self, header: list[str], text: str, where: str) -> None:
        cells = text.split("\t")
        self.where = where
        if len(cells) != len(header):
            raise self.error(f"the header has {len(header)} columns, this line has {len(cells)}")
        self.cells = dict(zip(header, cells, strict=True))

    def error(self, what: str) -> UserError:
        return UserError(f"{self.where}: {what}")

    def whole(self, column: str) -> int:
        try:
            return int(self.cells[column])
        except ValueError:
            raise self.error(f"{column} is {self.cells[column]!r}, not a whole number") from None

    def real(self, column: str, text: str | None = None) -> float:
        text = self.cells[column] if text is None else text
        try:
            value = float(text)
        except ValueError:
            raise self.error(f"{column} is {text!r}, not a number") from None
        if not (math.isfinite(value) and value >= 0):
            raise self.error(f"{column} is {text}; it must be finite and not negative")
        return value

    def row(self) -> _Row:
        idx, label, predict, correct = (
            self.whole(column) for column in ("idx", "label", "predict", "correct")
        )
        radius = self.real("radius")
        if label < 0 or predict < ABSTAIN:
            raise self.error(f"label {label}, predict {predict}; classes count from 0, {ABSTAIN} abstains")
        if correct != (predict == label):
            raise self.error(f"correct is {correct}, but predict is {predict} and label is {label}")
        if predict == ABSTAIN and radius > 0:
            raise self.error(f"radius is {radius:g}, but an abstention certifies nothing")
        noise = _SIGMA.fullmatch(self.cells.get("noise", ""))
        return _Row(
            idx,
            label,
            predict,
            radius,
            sigma=self.real("noise", noise[1]) if noise else None,
            n=self.whole("n") if "n" in self.cells else None,
            alpha=self.real("alpha") if "alpha" in self.cells else None,
            vote=self.cells.get("vote"),
        )


def _rows(path: Path) -> list[_Row]:
    header, lines = _lines(path)
    rows: list[_Row] = []
    seen: dict[int, int] = {}
    for number, text in enumerate(lines, start=2):
        line = _Line(header, text, f"{path}, line {number}")
        row = line.row()
        if row.idx in seen:
            raise line.error(f"idx {row.idx} is already on line {seen[row.idx]}")
        seen[row.idx] = number
        rows.append(row)
    if not rows:
        raise UserError(f"{path}: no input is certified in this file yet")
    return rows


def _lines(path: Path) -> tuple[list[str], list[str]]:
    """The header's columns and the lines after it, without one that was cut off."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    try:
        *lines, last = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{path}: this is not text, so not a certification log") from None
    if not lines and not last:
        raise UserError(f"{path}: the file is empty")
    header = (lines[0] if lines else last).split("\t")
    if missing := [column for column in COLUMNS if column not in header]:
        raise UserError(
            f"{path}, line 1: no column {', '.join(missing)}; "
            f"a certification log is tab-separated and starts with {' '.join(COLUMNS)}"
        )
    # A file that an editor saved may lack the last newline and still be whole; a number in the
    # last cell could have lost digits, so there only the newline proves that it did not.
    cells = last.split("\t")
    if lines and len(cells) == len(header) and cells[-1] and header[-1] not in (*COLUMNS[:4], "n", "alpha"):
        lines.append(last)
    return header, lines[1:]


def _only(values: Iterable[_T]) -> _T | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"{path}: there is no such file or folder")
    run = path.parent if path.name == FOLDER else path
    is_run = (run / "recipe.yaml").exists() or (run / FOLDER).is_dir()
    files = sorted((run / FOLDER if is_run else path).glob("*.tsv"), key=_order)
    if not files and is_run:
        raise UserError(f"{run}: this run has no certificates; make them with: shieldwall certify {run}")
    if not files:
        raise UserError(f"{path}: this is no run folder and there are no certificates (*.tsv) in it")
    return files


def _order(path: Path) -> tuple[int, int, str]:
    stem = _stem(path)
    if member := _MEMBER.fullmatch(stem):
        return 0, int(member[1]), stem
    return 1, [*_ENSEMBLES, stem].index(stem), stem


def _stem(path: Path) -> str:
    # Not Path.stem: other tools name their logs "sigma_0.25", without a suffix.
    return path.name.removesuffix(".tsv")


def _is_vote(stem: str) -> bool:
    return stem in _ENSEMBLES or _MEMBER.fullmatch(stem) is not None


def _spoken(stem: str) -> str:
    member = _MEMBER.fullmatch(stem)
    return f"member {member[1]}" if member else _ENSEMBLES.get(stem, stem)


def _run_folder(path: Path) -> Path | None:
    """The run that a log is of, or None where it stands alone."""
    folder = path.parent.resolve()
    if folder.name == FOLDER or (folder.parent / "recipe.yaml").is_file():
        return folder.parent
    return folder if _is_vote(_stem(path)) else None


def _home(path: Path) -> Path:
    """The folder that tells a log from those of the same name, votes of one certification sharing it."""
    folder = path.parent.resolve()
    return folder.parent if folder.name == FOLDER else folder


def _recipe_name(run: Path) -> str:
    recipe = run / "recipe.yaml"
    if not recipe.is_file():
        return run.name
    try:
        content = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{recipe}: this is not YAML: {' '.join(str(error).split())}") from None
    return str(content["name"]) if isinstance(content, dict) and "name" in content else run.name


def _told_apart(logs: list[Log]) -> list[Log]:
    """The logs, with runs that share a name told apart by their folders' names."""
    homes: dict[str, set[Path]] = defaultdict(set)
    for log in logs:
        homes[log.run].add(_home(log.path))
    return [_renamed(log, homes[log.run]) if len(homes[log.run]) > 1 else log for log in logs]


def _renamed(log: Log, homes: set[Path]) -> Log:
    depth = 1
    while len({home.parts[-depth:] for home in homes}) < len(homes):
        depth += 1
    run = f"{log.run} ({'/'.join(_home(log.path).parts[-depth:])})"
    return replace(log, run=run, title=run + log.title.removeprefix(log.run))
