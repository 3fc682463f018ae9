"""A study as steps, and which of them are done: read from the run folders themselves, every time.

    train -> tune -> certify -> pack    of one run; its training comes after that of the run it starts from

A run, also a packed one, is recognised by its recipe and by those it started from, whatever it is called.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from shieldwall.data.datasets import split_sizes
from shieldwall.errors import UserError
from shieldwall.files import write_output
from shieldwall.recipes import from_mapping
from shieldwall.results.archive import SUFFIX, is_archive, read_archive
from shieldwall.results.certificate_file import split_call, with_current_names
from shieldwall.studies.study import Run, Study, key_of
from shieldwall.texts import yaml_documents
from shieldwall.vocabulary import EAS, MME, WE, member_vote

KINDS = ("train", "tune", "certify", "pack")
CERTIFICATES = "certificates"
_COPIES = 10  # noisy copies of each held-out image that weights are tuned on


@dataclass(frozen=True)
class Step:
    kind: str
    run: Run
    needs: "tuple[Step, ...]"  # those before it, of this run or of the one it starts from

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
    """The files of a run, in its folder or packed; empty where there is no such file."""

    path: Path

    @cached_property
    def packed(self) -> Mapping[str, bytes] | None:
        return read_archive(self.path) if is_archive(self.path) else None

    def read(self, name: str) -> bytes:
        if self.packed is not None:
            return self.packed.get(name, b"")
        return path.read_bytes() if (path := self.path / name).is_file() else b""

    def documents(self, name: str) -> list[Mapping[str, Any]]:
        try:
            return [each for each in yaml_documents(self.read(name), name) if isinstance(each, dict)]
        except UserError:
            return []

    def mapping(self, name: str) -> Mapping[str, Any]:
        return next(iter(self.documents(name)), {})

    @property
    def progress(self) -> tuple[bool, int]:
        """More for a run that is further; a folder comes before a packed run."""
        files = (path for name in ("members/*", "*/*.tsv", "training.jsonl") for path in self.path.glob(name))
        return self.packed is None, sum(path.stat().st_size for path in files)

    def key(self) -> str | None:
        own, before = self.documents("recipe.yaml"), self.documents("start.yaml")
        try:
            return key_of(map(from_mapping, [*own, *before])) if own else None
        except UserError:
            return None


class Places:
    """The folders with runs; new ones are made in the first."""

    def __init__(self, roots: Sequence[Path], data_dir: Path | None = None) -> None:
        self.roots, self.data_dir = roots, data_dir
        self._found: dict[str, Files] = {}
        self._homes: dict[str, Files] = {}
        self._sizes = cache(partial(split_sizes, data_dir=data_dir))
        for root in roots:
            if root != roots[0] and not root.is_dir():
                raise UserError(f"--runs takes folders with runs; {root} is none")
            for files in map(Files, sorted(root.iterdir()) if root.is_dir() else ()):
                is_beside_its_folder = (root / files.path.name.removesuffix(SUFFIX) / "recipe.yaml").is_file()
                if (is_archive(files.path) and is_beside_its_folder) or (key := files.key()) is None:
                    continue
                if key not in self._found or files.progress > self._found[key].progress:
                    self._found[key] = files

    def home(self, run: Run) -> Files:
        """The run's folder, made or to be made; or the packed run, if it is certified as the study wants."""
        if run.key not in self._homes:
            new = Files(self.roots[0] / run.folder)
            files = self._found.get(run.key, new)
            is_of_use = files.packed is None or self._is_certified(files, CERTIFICATES, run)
            self._homes[run.key] = files if is_of_use else new
        return self._homes[run.key]

    def folder(self, run: Run) -> Path:
        files = self.home(run)
        return files.path if files.packed is None else self.roots[0] / run.folder

    def archive(self, run: Run) -> Path:
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
        files, name = self.home(run), self.certificates(run)
        if files.packed is None and not self._is_certified(files, name, run):
            return None
        return files.path if name == CERTIFICATES else files.path / name

    def sizes(self, run: Run) -> tuple[int, int]:
        return self._sizes(run.recipe.data)

    def inputs(self, run: Run) -> int:
        return len(run.recipe.certification.inputs(self.sizes(run)[1]))

    def is_done(self, step: Step) -> bool:
        run, files = step.run, self.home(step.run)
        if step.kind == "train":
            members = range(1, run.recipe.members + 1)
            # Of a packed run, members are made anew in its folder, for others to start from.
            return all((self.folder(run) / "members" / f"member-{k}.safetensors").is_file() for k in members)
        if files.packed is not None:
            return True
        if step.kind == "tune":
            return set(run.tune) <= set(files.mapping("weights.yaml"))
        if step.kind == "certify":
            return self.readable(run) is not None
        if not (archive := self.archive(run)).is_file():
            return False
        packed, to = Files(archive), self.certificates(run)
        names = [f"{to}/{path.name}" for path in (files.path / to).glob("*.tsv")]
        return bool(names) and all(packed.read(name) == files.read(name) for name in names)

    def state(self, step: Step) -> str:
        """done, running, failed or missing; of a step that was begun, how far it is."""
        if self.is_done(step):
            return "done"
        run, files, begun = step.run, Files(self.folder(step.run)), ""
        if step.kind == "train" and files.path.is_dir():
            epochs = files.read("training.jsonl").count(b"\n")
            begun = f"epoch {epochs} of {run.recipe.schedule.epochs}"
        elif step.kind == "certify":
            done = max(0, _num_certified(files, to := self.certificates(run), run))
            shards = files.path.glob(f"{to}.shards/*/{WE}.tsv")
            done += sum(path.read_bytes().count(b"\n") - 1 for path in shards)
            begun = f"{done} of {self.inputs(run)} inputs" if done > 0 else ""
        if begun and self.is_locked(run):
            return f"running, {begun}"
        return "failed" if self.failure(run).get("step") == step.kind else begun or "missing"

    def failure(self, run: Run) -> Mapping[str, Any]:
        """The step that failed last, and its error; it lies beside the run folder."""
        return Files(self.folder(run).parent).mapping(f"{self.folder(run).name}.failed.json")

    def note_failure(self, step: Step, error: str | None) -> None:
        folder = self.folder(step.run)
        path = folder.with_name(f"{folder.name}.failed.json")
        if error is None:
            path.unlink(missing_ok=True)
        else:
            write_output(path, (json.dumps({"step": step.kind, "error": error}) + "\n").encode())

    def is_locked(self, run: Run) -> bool:
        path = self.folder(run) / ".lock"
        try:
            with FileLock(path, timeout=0) if path.is_file() else nullcontext():
                return False
        except Timeout:
            return True

    def _is_certified(self, files: Files, folder: str, run: Run) -> bool:
        fits = _same_protocol(files.mapping(f"{folder}/settings.yaml"), run)
        return fits and _num_certified(files, folder, run) >= self.inputs(run)


