"""Certificate files: a tab-separated table with a line for each input, ours or another tool's; or JSON.

    idx label predict radius correct                    must be among the columns, by name
    time                                                H:MM:SS.ffffff
    p_lower p_upper n alpha n0 seed norm precision vote
    bound                                               one-sided, two-sided(0.05), not bounded,
                                                        sequential(N,0.35,0.25), ...
    counts counts0                                      9,1,0; by member for EAS: 9,1,0;8,2,0
    noise                                               gaussian(0.25), laplace(0.177), ...
    value_range                                         -1,1 for pixels in [-1, 1]; without it, [0, 1]

Those of a run have all of these columns but the last, radii and bounds at full precision; of other tools'
files what is there is read. The label is -1 where it is not known, for all inputs of a file. The JSON form is
in docs/run-folder.md.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from shieldwall.errors import UserError
from shieldwall.vocabulary import ABSTAIN, NOISES, NORMS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
DEVIATIONS = NOISES | {"exact-gaussian": 1.0}  #: standard deviations, where the noise's parameter is 1
NOT_BOUNDED = "not bounded"  #: the bound where the samples chose a wrong class, with --correct-only
JSON_NAMES = {  # the arrays of certificates, with their names in a JSON file
    "indices": "index", "truth": "truth", "labels": "label", "radii": "radius", "p_lower": "p_lower",
    "p_upper": "p_upper", "n": "n", "counts": "counts", "selection_counts": "counts0", "seconds": "seconds",
}  # fmt: skip
SETTINGS = ("n0", "alpha", "bound", "noise", "norm", "precision", "seed", "value_range")
UNIT = (0.0, 1.0)  #: the range of pixels where nothing else is said
REQUIRED = ("idx", "label", "predict", "radius", "correct")
COLUMNS = (
    *REQUIRED, "time", "p_lower", "p_upper", "bound", "n", "alpha", "counts", "n0", "counts0",
    "noise", "norm", "precision", "seed", "vote",
)  # fmt: skip
HEADER = ("\t".join(COLUMNS) + "\n").encode()
FORMAT, VERSION = "shieldwall certificates", 1
_JSON_START = f'{{"format": "{FORMAT}"'
_START = 1_000  #: bytes that are more than the names of all columns
_REALS = {"radii", "p_lower", "p_upper", "seconds"}
_CALL = re.compile(r"([^()]+)\((.+)\)")
_HARMED_BY_A_CUT = {*REQUIRED, "noise", "bound", "n", "alpha", "norm", "precision"} - {"correct"}
_LARGEST = 1e100  #: of the real numbers, so that their sums are finite
_T = TypeVar("_T")


def split_call(text: str | None) -> tuple[str, str | None]:
    """("gaussian", "0.25") for "gaussian(0.25)"; what has no parameter has None there."""
    call = _CALL.fullmatch(text or "")
    return (call[1], call[2]) if call else (text or "", None)


def usual_bound(bound: str | None) -> str:
    """That of each member, for a bound of EAS."""
    return (bound or "").removeprefix("after-smoothing").removeprefix("-")


def shared(values: Iterable[_T]) -> _T | None:
    """The value that all share, or None."""
    return different.pop() if len(different := set(values)) == 1 else None


def num_samples(counts: Ints) -> Ints:
    """(M, K) or (M, N, K) -> (M,): members are counted on the same samples."""
    totals = counts.sum(-1)
    return np.asarray(totals if totals.ndim == 1 else totals[:, 0])


def to_tsv(fields: Mapping[str, Any], vote: str | None) -> list[str]:
    """The lines of a table, the first its header, with the columns that are known."""
    labels, bound, n, value_range = (fields[name] for name in ("labels", "bound", "n", "value_range"))
    truth = np.full_like(labels, -1) if fields["truth"] is None else fields["truth"]
    if bound is not None and n is not None and not n.all():
        bound = [bound if samples else NOT_BOUNDED for samples in n.tolist()]
    seconds = fields["seconds"]
    cells = {
        **{name: fields[name] for name in ("p_lower", "p_upper", "n", "counts", *SETTINGS[:-1])},
        "idx": np.arange(len(labels)) if fields["indices"] is None else fields["indices"],
        "label": truth, "predict": labels, "bound": bound, "vote": vote,
        "radius": fields["radii"], "correct": ((labels == truth) & (truth >= 0)) * 1,
        "counts0": fields["selection_counts"],
        "time": None if seconds is None else [timedelta(seconds=float(time)) for time in seconds],
        "value_range": None if value_range == UNIT else ",".join(map(repr, value_range or ("any",))),
    }  # fmt: skip
    columns = [name for name in (*COLUMNS, "value_range") if cells[name] is not None]
    texts = []
    for values in (cells[name] for name in columns):
        by_input = isinstance(values, (np.ndarray, list))
        texts.append([*map(_cell, values)] if by_input else [_cell(values)] * len(labels))
    return ["\t".join(columns), *map("\t".join, zip(*texts, strict=True))]


def _cell(value: Any) -> str:
    """A number in full; counts of classes by commas, of several members these by semicolons."""
    if isinstance(value, np.ndarray):
        return (";" if value.ndim == 2 else ",").join(map(_cell, value))
    return repr(float(value)) if isinstance(value, float) else str(value)


def is_log(path: Path) -> bool:
    """Whether a file starts as certificates do, in either form."""
    try:
        with path.open("rb") as file:
            start = file.read(_START).decode(errors="replace")
    except OSError:
        return False
    return set(REQUIRED) <= set(start.partition("\n")[0].split("\t")) or start.startswith(_JSON_START)


def to_json(fields: Mapping[str, Any]) -> str:
    """One object for all certificates; what is not known is left out."""
    settings = {name: fields[name] for name in SETTINGS if fields[name] is not None}
    known = {name: fields[field].tolist() for field, name in JSON_NAMES.items() if fields[field] is not None}
    rows = [dict(zip(known, values, strict=True)) for values in zip(*known.values(), strict=True)]
    head = json.dumps({"format": FORMAT, "version": VERSION, "settings": settings}, allow_nan=False)
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    return f'{head[:-1]}, "certificates": [\n{lines}\n]}}\n'


def from_json(content: bytes, source: str) -> dict[str, Any]:
    try:
        whole = json.loads(content)
        if (whole["format"], whole["version"]) != (FORMAT, VERSION):
            raise ValueError(f"format {whole['format']!r} and version {whole['version']}, not {VERSION}")
        rows, settings = whole["certificates"], dict(whole["settings"])
        if unknown := set(settings) - set(SETTINGS):
            raise ValueError(f"unknown settings {', '.join(sorted(unknown))}")
        fields: dict[str, Any] = {}
        for field, name in JSON_NAMES.items() if rows else ():
            if name in rows[0]:
                fields[field] = np.array([row[name] for row in rows], float if field in _REALS else int)
        if "labels" not in fields or "radii" not in fields:
            raise KeyError("label or radius")
    except (ValueError, KeyError, TypeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{source}: these are not certificates as shieldwall saves them: {reason}") from None
    settings["value_range"] = tuple(settings["value_range"]) if "value_range" in settings else None
    return fields | settings


def parse_tsv(content: bytes, source: str) -> tuple[dict[str, Any], str | None]:
    """The fields of a file's certificates, and the vote that it names; a last line cut off is ignored."""
    table = _Table(content, source)
    columns = ("idx", "label", "predict", "correct")
    indices, truth, labels, correct = (table.exact(column, int) for column in columns)
    radii, n = table.exact("radius", float), table.exact("n", int) if "n" in table.columns else None
    is_known = not (truth == -1).all()
    wrong = ((truth < 0) & is_known) | (labels < ABSTAIN)
    table.refuse(wrong, f"label {{label}}, predict {{predict}}; classes count from 0, {ABSTAIN} abstains")
    wrong = correct != ((labels == truth) & is_known)
    table.refuse(wrong, "correct is {correct}, but predict is {predict} and label is {label}")
    is_abstention = labels == ABSTAIN
    table.refuse(is_abstention & (radii > 0), "radius is {radius}, but an abstention certifies nothing")
    if "bound" in table.columns and n is not None:
        not_bounded = np.array([cell == NOT_BOUNDED for cell in table.columns["bound"]])
        wrong = not_bounded & (~is_abstention | (n != 0))
        table.refuse(wrong, "bound is {bound!r}, but there is a certificate, or n is not 0")
    first = _first_rows(indices.tolist())
    for row, index in enumerate(indices.tolist()):
        if first[index] != row:
            raise table.error(row, f"idx {index} is already on line {first[index] + 2}")
    counts, counts0 = table.counts("counts"), table.counts("counts0")
    if table.columns.keys() >= set(COLUMNS):
        table.check_sums("n", counts)
        table.check_sums("n0", counts0)
    fields = {
        "labels": labels, "radii": radii, "indices": indices, "truth": truth if is_known else None,
        "p_lower": table.numbers("p_lower", float), "p_upper": table.numbers("p_upper", float),
        "counts": counts, "selection_counts": counts0, "seconds": table.numbers("time", _seconds), "n": n,
        "alpha": shared(table.exact("alpha", float).tolist()) if "alpha" in table.columns else None,
        "bound": table.bound(), "noise": table.noise(), "norm": table.norm(),
        "n0": table.shared("n0", int), "precision": table.shared("precision", str),
        "seed": table.shared("seed", int), "value_range": table.value_range(),
    }  # fmt: skip
    return fields, table.shared("vote", str)


