"""A log small enough to work out by hand, and changes to it."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shieldwall.results.certificates import Certificates
from shieldwall.results.record import Log, read_runs

Lines = list[tuple[int, int, int, str]]
"""(idx, label, predict, radius) of each input."""

WORKED: Lines = [
    (0, 0, 0, "0.5"),
    (1, 1, 1, "0.25"),
    (2, 2, 2, "0.1"),
    (3, 3, 1, "0.9"),
    (4, 4, -1, "0.0"),
    (5, 5, 5, "1.05"),
]

CERTIFIED_OTHERWISE: list[dict[str, object]] = [
    {"certified": {"n": "2000"}},
    {"certified": {"alpha": "0.01"}},
    {"certified": {"norm": "linf"}},
    {"certified": {"bound": "two-sided"}},
    {"certified": {"precision": "float16"}},
    {"lines": WORKED[:5]},
    {"lines": [(0, 1, 0, "0.5"), *WORKED[1:]]},
]
"""What `write_run` takes for a log that does not compare with the worked one: other draws, other inputs."""


def read_logs(paths: Iterable[str | Path]) -> list[Log]:
    """The votes of the runs at these paths, in order."""
    return [log for record in read_runs(paths) for log in record.logs]


def read_log(path: Path) -> Log:
    """The one log at this path."""
    (log,) = read_logs([path])
    return log


def changed(log: Log, correct: NDArray[np.bool_] | None = None, **fields: Any) -> Log:
    """The log with other fields of its own or of its certificates; `correct` changes the labels."""
    certificates = log.certificates
    own = {name: fields.pop(name) for name in ("title", "run", "vote") if name in fields}
    if "n" in fields and not isinstance(fields["n"], np.ndarray | None):
        fields["n"] = np.full(len(certificates), fields["n"])
    if "sigma" in fields:
        sigma = fields.pop("sigma")
        fields["noise"] = None if sigma is None else f"gaussian({sigma})"
    if fields.get("n", 0) is None:
        fields |= {"counts": None, "selection_counts": None}
    certificates = replace(certificates, **fields)
    if correct is not None:
        truth = certificates.truth
        wrong = np.where(certificates.labels == truth, truth + 1, certificates.labels)
        certificates = replace(certificates, labels=np.where(correct, truth, wrong))
    return replace(log, certificates=certificates, **own)


def curve(certificates: Certificates) -> tuple[np.ndarray, np.ndarray]:
    """Where certified accuracy steps down: 0 and the radii of the correct inputs, and its values there."""
    radii = np.unique(np.append(certificates.radii[certificates.correct], 0.0))
    return radii, certificates.certified_accuracy(None, radii)