def _num_certified(files: Files, folder: str, run: Run) -> int:
    members = [member_vote(k) for k in range(1, run.recipe.members + 1)]
    votes = [*members, WE, MME, *([EAS] if len(members) > 1 else []), *(f"{WE}-{way}" for way in run.tune)]
    return min(files.read(f"{folder}/{vote}.tsv").count(b"\n") for vote in votes) - 1


def task(step: Step, places: Places) -> dict[str, Any]:
    """What the process that does the step has to know (`work.py`)."""
    run = step.run
    start = str(places.folder(run.start)) if run.start else run.recipe.init_from
    return {
        "kind": step.kind, "recipe": run.recipe, "folder": places.folder(run), "start": start,
        "tune": run.tune, "to": places.certificates(run), "compile": run.compile,
        "archive": places.archive(run), "data_dir": places.data_dir,
    }  # fmt: skip


def cost(step: Step, places: Places) -> tuple[str, float]:
    """The kind of a step's units, a training image or a noise sample of an input, and how many there are."""
    recipe, which = step.run.recipe, step.run.recipe.certification
    train, _ = places.sizes(step.run)
    held_out = math.ceil(train / recipe.holdout_every) if recipe.holdout_every else 0
    what: list[Any] = [recipe.data, recipe.model, recipe.members]
    if step.kind == "train":
        how = [_structure(recipe.objective), recipe.schedule.precision, recipe.independent]
        return json.dumps(["train", *what, *how], sort_keys=True), recipe.schedule.epochs * (train - held_out)
    tuning, inputs = held_out * _COPIES * len(step.run.tune), places.inputs(step.run)
    samples = {"certify": inputs * (which.n0 + which.n), "tune": tuning, "pack": 0}
    return json.dumps(["certify", *what, which.precision, step.run.compile]), samples[step.kind]


def hours(steps: Iterable[Step], places: Places, seconds: Mapping[str, float]) -> float:
    """Of one core or GPU, by the seconds of a unit of each kind; NaN where these are not known."""
    units = [cost(step, places) for step in steps]
    return sum(count * seconds.get(kind, math.nan) for kind, count in units if count) / 3600


def _structure(part: Any) -> Any:
    """An objective without the numbers that do not change what a step costs."""
    if isinstance(part, Mapping):
        return {key: _structure(value) for key, value in part.items()}
    return bool(part) if isinstance(part, float) else part


def _same_protocol(content: Mapping[str, Any], run: Run) -> bool:
    settings, which = with_current_names(content), run.recipe.certification
    wanted = {"seed": run.recipe.seed, "tuned": set(run.tune), "radii": sorted(which.radii), "votes": None}
    wanted |= {key: getattr(which, key) for key in ("every", "n0", "n", "alpha", "bound", "precision")}
    wanted |= {"norm": which.norm or settings.get("norm"), "exact": which.exact_noise}
    stored = {"radii": [], **settings, "exact": str(settings.get("noise")).startswith("exact")}
    stored |= {"tuned": set(settings.get("tuned", {})), "bound": split_call(settings.get("bound"))[0]}
    return all(stored.get(key) == value for key, value in wanted.items())
