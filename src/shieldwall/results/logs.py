"""Certification logs, our own and other tools', read into arrays."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shieldwall.results.log_file import USUAL_NORM, read_rows
from shieldwall.results.log_names import log_files, name_of, runs_told_apart
from shieldwall.vocabulary import is_member

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Log:
    """One classifier certified on a set of inputs; the arrays have one entry for each input.

    `correct` is predict == label; no label is -1, so abstaining is never correct. What the
    certificates were made with is None where the file does not say, or says more than one.
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
    """The standard deviation of the noise, whatever its kind."""
    n: int | None = None
    """The draws behind each bound; None where they vary."""
    alpha: float | None = None
    noise: str | None = None
    """The kind of noise and its parameter: "gaussian(0.25)"."""
    norm: str = USUAL_NORM
    """Of the radii: "l1", "l2" or "linf"."""
    precision: str | None = None
    bound: str | None = None
    """The kind of bound, without its argument: "one-sided", "sequential"."""
    most_draws: int | None = None
    """Of an input at most, where sampling could stop early."""
    mean_draws: float | None = None

    @property
    def is_member(self) -> bool:
        """Whether this is a single member of an ensemble."""
        return is_member(self.vote)


def read_logs(paths: Iterable[str | Path]) -> list[Log]:
    """The logs of runs, folders or packed, of certificate folders and single files, each file once.

    In a folder: the members by number, then WE, MME and EAS, then the rest by name.
    """
    files = {file.resolve(): file for path in paths for file in log_files(Path(path))}
    logs = [read_log(file) for file in files.values()]
    runs = runs_told_apart([(log.run, log.path) for log in logs])
    return [
        replace(log, run=run, title=run + log.title.removeprefix(log.run))
        for log, run in zip(logs, runs, strict=True)
    ]


def read_log(path: str | Path) -> Log:
    """The log in one file; a last line that was cut off is left out."""
    path = Path(path)
    rows = read_rows(path)
    name = name_of(path, _only(row.vote for row in rows))
    predict = np.array([row.predict for row in rows], dtype=np.int64)
    label = np.array([row.label for row in rows], dtype=np.int64)
    draws = [row.n for row in rows if row.n is not None]
    return Log(
        title=name.title,
        run=name.run,
        vote=name.vote,
        path=path,
        idx=np.array([row.idx for row in rows], dtype=np.int64),
        label=label,
        predict=predict,
        radius=np.array([row.radius for row in rows], dtype=np.float64),
        correct=predict == label,
        sigma=_only(row.sigma for row in rows),
        n=_only(row.n for row in rows),
        alpha=_only(row.alpha for row in rows),
        noise=_only(row.noise for row in rows),
        norm=rows[0].norm,
        precision=_only(row.precision for row in rows),
        bound=_only(row.bound for row in rows),
        most_draws=_only(row.most_draws for row in rows),
        mean_draws=sum(draws) / len(draws) if draws else None,
    )


def _only(values: Iterable[_T]) -> _T | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None
