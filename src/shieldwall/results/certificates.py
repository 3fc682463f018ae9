"""Certificates as NumPy arrays: what `shieldwall.certify` returns, and what a certificate file says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.errors import UserError, check
from shieldwall.files import write_output
from shieldwall.results import certificate_file as file
from shieldwall.results.certificate_file import NOT_BOUNDED, Floats, Ints, shared, split_call, usual_bound
from shieldwall.texts import read_file
from shieldwall.vocabulary import ABSTAIN

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NOT_BOUNDED", "Certificates", "Floats", "Ints", "parse", "shared", "split_call", "usual_bound"]
UNIT = file.UNIT
_SHOWN = 10  #: the certificates that a notebook shows at each end of a table


@dataclass(frozen=True, eq=False)
class Certificates:
    """M certificates of one classifier, with the counts and settings behind them.

    Each says: at every point closer to the input than its radius, the smoothed classifier returns its label.
    It is wrong with probability at most alpha over the noise. A value is None if not known, or different."""

    labels: Ints  #: (M,): the class that is certified; ABSTAIN where nothing is
    radii: Floats  #: (M,); 0 where nothing is certified
    p_lower: Floats | None = None  #: (M,): lower bound on P(the class that n0 samples chose)
    p_upper: Floats | None = None  #: (M,): upper bound on P(any other class)
    counts: Ints | None = None  #: (M, K): wins on the samples of the bound; (M, N, K) by member for EAS
    selection_counts: Ints | None = None  #: as counts, on the n0 samples that chose the class
    n: Ints | None = None  #: (M,): the samples of each bound; 0 where a wrong class was not bounded
    n0: int | None = None
    alpha: float | None = None
    bound: str | None = None  #: one-sided, two-sided(0.05), sequential(N,...) with at most N samples, ...
    noise: str | None = None  #: the kind of noise and its parameter, such as gaussian(0.25)
    norm: str = "l2"  #: the norm of the radii: l1, l2 or linf
    precision: str | None = None  #: the arithmetic of the classifier that is certified
    seed: int | None = None
    value_range: tuple[float, float] | None = UNIT  #: of the pixels, as sigma and radii are stated
    indices: Ints | None = None  #: (M,): the inputs' numbers in their data set
    truth: Ints | None = None  #: (M,): the true classes
    seconds: Floats | None = None  #: (M,): the time that each took

    def __post_init__(self) -> None:
        if self.n is None and self.counts is not None:
            object.__setattr__(self, "n", file.num_samples(self.counts))
        if self.n0 is None and self.selection_counts is not None:
            object.__setattr__(self, "n0", shared(file.num_samples(self.selection_counts).tolist()))

    def __len__(self) -> int:
        return len(self.labels)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same of the same inputs; the time that it took does not count."""
        if not isinstance(other, Certificates):
            return NotImplemented
        compared = vars(self).keys() - {"seconds"}
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in compared)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, rows: "int | slice | Sequence[int] | Ints | NDArray[np.bool_]") -> "Certificates":
        """The certificates of these rows; of one row by its number, too."""
        rows = rows if isinstance(rows, slice) else np.atleast_1d(np.asarray(rows))
        known = {name: array for name in file.JSON_NAMES if (array := getattr(self, name)) is not None}
        return replace(self, **{name: array[rows] for name, array in known.items()})

    @staticmethod
    def concat(parts: Sequence["Certificates"]) -> "Certificates":
        """Join certificates of several sets of inputs."""
        if len({part.norm for part in parts}) != 1:
            raise UserError("certificates of different norms, or no certificates, cannot be joined")
        fields: dict[str, Any] = {}
        for name in file.SETTINGS:
            fields[name] = shared(getattr(part, name) for part in parts)
        for name in file.JSON_NAMES:
            arrays = [getattr(part, name) for part in parts]
            fields[name] = None if any(array is None for array in arrays) else np.concatenate(arrays)
        return Certificates(**fields)

    def with_truth(self, truth: ArrayLike | None) -> "Certificates":
        """The same certificates with the true classes, which accuracies need; these, if None are given."""
        if truth is None:
            return self
        try:
            classes = np.asarray(truth).astype(np.int64)
            is_whole = bool(np.all(classes == np.asarray(truth)))
        except (TypeError, ValueError, OverflowError):
            is_whole = False
        check(is_whole, "the true classes must be whole numbers", repr(truth))
        if classes.shape != self.labels.shape:
            raise UserError(f"{len(self)} certificates need as many true classes; given: {classes.shape}")
        return replace(self, truth=classes)

    def certified_accuracy(self, labels: ArrayLike | None = None, radii: ArrayLike = 0.0) -> Floats:
        """At each r: #{i: label_i is the true class and radius_i >= r} / #inputs. At r = 0 it is the accuracy
        of the smoothed classifier. `labels` are the true classes; certificates of a run know them."""
        wanted = np.asarray(radii, dtype=np.float64)
        if not (np.isfinite(wanted) & (wanted >= 0)).all():
            raise UserError(f"a radius must be finite and not negative: {wanted.tolist()}")
        radii_of_correct = np.sort(self.radii[self.with_truth(labels).correct])
        below = np.searchsorted(radii_of_correct, wanted, side="left")
        return np.asarray((len(radii_of_correct) - below) / len(self), dtype=np.float64)

    def acr(self, labels: ArrayLike | None = None) -> float:
        """The average certified radius: (1 / #inputs) * sum over i of radius_i * correct_i.
        If `stopped_early`, it is a lower bound of what all n samples would give."""
        return float((self.radii * self.with_truth(labels).correct).mean())

    @property
    def abstention_rate(self) -> float:
        """#{i: label_i is ABSTAIN} / #inputs; not a number where some inputs are not bounded."""
        return float((self.labels == ABSTAIN).mean()) if self.is_bounded.all() else math.nan

    def in_unit_range(self) -> "Certificates":
        """The same certificates for pixels in [0, 1]: sigma and radii over the width of `value_range`."""
        if self.value_range is None:
            raise UserError("the range of the pixels is not known, so radii in [0, 1] are not known either")
        width = self.value_range[1] - self.value_range[0]
        kind, parameter = split_call(self.noise)
        noise = self.noise if parameter is None else f"{kind}({float(parameter) / width!r})"
        return replace(self, radii=self.radii / width, noise=noise, value_range=UNIT)

    def to_pandas(self, labels: ArrayLike | None = None) -> "pd.DataFrame":
        """A row for each input: what is known of it, counts aside."""
        try:
            import pandas as pd
        except ImportError:
            raise UserError("to_pandas needs pandas; run: pip install pandas") from None
        known = self.with_truth(labels)
        columns = ((name, getattr(known, field)) for field, name in file.JSON_NAMES.items())
        table = pd.DataFrame({name: each for name, each in columns if each is not None and each.ndim == 1})
        if known.truth is not None:
            table.insert(table.columns.get_loc("radius") + 1, "correct", known.correct)
        return table

    def save(self, path: str | Path, labels: ArrayLike | None = None) -> None:
        """Write them to a file: .tsv as in a run folder, which the report reads, or .json."""
        path, fields = Path(path), vars(self.with_truth(labels))
        if path.suffix not in (".tsv", ".json"):
            raise UserError(f"{path}: certificates are saved as .tsv or .json, by the file's suffix")
        lines = [file.to_json(fields)] if path.suffix == ".json" else [*file.to_tsv(fields, None), ""]
        write_output(path, "\n".join(lines).encode())

    @staticmethod
    def load(path: str | Path) -> "Certificates":
        """The certificates of one file: one that `save` wrote, one vote of a run, or another tool's log."""
        return parse(read_file(Path(path)), str(path))[0]

    def __repr__(self) -> str:
        mean = self.radii.mean() if self.truth is None else self.acr()
        name = f"{'mean radius' if self.truth is None else 'ACR'}{' at least' * self.stopped_early}"
        pixels = "[{:g}, {:g}]".format(*self.value_range) if self.value_range else "any range"
        parts = [
            f"{len(self):,} input{'s' * (len(self) != 1)}",
            f"{100 * self.abstention_rate:.1f}% abstain" if self.is_bounded.all() else None,
            f"{name} {mean:.3g}", self.noise, None if self.value_range == UNIT else f"pixels in {pixels}",
            f"n = {self.fixed_n:,}" if self.fixed_n and not self.stopped_early else None,
            f"n up to {self.max_n:,}" if self.max_n else None,
            None if self.alpha is None else f"alpha = {self.alpha:g}",
        ]  # fmt: skip
        return f"Certificates({', '.join(filter(None, parts))})"

    def _repr_html_(self) -> str:
        titles = {"indices": "input", "truth": "true class", "labels": "label", "radii": "radius"}
        names = [name for name in (*titles, "p_lower") if vars(self)[name] is not None]
        at = [k for k in range(len(self)) if k < _SHOWN or k >= len(self) - _SHOWN]
        rows = ["".join(f"<td>{_shown(name, vars(self)[name][k])}</td>" for name in names) for k in at]
        if len(self) > 2 * _SHOWN:
            rows.insert(_SHOWN, f"<td colspan={len(names)}>...</td>")
        head = "".join(f"<th>{titles.get(name, name)}</th>" for name in names)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = repr(self).removeprefix("Certificates(").removesuffix(")")
        return f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>"

    @property
    def correct(self) -> NDArray[np.bool_]:
        """(M,): whether the label is the true class; an abstention is not correct."""
        if self.truth is None:
            advice = "give them with certificates.with_truth(labels), or certify with --labels"
            raise UserError(f"the true classes are not known; {advice}")
        return np.asarray(self.labels == self.truth)

    @property
    def sigma(self) -> float | None:
        """The standard deviation of the noise, whatever its kind."""
        kind, parameter = split_call(self.noise)
        return float(parameter) * file.DEVIATIONS[kind] if parameter and kind in file.DEVIATIONS else None

    @property
    def bound_kind(self) -> str | None:
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


def parse(content: bytes, source: str) -> tuple[Certificates, str | None]:
    """The certificates in a file, TSV or JSON, and the vote that it names."""
    if content.lstrip()[:1] == b"{":
        return Certificates(**file.from_json(content, source)), None
    fields, vote = file.parse_tsv(content, source)
    return Certificates(**fields), vote


def _shown(name: str, value: float) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.4g}"
    return "abstains" if name == "labels" and value == ABSTAIN else str(value)
