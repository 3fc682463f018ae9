"""Certification in parts (shards) by independent processes, and merging the parts.

    shieldwall certify RUN --shard 3/16     inputs of the third sixteenth, into certificates.shards/3-of-16
    shieldwall merge RUN                    all shards, once they are complete, into certificates

An input's counts depend only on its own noise samples, and these have the same rows of a batch as in one
process. So merged certificates are the same bytes as those of one process, except for the time column.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from shieldwall.errors import UserError
from shieldwall.files import disk_errors
from shieldwall.recipes import difference
from shieldwall.results.archive import RUN_FILES
from shieldwall.results.certificate_writer import WANTED, CertificateWriter, read_lines, read_settings
from shieldwall.runs.folder import RunFolder, exclusive_lock
from shieldwall.runs.verify import check_counts_in
from shieldwall.texts import is_folder_name, json_value, read_file

_SHARD = "shard"
"""The setting of a shard that the merged certificates do not have."""


@dataclass(frozen=True)
class Shard:
    """The `number`-th of `count` parts of the inputs, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str] = os.environ) -> "Shard":
        """Read 3/16; `auto`, the place in a SLURM job array; or auto/16, the place in a Kubernetes job."""
        number, slash, count = text.partition("/")
        try:
            if number != "auto":
                return cls(int(number), int(count))
            if "SLURM_ARRAY_TASK_ID" in environment:
                first = int(environment.get("SLURM_ARRAY_TASK_MIN", "0"))
                size = int(count) if slash else int(environment["SLURM_ARRAY_TASK_COUNT"])
                return cls(int(environment["SLURM_ARRAY_TASK_ID"]) - first + 1, size)
            if "JOB_COMPLETION_INDEX" in environment and slash:
                return cls(int(environment["JOB_COMPLETION_INDEX"]) + 1, int(count))
        except UserError:
            raise
        except (ValueError, KeyError) as error:
            raise _not_a_shard(text) from error
        raise _not_a_shard(text)

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise UserError(f"the shards are 1/{self.count} to {self.count}/{self.count}; given: {self}")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def part(self, inputs: Sequence[int]) -> Sequence[int]:
        start, end = (len(inputs) * end // self.count for end in (self.number - 1, self.number))
        return inputs[start:end]

    def folder(self, certificates: Path) -> Path:
        return shards_folder(certificates) / f"{self.number}-of-{self.count}"

    def settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of the shard; the number of inputs is that of all shards."""
        return {**settings, _SHARD: str(self)}

    @contextmanager
    def lock(self, certificates: Path) -> Iterator[Callable[[], None]]:
        """Keep other processes off this shard, as a run's lock does, while other shards are certified."""
        folder = self.folder(certificates)
        with disk_errors(folder):
            folder.parent.mkdir(exist_ok=True)
        with exclusive_lock(folder.with_name(f".{folder.name}.lock"), folder) as check:
            yield check


def check_folder_name(to: str) -> None:
    if not is_folder_name(to):
        raise UserError(f"--to takes the name of a folder inside the run folder; given: {to!r}")


def shards_folder(certificates: Path) -> Path:
    return certificates.with_name(f"{certificates.name}.shards")


def merge_run(path: Path | str, *, to: str = "certificates", console: Console) -> RunFolder:
    """Merge a run's shards into the folder that a single process would have written, and remove them."""
    check_folder_name(to)
    run = RunFolder(path)
    certificates = run.path / to
    with run.lock():
        folders = sorted(folder.parent for folder in shards_folder(certificates).glob("*/settings.yaml"))
        if not folders:
            raise UserError(
                f"{run.path} has no shards of {to} to merge; make them with `shieldwall certify --shard K/N`"
            )
        for folder in folders if run.is_trained() else ():
            if read_settings(folder / "settings.yaml").get("members_sha256") != run.weights_digest():
                raise UserError(f"{folder} was certified with other members than the run's; delete it")
        settings = _common_settings(folders)
        total = int(settings[WANTED])
        for folder in folders:
            check_counts_in(folder)
        if not run.check_certificates(to):
            check_counts_in(certificates)
        votes = sorted(file.stem for file in folders[0].glob("*.tsv"))
        lines = {vote: _lines_by_input(folders, vote) for vote in votes}
        wanted = range(0, total * settings["every"], settings["every"])
        there = set.intersection(*(set(by_input) for by_input in lines.values()))
        there |= set(read_lines(certificates, votes))
        if missing := [index for index in wanted if index not in there]:
            names, count = [folder.name for folder in folders], int(folders[0].name.rpartition("-")[2])
            lost = [name for k in range(count) if (name := f"{k + 1}-of-{count}") not in names]
            raise UserError(
                f"{len(missing)} of {total} inputs of {to} are not certified yet, input {missing[0]} first; "
                f"shards so far: {', '.join(names)}; missing: {', '.join(lost[:9]) or 'none'}; "
                "run the missing and unfinished shards"
            )
        run.unseal(f"{to}/")
        with CertificateWriter(certificates, votes, settings) as writer:
            for index in remaining(writer.done, wanted, writer.path):
                writer.append_lines({vote: lines[vote][index] for vote in votes})
        environment = json_value(read_file(file := folders[0] / "environment.json"), str(file))
        run.note_environment("certify", {**environment, "processes": len(folders)})
        run.seal(*RUN_FILES, "members", to)
        shutil.rmtree(shards_folder(certificates))
    console.print(f"{certificates}: {total} inputs of {len(folders)} shards", soft_wrap=True)
    return run


def certified_inputs(certificates: Path) -> set[int]:
    """The inputs that are certified for all votes, by one process or in shards."""
    folders = (certificates, *shards_folder(certificates).glob("*-of-*"))
    return {
        index for each in folders for index in read_lines(each, [file.stem for file in each.glob("*.tsv")])
    }


def remaining(done: Sequence[int], wanted: Sequence[int], folder: Path) -> Sequence[int]:
    """The inputs still to do; those done must be the first, so that the files are in order."""
    common = min(len(done), len(wanted))
    if list(done[:common]) != list(wanted[:common]):
        raise UserError(f"{folder} has certificates of other inputs; use --to NAME for a new folder")
    return wanted[common:]


def _common_settings(folders: Sequence[Path]) -> dict[str, Any]:
    """The settings that all shards share."""
    first = read_settings(folders[0] / "settings.yaml")
    for folder in folders[1:]:
        other = read_settings(folder / "settings.yaml")
        if different := difference({**first, _SHARD: None}, {**other, _SHARD: None}):
            raise UserError(
                f"{folders[0]} and {folder.name} were certified with other settings ({different}); "
                "delete the one that is wrong"
            )
    return {key: value for key, value in first.items() if key != _SHARD}


def _lines_by_input(folders: Sequence[Path], vote: str) -> dict[int, bytes]:
    by_input: dict[int, bytes] = {}
    for folder in folders:
        for index, (line,) in read_lines(folder, [vote]).items():
            by_input.setdefault(index, line)
    return by_input


def _not_a_shard(text: str) -> UserError:
    return UserError(
        "--shard takes a part and the number of parts, such as 3/16, `auto` in a SLURM job array, or auto/16 "
        f"in an indexed Kubernetes job of 16; given: {text!r}"
    )
