"""A study as steps, and which of them are done: read from the run folders themselves, every time.

    train -> tune -> certify -> pack    of one run; its training comes after that of the run it starts from

A run folder is recognised by its recipe and by those it started from, whatever it is called. So is a packed
run, which is finished but has no weights.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from shieldwall.data.datasets import split_sizes
from shieldwall.errors import UserError
from shieldwall.files import write_output
from shieldwall.recipes import from_mapping
from shieldwall.results.archive import SUFFIX, is_archive, read_archive
from shieldwall.results.certificate_file import with_current_names
from shieldwall.studies.study import Run, Study, key_of
from shieldwall.texts import yaml_documents
from shieldwall.vocabulary import EAS, MME, WE, member_vote

KINDS = ("train", "tune", "certify", "pack")
DONE, RUNNING, FAILED, MISSING = "done", "running", "failed", "missing"
CERTIFICATES = "certificates"
_COPIES = 10
"""Noisy copies of each held-out image that weights are tuned on."""


@dataclass(frozen=True)
class Step:
    """One step of one run; `needs` are those before it, of this run or of the one it starts from."""

    kind: str
    run: Run
    needs: "tuple[Step, ...]"

    @property
    def name(self) -> str:
        return f"{self.kind} {self.run.folder}"

    def __str__(self) -> str:
        return f"{self.kind} {self.run}"


def steps_of(study: Study) -> list[Step]:
    """All steps, each after those that it needs; a run that is only started from is trained and no more."""
    steps: list[Step] = []
    trained: dict[str, Step] = {}
    shown = {run.key for run in study.shown}
    for run in study.runs:
        last = trained[run.key] = Step("train", run, (trained[run.start.key],) if run.start else ())
        steps.append(last)
        for kind in KINDS[1:] if run.key in shown else ():
            if kind != "tune" or run.tune:
                last = Step(kind, run, (last,))
                steps.append(last)
    return steps


def to_do(steps: Sequence[Step], places: "Places") -> list[Step]:
    """What is not done of the last steps of each run, and of what they need."""
    needed = {need.name for step in steps for need in step.needs}
    wanted = {step.name for step in steps if step.name not in needed and not places.is_done(step)}
    for step in reversed(steps):
        if step.name in wanted:
            wanted |= {need.name for need in step.needs if not places.is_done(need)}
    return [step for step in steps if step.name in wanted]


@dataclass(frozen=True)
class Files:
    """The files of a run, in its folder or packed."""

    path: Path

    @cached_property
    def packed(self) -> Mapping[str, bytes] | None:
        return read_archive(self.path) if is_archive(self.path) else None

    def read(self, name: str) -> bytes:
        """A file's content; nothing where there is no such file."""
        if self.packed is not None:
            return self.packed.get(name, b"")
        return (self.path / name).read_bytes() if (self.path / name).is_file() else b""

    def documents(self, name: str) -> list[Mapping[str, Any]]:
        """The YAML documents of a file; none where it cannot be read."""
        try:
            return [each for each in yaml_documents(self.read(name), name) if isinstance(each, dict)]
        except UserError:
            return []

    def mapping(self, name: str) -> Mapping[str, Any]:
        return next(iter(self.documents(name)), {})

    def key(self) -> str | None:
        """That of the run; None where there is no run, or one of which something cannot be read."""
        own, before = self.documents("recipe.yaml"), self.documents("start.yaml")
        try:
            return key_of(map(from_mapping, [*own, *before])) if own else None
        except UserError:
            return None


