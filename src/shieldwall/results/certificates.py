"""Certificates as NumPy arrays: what `shieldwall.certify` returns, and what a certificate file says."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.errors import UserError
from shieldwall.vocabulary import NOISES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_T = TypeVar("_T")

DEVIATIONS = NOISES | {"exact-gaussian": 1.0}
"""The standard deviation of each kind of noise whose parameter is 1."""

NOT_BOUNDED = "not bounded"
"""The bound of an input whose samples chose a wrong class for every vote, in a file of correct ones only."""

_CALL = re.compile(r"([^()]+)\((.+)\)")
_ARRAYS = (
    "labels", "radii", "p_lower", "p_upper", "counts", "selection_counts", "n", "indices", "truth", "seconds",
)  # fmt: skip
_SETTINGS = ("n0", "alpha", "bound", "noise", "norm", "precision", "seed")


@dataclass(frozen=True, eq=False)
class Certificates:
    """M certificates of one classifier, with the counts and settings behind them.

    Each certificate says: at every point closer to the input than its radius, the smoothed classifier returns
    its label. It is wrong with probability at most alpha over the noise. A value is None if it is not known,
    or if it differs between the certificates.
    """

    labels: Ints
    """(M,): the class that is certified; ABSTAIN where nothing is."""
    radii: Floats
    """(M,); 0 where nothing is certified."""
    p_lower: Floats | None = None
    """(M,): the lower bound on the probability of the class that the first n0 samples chose."""
    p_upper: Floats | None = None
    """(M,): the upper bound on the probability of every other class."""
    counts: Ints | None = None
    """(M, K): how often each class won on the samples of the bound; (M, N, K) by member for EAS."""
    selection_counts: Ints | None = None
    """As counts, on the n0 samples that chose the class."""
    n: Ints | None = None
    """(M,): the samples behind each bound; 0 where a wrong class was chosen and not bounded."""
    n0: int | None = None
    alpha: float | None = None
    bound: str | None = None
    """How counts became bounds: one-sided, two-sided(0.05), sequential(N,...) with at most N samples, ..."""
    noise: str | None = None
    """The kind of noise and its parameter, such as gaussian(0.25)."""
    norm: str = "l2"
    """The norm of the radii: l1, l2 or linf."""
    precision: str | None = None
    """The arithmetic of the classifier that is certified."""
    seed: int | None = None
    indices: Ints | None = None
    """(M,): the inputs' numbers in their data set."""
    truth: Ints | None = None
    """(M,): the true classes."""
    seconds: Floats | None = None
    """(M,): the time that each took."""

    def __post_init__(self) -> None:
        if self.n is None and self.counts is not None:
            object.__setattr__(self, "n", num_samples(self.counts))
        if self.n0 is None and self.selection_counts is not None:
            object.__setattr__(self, "n0", shared(num_samples(self.selection_counts).tolist()))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice | Ints) -> "Certificates":
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        changes: dict[str, Any] = {name: array[rows] for name, array in arrays.items() if array is not None}
        return replace(self, **changes)

    @staticmethod
    def concat(parts: Sequence["Certificates"]) -> "Certificates":
        """Join certificates of several sets of inputs."""
        if len({part.norm for part in parts}) != 1:
            raise UserError("certificates of different norms, or no certificates, cannot be joined")
        fields: dict[str, Any] = {name: shared(getattr(part, name) for part in parts) for name in _SETTINGS}
        for name in _ARRAYS:
            arrays = [getattr(part, name) for part in parts]
            fields[name] = None if any(array is None for array in arrays) else np.concatenate(arrays)
        return Certificates(**fields)

    def with_truth(self, truth: ArrayLike) -> "Certificates":
        """The same certificates with the true classes, which accuracies need."""
        classes = np.asarray(truth, dtype=np.int64)
        if classes.shape != self.labels.shape:
            raise UserError(f"{len(self)} certificates need as many true classes; given: {classes.shape}")
        return replace(self, truth=classes)

    @property
    def correct(self) -> NDArray[np.bool_]:
        """(M,): whether the label is the true class; an abstention is not correct."""
        if self.truth is None:
            raise UserError("the true classes are not known; give them with certificates.with_truth(labels)")
        return np.asarray(self.labels == self.truth)

    @property
    def sigma(self) -> float | None:
        """The standard deviation of the noise, whatever its kind."""
        kind, parameter = split_call(self.noise)
        return float(parameter) * DEVIATIONS[kind] if parameter and kind in DEVIATIONS else None

    @property
    def bound_kind(self) -> str | None:
        """The bound without its parameter."""
        return split_call(self.bound)[0] or None

    @property
    def stopped_early(self) -> bool:
        """Whether sampling could stop early, so that the mean of the radii is only a lower bound."""
        return (self.bound_kind or "").endswith("sequential")

    @property
    def is_bounded(self) -> NDArray[np.bool_]:
        """(M,): False where sampling ended with the n0 samples, which chose a wrong class."""
        return np.ones(len(self), np.bool_) if self.n is None else np.asarray(self.n > 0)

    @property
    def fixed_n(self) -> int | None:
        """The samples behind each bound, if all bounds have the same number."""
        return None if self.n is None else shared(self.n[self.is_bounded].tolist())

    @property
    def mean_n(self) -> float | None:
        return None if self.n is None else float(self.n.mean())

    @property
    def max_n(self) -> int | None:
        """The maximum samples of an input, if sampling could stop early."""
        kind, parameter = split_call(self.bound)
        return int(parameter.split(",")[0]) if parameter and kind.endswith("sequential") else None


def split_call(text: str | None) -> tuple[str, str | None]:
    """("gaussian", "0.25") for "gaussian(0.25)"; what has no parameter has None there."""
    call = _CALL.fullmatch(text or "")
    return (call[1], call[2]) if call else (text or "", None)


def shared(values: Iterable[_T]) -> _T | None:
    """The value that all share, or None."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def num_samples(counts: Ints) -> Ints:
    """(M, K) or (M, N, K) -> (M,): members are counted on the same samples."""
    totals = counts.sum(-1)
    return np.asarray(totals if totals.ndim == 1 else totals[:, 0])
