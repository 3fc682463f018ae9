"""What is checked whenever a run is read: digests of its files, and its certificates' settings and order.

SHA256SUMS in a run folder has a line for each file that a verb left there, in the form of `sha256sum`:

    # SHA-256 of the lines below: 9f86d081...b0f00a08
    e3b0c442...7852b855  certificates/we.tsv

A verb takes away the line of a file that it will change, and adds the new one when it ends: a file without a
line was interrupted, or is older than the digests; one that differs from its line was changed since.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shieldwall.errors import UserError
from shieldwall.results.certificates import NOT_BOUNDED, Certificates, split_call, usual_bound

SUMS = "SHA256SUMS"
SEALED = f"{SUMS} with its own"  #: says environment.json, if SHA256SUMS has had its own digest from the start
_SEAL = "# SHA-256 of the lines below: "


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def certificate_names(folder: Path) -> list[str]:
    return [path.name for path in (*folder.glob("*.tsv"), *folder.glob("settings.yaml"))]


@dataclass(frozen=True)
class Sums:
    """The digests of a run's files, by their names in the run folder."""

    home: Path
    by_name: Mapping[str, str] = field(default_factory=dict)
    is_sealed: bool = False  #: whether the file has the digest of its own lines

    @classmethod
    def parse(cls, content: bytes, home: Path) -> "Sums":
        by_name: dict[str, str] = {}
        text = content.decode(errors="replace")
        seal, _, lines = text.partition("\n") if text.startswith(_SEAL) else ("", "", text)
        if seal and seal != _SEAL + sha256(lines.encode()):
            raise UserError(f"{home / SUMS} was changed: its first line is not the digest of the others")
        for number, line in enumerate(lines.splitlines(), start=1 + bool(seal)):
            digest, _, name = line.partition("  ")
            if not re.fullmatch("[0-9a-f]{64}", digest) or not name or name in by_name:
                raise UserError(f"{home / SUMS}, line {number} is damaged; restore the run from a copy")
            by_name[name] = digest
        return cls(home, by_name, bool(seal))

    @classmethod
    def read(cls, run: Path) -> "Sums":
        """Those of a run folder, none where it has no SHA256SUMS."""
        path = run / SUMS
        return cls.parse(path.read_bytes(), run) if path.is_file() else cls(run)

    def check(self, name: str, content: bytes) -> None:
        """Raise if the file of this name has a line here, and another content."""
        if name in self.by_name and self.by_name[name] != sha256(content):
            what = f"is not the file that was written: its SHA-256 is not that in {SUMS}"
            raise UserError(f"{self.home / name} {what}; restore a copy, or delete it and make it again")

    def check_listed(self, folder: str, names: Collection[str]) -> None:
        """Raise if a folder with certificates that have lines here lacks one, or holds one without a line."""
        listed = {name.removeprefix(f"{folder}/") for name in self.by_name if name.startswith(f"{folder}/")}
        if not any(name.endswith(".tsv") for name in listed):
            return
        if missing := sorted(listed.difference(names)):
            raise self._missing(f"{folder}/{missing[0]}")
        if added := sorted(set(names) - listed):
            what = f"is not one of the files that certify wrote ({SUMS}); move it to another folder"
            raise UserError(f"{self.home / folder / added[0]} {what}")

    def check_files(self, names: Iterable[str] | None = None) -> None:
        """Raise if one of these files, by default of all, is missing or has changed."""
        for name in self.by_name if names is None else filter(self.by_name.__contains__, names):
            if not (self.home / name).is_file():
                raise self._missing(name)
            self.check(name, (self.home / name).read_bytes())

    def check_packed(self, content: Mapping[str, bytes]) -> None:
        """The same for the files of a packed run, which has no members."""
        for name in self.by_name:
            if name not in content and not name.startswith("members/"):
                raise self._missing(name)
        names = defaultdict(list)
        for path, data in content.items():
            self.check(path, data)
            folder, _, name = path.rpartition("/")
            names[folder].append(name)
        for folder, in_folder in names.items():
            self.check_listed(folder, in_folder)

    def _missing(self, name: str) -> UserError:
        return UserError(f"{self.home / name} is missing; {SUMS} lists it")

    def __str__(self) -> str:
        lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(self.by_name.items()))
        return f"{_SEAL}{sha256(lines.encode())}\n{lines}"


def check_votes(
    parsed: Mapping[str, tuple[Certificates, str | None]], settings: Mapping[str, Any], where: Path
) -> None:
    """Raise where certificates, by vote with the vote that their file names, contradict their settings, their
    order or each other. Settings that an older version did not write are not compared."""
    first_vote, (first, _) = next(iter(parsed.items()))
    for vote, (table, named) in parsed.items():
        file = f"{where}: {vote}.tsv"
        if named not in (None, vote):
            raise UserError(f"{file} has the certificates of {named}")
        for name in ("noise", "norm", "n0", "alpha", "precision", "seed"):
            stated, own = settings.get(name), getattr(table, name)
            known = own is not None or table.selection_counts is not None  # other tools leave columns out
            if name in settings and known and own != stated:
                raise UserError(f"{file} has {name} {_said(own)}, and settings.yaml has {stated}")
        _check_bound(file, table, settings)
        every, indices = settings.get("every"), table.indices
        if isinstance(every, int) and indices is not None:
            expected = every * np.arange(len(table))
            if (moved := indices != expected).any():
                k = int(moved.argmax())
                what = f"input {indices[k]} stands where input {expected[k]} belongs"
                raise _in_line(file, k, f"{what}; lines were moved, lost or added")
        common = min(len(table), len(first))
        for name, what in (("indices", "inputs"), ("truth", "true classes"), ("n", "numbers of samples")):
            ours, theirs = getattr(table, name), getattr(first, name)
            if ours is not None and theirs is not None and (other := ours[:common] != theirs[:common]).any():
                raise _in_line(file, other.argmax(), f"its {what} are not those of {first_vote}.tsv")


def _check_bound(file: str, table: Certificates, settings: Mapping[str, Any]) -> None:
    if "bound" not in settings:
        return
    bounded, n = table.is_bounded, settings.get("n")
    if not bounded.all() and table.truth is not None and table.selection_counts is not None:
        right = table.selection_counts.argmax(-1).reshape(len(table), -1) == table.truth[:, None]
        if (wrong := ~bounded & (right.any(1) | (not settings.get("correct_only")))).any():
            what = "it has no samples for a bound, which only inputs of a wrong class may lack"
            raise _in_line(file, wrong.argmax(), f"{what}, and only with --correct-only")
        if table.bound == NOT_BOUNDED:
            return
    kind, parameter = split_call(usual_bound(table.bound) or "one-sided")
    expected = split_call(str(settings["bound"]))
    if settings.get("radii"):
        expected, parameter = ("sequential", str(n)), parameter and parameter.split(",")[0]
    elif table.n is not None and (other := bounded & (table.n != n)).any():
        row = int(other.argmax())
        raise _in_line(file, row, f"n is {table.n[row]}, and settings.yaml has {n}")
    if table.bound is None or (kind, parameter) != expected:
        raise UserError(f"{file} has the bound {_said(table.bound)}, and settings.yaml has another")


def _in_line(file: str, row: int | np.integer[Any], what: str) -> UserError:
    return UserError(f"{file}, line {row + 2}: {what}")


def _said(value: object) -> str:
    return "that differ from line to line" if value is None else str(value)
