"""Certification in parts (shards) by independent processes, and merging the parts.

    shieldwall certify RUN --shard 3/16     inputs of the third sixteenth, into certificates.shards/3-of-16
    shieldwall merge RUN                    all shards, once they are complete, into certificates

An input's counts depend only on its own noise samples, and these have the same rows of a batch as in one
process. So merged certificates are the same bytes as those of one process, except for the time column.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from shieldwall.errors import UserError, check
from shieldwall.files import disk_errors
from shieldwall.recipes import difference
from shieldwall.results.archive import RUN_FILES
from shieldwall.results.certificate_writer import WANTED, CertificateWriter, read_lines, read_settings
from shieldwall.runs.folder import RunFolder, exclusive_lock, recorded_environment
from shieldwall.runs.verify import check_counts_in
from shieldwall.texts import is_folder_name

SHARD = "shard"  # the setting of a shard that the merged certificates do not have


@dataclass(frozen=True)
class Shard:
    """The `number`-th of `count` parts of the inputs, counted from 1."""

    number: int
    count: int

    def __post_init__(self) -> None:
        check(
            1 <= self.number <= self.count,
            f"the shards are 1/{self.count} to {self.count}/{self.count}",
            self,
        )

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str] = os.environ) -> "Shard":
        """Read 3/16; `auto`, the place in a SLURM job array; or auto/16, the place in a Kubernetes job."""
        number, slash, count = text.partition("/")
        try:
            if number != "auto":
                place = int(number)
            elif "SLURM_ARRAY_TASK_ID" in environment:
                first = int(environment.get("SLURM_ARRAY_TASK_MIN", "0"))
                place = int(environment["SLURM_ARRAY_TASK_ID"]) - first + 1
                count = count if slash else environment["SLURM_ARRAY_TASK_COUNT"]
            else:
                place = int(environment["JOB_COMPLETION_INDEX"]) + 1
            parts = int(count)
        except (ValueError, KeyError) as error:
            ways = "3/16, `auto` in a SLURM job array, or auto/16 in an indexed Kubernetes job of 16"
            raise UserError(f"--shard takes a part of all parts, such as {ways}; given: {text!r}") from error
        return cls(place, parts)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def part(self, inputs: Sequence[int]) -> Sequence[int]:
        start, end = (len(inputs) * end // self.count for end in (self.number - 1, self.number))
        return inputs[start:end]

    def folder(self, certificates: Path) -> Path:
        return shards_folder(certificates) / f"{self.number}-of-{self.count}"

    def lock(self, certificates: Path) -> AbstractContextManager[Callable[[], None]]:
        """Keep other processes off this shard, as a run's lock does, while other shards are certified."""
        folder = self.folder(certificates)
        with disk_errors(folder):
            folder.parent.mkdir(exist_ok=True)
        return exclusive_lock(folder.with_name(f".{folder.name}.lock"), folder)


def check_folder_name(to: str) -> None:
    check(is_folder_name(to), "--to takes the name of a folder inside the run folder", repr(to))


def shards_folder(certificates: Path) -> Path:
    return certificates.with_name(f"{certificates.name}.shards")


def folders(certificates: Path) -> list[Path]:
    return sorted(shards_folder(certificates).glob("*-of-*"))


def merge_run(path: Path | str, *, to: str = "certificates", console: Console) -> RunFolder:
    """Merge a run's shards into the folder that a single process would have written, and remove them."""
    check_folder_name(to)
    run = RunFolder(path)
    certificates = run.path / to
    with run.lock():
        parts = [folder for folder in folders(certificates) if (folder / "settings.yaml").is_file()]
        if not parts:
            raise UserError(
                f"{run.path} has no shards of {to} to merge; make them with `certify --shard K/N`"
            )
        for part in parts if run.is_trained() else ():
            if read_settings(part / "settings.yaml").get("members_sha256") != run.weights_digest():
                raise UserError(f"{part} was certified with other members than the run's; delete it")
        settings = _common_settings(parts)
        total = int(settings[WANTED])
        run.check_certificates(to)
        for part in (*parts, certificates):
            check_counts_in(part)
        votes = sorted(file.stem for file in parts[0].glob("*.tsv"))
        by_input: dict[int, tuple[bytes, ...]] = {}
        for part in reversed(parts):  # of two that have an input, the first counts
            by_input |= read_lines(part, votes)
        wanted = range(0, total * settings["every"], settings["every"])
        there = by_input.keys() | read_lines(certificates, votes).keys()
        if missing := [index for index in wanted if index not in there]:
            names, count = [part.name for part in parts], int(parts[0].name.rpartition("-")[2])
            lost = [name for k in range(count) if (name := f"{k + 1}-of-{count}") not in names]
            left = f"{len(missing)} of {total} inputs of {to} are not certified yet, input {missing[0]} first"
            parts_are = f"shards so far: {', '.join(names)}; missing: {', '.join(lost[:9]) or 'none'}"
            raise UserError(f"{left}; {parts_are}; run the missing and unfinished shards")
        run.unseal(f"{to}/")
        with CertificateWriter(certificates, votes, settings) as writer:
            for index in remaining(writer.done, wanted, writer.path):
                writer.append_lines(dict(zip(votes, by_input[index], strict=True)))
        facts = recorded_environment(parts[0]).get("certify", {})
        run.note_environment("certify", {**facts, "processes": len(parts)})
        run.seal(*RUN_FILES, "members", to)
        shutil.rmtree(shards_folder(certificates))
    console.print(f"{certificates}: {total} inputs of {len(parts)} shards", soft_wrap=True)
    return run


def certified_inputs(certificates: Path) -> set[int]:
    """The inputs that are certified for all votes, by one process or in shards."""
    homes = (certificates, *folders(certificates))
    return {index for home in homes for index in read_lines(home, [file.stem for file in home.glob("*.tsv")])}


def remaining(done: Sequence[int], wanted: Sequence[int], folder: Path) -> Sequence[int]:
    """The inputs still to do; those done must be the first, so that the files are in order."""
    common = min(len(done), len(wanted))
    if list(done[:common]) != list(wanted[:common]):
        raise UserError(f"{folder} has certificates of other inputs; use --to NAME for a new folder")
    return wanted[common:]


def _common_settings(parts: Sequence[Path]) -> dict[str, Any]:
    first = {**read_settings(parts[0] / "settings.yaml"), SHARD: None}
    for part in parts[1:]:
        if different := difference(first, {**read_settings(part / "settings.yaml"), SHARD: None}):
            both = f"{parts[0]} and {part.name} were certified with other settings ({different})"
            raise UserError(f"{both}; delete the one that is wrong")
    return {key: value for key, value in first.items() if key != SHARD}