class _Table:
    """The cells of a file by column; errors name the line."""

    def __init__(self, content: bytes, source: str) -> None:
        self.source = source
        try:
            *lines, last = content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
        except UnicodeDecodeError:
            raise UserError(f"{source}: this is not text, so not a certification log") from None
        if not lines and not last:
            raise UserError(f"{source}: the file is empty")
        header = (lines[0] if lines else last).split("\t")
        if missing := [column for column in REQUIRED if column not in header]:
            advice = f"a certification log is tab-separated and starts with {' '.join(REQUIRED)}"
            raise UserError(f"{source}, line 1: no column {', '.join(missing)}; {advice}")
        rows = [line.split("\t") for line in lines[1:]]
        # A file that an editor saved may lack the last newline and still be whole; but a number in the last
        # cell could have lost digits.
        cells = last.split("\t")
        if lines and len(cells) == len(header) and cells[-1] and header[-1] not in _HARMED_BY_A_CUT:
            rows.append(cells)
        if not rows:
            raise UserError(f"{source}: no input is certified in this file yet")
        for k, row in enumerate(rows):
            if len(row) != len(header):
                raise self.error(k, f"the header has {len(header)} columns, this line has {len(row)}")
        self.columns: dict[str, tuple[str, ...]] = dict(zip(header, zip(*rows, strict=True), strict=True))

    def error(self, row: int, what: str) -> UserError:
        return UserError(f"{self.source}, line {row + 2}: {what}")

    def refuse(self, wrong: NDArray[np.bool_], what: str) -> None:
        """Raise for the first row that is wrong; {column} in what is said stands for its cell."""
        if wrong.any():
            row = int(wrong.argmax())
            raise self.error(row, what.format_map({name: cells[row] for name, cells in self.columns.items()}))

    def check_sums(self, column: str, counts: Ints | None) -> None:
        if counts is not None:
            sums = num_samples(counts)
            wrong = self.exact(column, int) != sums
            self.refuse(wrong, f"{column} is {{{column}}}, but the counts sum to {sums[wrong.argmax()]}")

    def exact(self, column: str, kind: type) -> NDArray[Any]:
        """The numbers of a column; one by one where one of them is wrong, to say which."""
        with suppress(ValueError, OverflowError):
            values: NDArray[Any] = np.array([*map(kind, self.columns[column])], dtype=kind)
            if kind is int or ((values >= 0) & (values <= _LARGEST)).all():
                return values
        numbers = [self.number(column, row, cell, kind) for row, cell in enumerate(self.columns[column])]
        return np.array(numbers, dtype=kind)

    def number(self, column: str, row: int, cell: str, kind: Callable[[str], float]) -> float:
        try:
            value = kind(cell)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise self.error(row, f"{column} is {cell!r}, not {what}") from None
        if kind is int and not -(2**63) <= value < 2**63:
            raise self.error(row, f"{column} is {cell[:30]}, a number of more than 64 bits")
        if kind is float and not 0 <= value <= _LARGEST:
            raise self.error(row, f"{column} is {cell}; it must be finite and not negative")
        return value

    def norm(self) -> str:
        """That of the file; L2 where it does not say, for that is what other tools certify."""
        norms = _first_rows(self.columns.get("norm", ("l2",)))
        usual = next(iter(norms))
        for norm, row in norms.items():
            if norm not in NORMS:
                raise self.error(row, f"norm is {norm!r}, not one of {', '.join(NORMS)}")
            if norm != usual:
                raise self.error(row, f"norm is {norm}, but that of line 2 is {usual}; a log has one norm")
        return usual

    def noise(self) -> str | None:
        for noise, row in _first_rows(self.columns.get("noise", ())).items():
            kind, parameter = split_call(noise)
            if parameter is not None and kind in DEVIATIONS:
                self.number("noise", row, parameter, float)
        return self.shared("noise", str)

    def bound(self) -> str | None:
        """The bound of all inputs that have one; of several with other parameters, the kind."""
        bounds = _first_rows(self.columns.get("bound", ()))
        if len(bounds) > 1:
            bounds.pop(NOT_BOUNDED, None)
        for bound, row in bounds.items():
            kind, parameter = split_call(bound)
            if parameter is not None and kind.endswith("sequential"):
                self.number("bound", row, parameter.split(",")[0], int)
        return shared(bounds) or shared(split_call(bound)[0] for bound in bounds)

    def value_range(self) -> tuple[float, float] | None:
        if "value_range" not in self.columns:
            return UNIT
        with suppress(ValueError):
            low, high = (self.shared("value_range", str) or "").split(",")
            return float(low), float(high)
        return None

    # Other tools may have something else in the columns below: what is not in our form is not read.

    def shared(self, column: str, form: Callable[[str], _T]) -> _T | None:
        cell = shared(self.columns.get(column, ()))
        with suppress(ValueError):
            return None if cell is None else form(cell)
        return None

    def numbers(self, column: str, form: Callable[[str], float]) -> Floats | None:
        with suppress(KeyError, ValueError):
            return np.array([form(cell) for cell in self.columns[column]], dtype=np.float64)
        return None

    def counts(self, column: str) -> Ints | None:
        """(M, K), or (M, N, K) where cells have several members."""
        with suppress(KeyError, ValueError, OverflowError):  # no numbers, or not as many in each cell
            by_member = [[member.split(",") for member in cell.split(";")] for cell in self.columns[column]]
            counts = np.array(by_member, dtype=np.int64)
            return counts[:, 0] if counts.shape[1] == 1 else counts
        return None


def _first_rows(values: Iterable[_T]) -> dict[_T, int]:
    """The values that differ, each with the first row that has it."""
    first: dict[_T, int] = {}
    for row, value in enumerate(values):
        first.setdefault(value, row)
    return first


def _seconds(cell: str) -> float:
    """As Python writes a timedelta: [D day[s], ]H:MM:SS[.ffffff]."""
    days, _, clock = cell.rpartition(", ")
    hours, minutes, seconds = clock.split(":")
    return 86400 * int(days.split(" ")[0] or 0) + 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def with_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of certificates; older runs call `members_sha256` weights."""
    return {"members_sha256" if key == "weights" else key: value for key, value in settings.items()}