class Places:
    """The folders with runs; new ones are made in the first."""

    def __init__(self, roots: Sequence[Path], data_dir: Path | None = None) -> None:
        self.roots, self.data_dir = roots, data_dir
        self._folders: dict[str, Path] = {}
        self._archives: dict[str, Files] = {}
        self._tests: dict[str, int] = {}
        for root in roots:
            if root != roots[0] and not root.is_dir():
                raise UserError(f"--runs takes folders with runs; {root} is none")
            for files in map(Files, sorted(root.iterdir()) if root.is_dir() else ()):
                is_beside_its_folder = (root / files.path.name.removesuffix(SUFFIX) / "recipe.yaml").is_file()
                if (is_archive(files.path) and is_beside_its_folder) or (key := files.key()) is None:
                    continue
                if files.packed is not None:
                    self._archives.setdefault(key, files)
                elif key not in self._folders or _size(files.path) > _size(self._folders[key]):
                    self._folders[key] = files.path

    def folder(self, run: Run) -> Path:
        """The folder of the run, made or to be made."""
        return self._folders.get(run.key, self.roots[0] / run.folder)

    def archive(self, run: Run) -> Path:
        """Where the run is packed."""
        return self.roots[0] / f"{self.folder(run).name}{SUFFIX}"

    def certificates(self, run: Run) -> str:
        """The name of the folder of certificates made as the study wants them, or of one to make."""
        folder = self.folder(run)
        for path in sorted(folder.glob("*/settings.yaml")):
            if _same_protocol(Files(path.parent).mapping("settings.yaml"), run):
                return path.parent.name
        protocol = json.dumps([asdict(run.recipe.certification), run.tune], sort_keys=True)
        other = f"{CERTIFICATES}-{hashlib.sha256(protocol.encode()).hexdigest()[:8]}"
        return other if (folder / CERTIFICATES).exists() else CERTIFICATES

    def readable(self, run: Run) -> Path | None:
        """What a report reads of a run that is certified completely, folder or archive."""
        folder, name = self.folder(run), self.certificates(run)
        if self._certified(Files(folder), name, run) >= self.inputs(run):
            return folder if name == CERTIFICATES else folder / name
        return self._packed(run)

    def inputs(self, run: Run) -> int:
        """How many test inputs are to be certified."""
        which, data = run.recipe.certification, run.recipe.data
        if data not in self._tests:
            self._tests[data] = split_sizes(data, self.data_dir)[1]
        return min(math.ceil(self._tests[data] / which.every), which.limit or self._tests[data])

    def is_done(self, step: Step) -> bool:
        run, folder = step.run, self.folder(step.run)
        if step.kind == "train":
            members = range(1, run.recipe.members + 1)
            return all((folder / "members" / f"member-{k}.safetensors").is_file() for k in members)
        if step.kind == "tune":
            return self._packed(run) is not None or set(run.tune) <= set(
                Files(folder).mapping("weights.yaml")
            )
        if step.kind == "certify":
            return self.readable(run) is not None
        if not (archive := self.archive(run)).is_file():
            return self._packed(run) is not None
        packed, names = Files(archive), (folder / self.certificates(run)).glob("*.tsv")
        written = [path.relative_to(folder).as_posix() for path in names]
        is_packed = bool(written) and all(packed.read(name) == Files(folder).read(name) for name in written)
        return is_packed or self._packed(run) is not None

    def state(self, step: Step) -> str:
        """done, running, failed or missing; of a step that was begun, how far it is."""
        if self.is_done(step):
            return DONE
        folder, begun = self.folder(step.run), ""
        if step.kind == "train" and folder.is_dir():
            epochs = Files(folder).read("training.jsonl").count(b"\n")
            begun = f"epoch {epochs} of {step.run.recipe.schedule.epochs}"
        elif step.kind == "certify":
            done = self._certified(Files(folder), to := self.certificates(step.run), step.run)
            shards = folder.glob(f"{to}.shards/*/{WE}.tsv")
            done = max(0, done) + sum(path.read_bytes().count(b"\n") - 1 for path in shards)
            begun = f"{done} of {self.inputs(step.run)} inputs" if done > 0 else ""
        if begun and self.is_locked(step.run):
            return f"{RUNNING}, {begun}"
        return FAILED if self.failure(step.run).get("step") == step.kind else begun or MISSING

    def failure(self, run: Run) -> Mapping[str, Any]:
        """The step that failed last, and its error; beside the run folder, which there may be none of."""
        folder = self.folder(run)
        return Files(folder.parent).mapping(f"{folder.name}.failed.json")

    def note_failure(self, step: Step, error: str | None) -> None:
        """Write down that the step failed, or that it is tried again."""
        folder = self.folder(step.run)
        path = folder.with_name(f"{folder.name}.failed.json")
        if error is None:
            path.unlink(missing_ok=True)
        else:
            write_output(path, (json.dumps({"step": step.kind, "error": error}) + "\n").encode())

    def is_locked(self, run: Run) -> bool:
        """Whether a process works on the run."""
        path = self.folder(run) / ".lock"
        try:
            if path.is_file():
                with FileLock(path, timeout=0):
                    pass
        except Timeout:
            return True
        return False

    def _packed(self, run: Run) -> Path | None:
        """The packed run, if it is certified as the study wants and its folder is not here."""
        files = None if run.key in self._folders else self._archives.get(run.key)
        if files is None or not _same_protocol(files.mapping(f"{CERTIFICATES}/settings.yaml"), run):
            return None
        return files.path if self._certified(files, CERTIFICATES, run) >= self.inputs(run) else None

    def _certified(self, files: Files, folder: str, run: Run) -> int:
        """How many inputs are certified for every vote."""
        members = range(1, run.recipe.members + 1)
        votes = [*map(member_vote, members), WE, MME, *([EAS] if len(members) > 1 else [])]
        votes += [f"{WE}-{method}" for method in run.tune]
        return min(files.read(f"{folder}/{vote}.tsv").count(b"\n") for vote in votes) - 1


