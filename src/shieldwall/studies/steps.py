"""A study as steps, and which of them are done: read from the run folders themselves, every time.

    train -> tune -> certify -> pack    of one run; its training comes after that of the run it starts from

A run folder is recognised by its recipe and by those it started from, whatever it is called. So is a packed
run, which is finished but has no weights.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from shieldwall.data.datasets import split_sizes
from shieldwall.errors import UserError
from shieldwall.files import write_output
from shieldwall.recipes import Recipe, from_mapping
from shieldwall.results.archive import SUFFIX, read_archive
from shieldwall.results.certificate_file import with_current_names
from shieldwall.studies.study import Run, Study, key_of
from shieldwall.vocabulary import EAS, MME, WE, member_vote

KINDS = ("train", "tune", "certify", "pack")
DONE, RUNNING, FAILED, MISSING = "done", "running", "failed", "missing"
_RECIPES = ("recipe.yaml", "start.yaml")
_COPIES = 10
"""Noisy copies of each held-out image that weights are tuned on."""


@dataclass(frozen=True)
class Step:
    """One step of one run; `needs` are those before it, of this run or of the one it starts from."""

    kind: str
    run: Run
    needs: tuple["Step", ...] = ()

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
        last = Step("train", run, (trained[run.start.key],) if run.start else ())
        steps.append(last)
        trained[run.key] = last
        for kind in KINDS[1:] if run.key in shown else ():
            if kind != "tune" or run.tune:
                last = Step(kind, run, (last,))
                steps.append(last)
    return steps


@dataclass
class Places:
    """The folders with runs; new ones are made in the first."""

    roots: Sequence[Path]
    data_dir: Path | None = None
    _folders: dict[str, Path] = field(default_factory=dict)
    _archives: dict[str, Path] = field(default_factory=dict)
    _contents: dict[Path, Mapping[str, bytes]] = field(default_factory=dict)
    _tests: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for root in self.roots:
            if root != self.roots[0] and not root.is_dir():
                raise UserError(f"--runs takes folders with runs; {root} is none")
            for path in sorted(root.iterdir()) if root.is_dir() else ():
                if path.name.endswith(SUFFIX) and not path.name.startswith("."):
                    self._contents[path] = content = read_archive(path)
                    documents = [doc for name in _RECIPES for doc in _documents(content.get(name, b""))]
                    if (key := _key(map(_recipe_of, documents))) is not None:
                        self._archives.setdefault(key, path)
                elif (key := _key(_chain(path))) is not None:
                    best = self._folders.get(key)
                    if best is None or _progress(path) > _progress(best):
                        self._folders[key] = path

    def folder(self, run: Run) -> Path:
        """The folder of the run, made or to be made."""
        return self._folders.get(run.key, self.roots[0] / run.folder)

    def archive(self, run: Run) -> Path:
        """Where the run is packed."""
        return self.roots[0] / f"{self.folder(run).name}{SUFFIX}"

    def certificates(self, run: Run) -> Path:
        """The folder of certificates made as the study wants them, or one to make."""
        folder = self.folder(run)
        for path in sorted(folder.glob("*/settings.yaml")):
            if _same_protocol(path.read_bytes(), run):
                return path.parent
        protocol = json.dumps([asdict(run.recipe.certification), run.tune], sort_keys=True)
        suffix = f"-{hashlib.sha256(protocol.encode()).hexdigest()[:8]}"
        return folder / f"certificates{suffix if (folder / 'certificates').exists() else ''}"

    def readable(self, run: Run) -> Path | None:
        """What a report reads of a run that is certified completely, folder or archive."""
        folder = self.certificates(run)
        if self._certified(run) >= self.inputs(run):
            return folder.parent if folder.name == "certificates" else folder
        return self._archive(run)

    def inputs(self, run: Run) -> int:
        """How many test inputs are to be certified."""
        which, data = run.recipe.certification, run.recipe.data
        if data not in self._tests:
            self._tests[data] = split_sizes(data, self.data_dir)[1]
        every = math.ceil(self._tests[data] / which.every)
        return every if which.limit is None else min(every, which.limit)

    def is_done(self, step: Step) -> bool:
        run, folder = step.run, self.folder(step.run)
        if step.kind == "train":
            return all(
                (folder / "members" / f"member-{k + 1}.safetensors").is_file()
                for k in range(run.recipe.members)
            )
        if self._archive(run) is not None:
            return True
        if step.kind == "tune":
            return set(run.tune) <= set(_yaml(folder / "weights.yaml"))
        if step.kind == "certify":
            return self._certified(run) >= self.inputs(run)
        packed, certificates = self.archive(run), self.certificates(run)
        written = [path.stat().st_mtime_ns for path in certificates.glob("*.tsv")]
        return packed.is_file() and bool(written) and packed.stat().st_mtime_ns >= max(written)

    def state(self, step: Step) -> str:
        """done, running, failed or missing; of a step that was begun, how far it is."""
        if self.is_done(step):
            return DONE
        begun = self._begun(step)
        if begun and self.is_locked(step.run):
            return f"{RUNNING}, {begun}"
        if self.failure(step.run).get("step") == step.kind:
            return FAILED
        return begun or MISSING

    def failure(self, run: Run) -> dict[str, str]:
        """The step that failed last, and its error."""
        return {str(key): str(value) for key, value in _yaml(self._failure(run)).items()}

    def note_failure(self, step: Step, error: str | None) -> None:
        """Write down that the step failed, or that it is tried again."""
        path = self._failure(step.run)
        if error is None:
            path.unlink(missing_ok=True)
        else:
            write_output(path, (json.dumps({"step": step.kind, "error": error}) + "\n").encode())

    def _failure(self, run: Run) -> Path:
        """Beside the run folder, which there may be none of."""
        folder = self.folder(run)
        return folder.with_name(f"{folder.name}.failed.json")

    def is_locked(self, run: Run) -> bool:
        """Whether a process works on the run."""
        path = self.folder(run) / ".lock"
        if not path.is_file():
            return False
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

    def _begun(self, step: Step) -> str:
        folder, recipe = self.folder(step.run), step.run.recipe
        if step.kind == "train" and (folder / "recipe.yaml").is_file():
            log = folder / "training.jsonl"
            done = log.read_bytes().count(b"\n") if log.is_file() else 0
            return f"epoch {done} of {recipe.schedule.epochs}"
        done = self._certified(step.run) if step.kind == "certify" else 0
        return f"{done} of {self.inputs(step.run)} inputs" if done else ""

    def _certified(self, run: Run) -> int:
        """How many inputs are certified for every vote."""
        files = [self.certificates(run) / f"{vote}.tsv" for vote in _votes(run)]
        if not all(file.is_file() for file in files):
            return 0
        return min(file.read_bytes().count(b"\n") for file in files) - 1

    def _archive(self, run: Run) -> Path | None:
        """The packed run, if it is certified as the study wants and its folder is not here."""
        path = self._archives.get(run.key)
        if path is None or run.key in self._folders:
            return None
        content = self._contents[path]
        certificates = [content.get(f"certificates/{vote}.tsv", b"") for vote in _votes(run)]
        complete = all(text.count(b"\n") > self.inputs(run) for text in certificates)
        return (
            path if complete and _same_protocol(content.get("certificates/settings.yaml", b""), run) else None
        )


def task(step: Step, places: Places) -> dict[str, Any]:
    """The step as plain data, for the process that does it (`work.py`)."""
    run = step.run
    return {
        "kind": step.kind, "recipe": asdict(run.recipe), "folder": str(places.folder(run)),
        "start": str(places.folder(run.start)) if run.start else None, "tune": run.tune,
        "to": places.certificates(run).name, "compile": run.compile, "archive": str(places.archive(run)),
        "data_dir": None if places.data_dir is None else str(places.data_dir),
    }  # fmt: skip


def cost(step: Step, places: Places) -> tuple[str, float]:
    """What a step costs: the kind of its units, and how many there are.

    Units are a training image, and a noise sample of an input through every member.
    """
    recipe = step.run.recipe
    train, _ = split_sizes(recipe.data, places.data_dir)
    held_out = math.ceil(train / recipe.holdout_every) if recipe.holdout_every else 0
    what: list[Any] = [recipe.data, recipe.model, recipe.members]
    if step.kind == "train":
        what = ["train", *what, _structure(recipe.objective), recipe.schedule.precision, recipe.independent]
        return json.dumps(what, sort_keys=True), recipe.schedule.epochs * (train - held_out)
    which = recipe.certification
    units = {
        "certify": places.inputs(step.run) * (which.n0 + which.n),
        "tune": held_out * _COPIES * len(step.run.tune),
    }
    return json.dumps(["certify", *what, which.precision, step.run.compile]), units.get(step.kind, 0)


def _structure(part: Any) -> Any:
    """An objective without the numbers that do not change what a step costs."""
    if isinstance(part, Mapping):
        return {key: _structure(value) for key, value in part.items()}
    return bool(part) if isinstance(part, float) else part


def _votes(run: Run) -> list[str]:
    members = run.recipe.members
    of_all = [*map(member_vote, range(1, members + 1)), WE, MME, *([EAS] if members > 1 else [])]
    return [*of_all, *(f"{WE}-{method}" for method in run.tune)]


def _same_protocol(text: bytes, run: Run) -> bool:
    settings = with_current_names(_mapping(text))
    wanted: dict[str, Any] = asdict(run.recipe.certification)
    radii, exact, _ = wanted.pop("radii"), wanted.pop("exact_noise"), wanted.pop("limit")
    if wanted["norm"] is None:
        del wanted["norm"]
    return bool(
        all(settings.get(key) == value for key, value in {**wanted, "seed": run.recipe.seed}.items())
        and settings.get("radii", []) == sorted(radii)
        and str(settings.get("noise")).startswith("exact") == exact
        and set(run.tune) == set(settings.get("tuned", {}))
        and "votes" not in settings
    )


def _progress(folder: Path) -> int:
    """More for a run folder that is further."""
    files = [*folder.glob("members/*.safetensors"), *folder.glob("*/*.tsv"), *folder.glob("training.jsonl")]
    return sum(path.stat().st_size for path in files)


def _chain(folder: Path) -> Iterator[Recipe | None]:
    """The recipe of a run folder and of those it started from; None for one that cannot be read."""
    if not (folder / "recipe.yaml").is_file():
        yield None
        return
    recipe = _recipe_of(_yaml(folder / "recipe.yaml"))
    yield recipe
    if (folder / "start.yaml").is_file():
        yield from map(_recipe_of, _documents((folder / "start.yaml").read_bytes()))
    elif recipe is not None and recipe.init_from is not None:
        yield from _chain(Path(recipe.init_from))


def _key(chain: Iterable[Recipe | None]) -> str | None:
    recipes = list(chain)
    return None if None in recipes else key_of([recipe for recipe in recipes if recipe is not None])


def _recipe_of(content: Mapping[str, Any]) -> Recipe | None:
    try:
        return from_mapping(content)
    except UserError:
        return None


def _documents(text: bytes) -> list[Mapping[str, Any]]:
    try:
        return [document for document in yaml.safe_load_all(text) if isinstance(document, dict)]
    except yaml.YAMLError:
        return []


def _mapping(text: bytes) -> Mapping[str, Any]:
    documents = _documents(text)
    return documents[0] if documents else {}


def _yaml(path: Path) -> Mapping[str, Any]:
    return _mapping(path.read_bytes()) if path.is_file() else {}