def task(step: Step, places: Places) -> dict[str, Any]:
    """The step as plain data, for the process that does it (`work.py`)."""
    run = step.run
    return {
        "kind": step.kind, "recipe": asdict(run.recipe), "folder": str(places.folder(run)),
        "start": str(places.folder(run.start)) if run.start else None, "tune": run.tune,
        "to": places.certificates(run), "compile": run.compile, "archive": str(places.archive(run)),
        "data_dir": None if places.data_dir is None else str(places.data_dir),
    }  # fmt: skip


def cost(step: Step, places: Places) -> tuple[str, float]:
    """What a step costs: the kind of its units, and how many there are.

    Units are a training image, and a noise sample of an input through every member.
    """
    recipe, which = step.run.recipe, step.run.recipe.certification
    train, _ = split_sizes(recipe.data, places.data_dir)
    held_out = math.ceil(train / recipe.holdout_every) if recipe.holdout_every else 0
    what: list[Any] = [recipe.data, recipe.model, recipe.members]
    if step.kind == "train":
        how = [_structure(recipe.objective), recipe.schedule.precision, recipe.independent]
        return json.dumps(["train", *what, *how], sort_keys=True), recipe.schedule.epochs * (train - held_out)
    samples = {
        "certify": places.inputs(step.run) * (which.n0 + which.n),
        "tune": held_out * _COPIES * len(step.run.tune),
    }
    return json.dumps(["certify", *what, which.precision, step.run.compile]), samples.get(step.kind, 0)


def _structure(part: Any) -> Any:
    """An objective without the numbers that do not change what a step costs."""
    if isinstance(part, Mapping):
        return {key: _structure(value) for key, value in part.items()}
    return bool(part) if isinstance(part, float) else part


def _same_protocol(content: Mapping[str, Any], run: Run) -> bool:
    settings, which = with_current_names(content), run.recipe.certification
    wanted = {"seed": run.recipe.seed, "tuned": set(run.tune), "radii": sorted(which.radii), "votes": None}
    wanted |= {key: getattr(which, key) for key in ("every", "n0", "n", "alpha", "bound", "precision")}
    wanted |= {"norm": which.norm} if which.norm else {}
    stored = {**settings, "tuned": set(settings.get("tuned", {})), "radii": settings.get("radii", [])}
    is_exact = str(settings.get("noise")).startswith("exact")
    return is_exact == which.exact_noise and all(stored.get(key) == value for key, value in wanted.items())


def _size(folder: Path) -> int:
    """More for a run folder that is further."""
    return sum(
        path.stat().st_size
        for name in ("members/*", "*/*.tsv", "training.jsonl")
        for path in folder.glob(name)
    )
