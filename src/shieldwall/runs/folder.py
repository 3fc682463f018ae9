"""A run folder: everything about one experiment, in files a person can read.

recipe.yaml                   the resolved recipe
start.yaml                    the recipe of the run it started from, and of those before
environment.json              versions, commit and device of each stage
training.jsonl                one line per epoch
members/member-1.safetensors  the trained weights
certificates/we.tsv, ...      one file per vote, one line per input
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout
from torch import nn

from shieldwall.errors import LockedError, UserError
from shieldwall.files import disk_errors, load_tensors, load_weights, save_tensors, write_atomic
from shieldwall.recipes import Recipe, difference, from_file
from shieldwall.results.archive import is_archive


class RunFolder:
    """An existing run folder; `create` makes one, or opens one of the same recipe."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if not (self.path / "recipe.yaml").is_file():
            raise _no_run(self.path)
        self.recipe = from_file(self.path / "recipe.yaml")

    @classmethod
    def create(cls, path: Path | str, recipe: Recipe) -> "RunFolder":
        path = Path(path)
        if (path / "recipe.yaml").is_file():
            run = cls(path)
            if other := difference(asdict(run.recipe), asdict(recipe)):
                raise UserError(
                    f"{path} holds a run of another recipe ({other}); choose another folder with --out"
                )
            return run
        if path.exists() and not (path.is_dir() and _is_fresh(path)):
            raise UserError(f"{path} exists and is not a run folder; choose another one with --out")
        with disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
        write_atomic(path / "recipe.yaml", recipe.to_yaml().encode())
        return cls(path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out; the lock ends with this process, even if it is killed."""
        with exclusive_lock(self.path / ".lock", self.path):
            yield

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.safetensors"

    def member_paths(self) -> list[Path]:
        return [self.path / "members" / f"member-{k + 1}.safetensors" for k in range(self.recipe.members)]

    def is_trained(self) -> bool:
        return all(path.is_file() for path in self.member_paths())

    def check_trained(self) -> None:
        if not self.is_trained():
            raise UserError(f"{self.path} is not trained yet; run `shieldwall train` with --out {self.path}")

    def save_members(self, members: Sequence[nn.Module]) -> None:
        with disk_errors(self.path / "members"):
            (self.path / "members").mkdir(exist_ok=True)
        for path, member in zip(self.member_paths(), members, strict=True):
            save_tensors(path, member.state_dict())

    def load_members(self, members: Sequence[nn.Module]) -> None:
        """Load the trained weights into newly built members."""
        self.check_trained()
        for path, member in zip(self.member_paths(), members, strict=True):
            load_weights(member, load_tensors(path)[0], path)

    def weights_digest(self) -> str:
        """One checksum over all members: certificates hold for these weights only."""
        digest = hashlib.sha256()
        for path in self.member_paths():
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def note_start(self, start: "RunFolder") -> None:
        """Record the recipes of the members that training starts from: their folder may move or change."""
        before = start.path / "start.yaml"
        recipes = [start.recipe.to_yaml(), *([before.read_text()] if before.is_file() else [])]
        write_atomic(self.path / "start.yaml", "---\n".join(recipes).encode())

    def epochs_done(self) -> int:
        """The number of epochs that an interrupted training has finished."""
        log = self.path / "training.jsonl"
        return len(log.read_bytes().splitlines()) if self.checkpoint.is_file() and log.is_file() else 0

    def save_weights(self, method: str, weights: list[float]) -> None:
        """Save tuned weights of the weighted vote, beside those of other methods."""
        content = yaml.safe_dump({**self.tuned_weights(), method: weights}, sort_keys=True)
        write_atomic(self.path / "weights.yaml", content.encode())

    def tuned_weights(self) -> dict[str, list[float]]:
        """The weights that were tuned for this run, by method."""
        path = self.path / "weights.yaml"
        if not path.is_file():
            return {}
        try:
            known = yaml.safe_load(path.read_text())
            return {str(method): [float(weight) for weight in weights] for method, weights in known.items()}
        except (yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
            raise UserError(f"{path} is damaged; delete it and run `shieldwall tune-weights`") from error

    def save_log(self, records: Sequence[dict[str, Any]]) -> None:
        lines = "".join(json.dumps(record) + "\n" for record in records)
        write_atomic(self.path / "training.jsonl", lines.encode())

    def note_environment(self, stage: str, environment: dict[str, Any]) -> None:
        """Record the environment of the last run of `stage`."""
        path = self.path / "environment.json"
        try:
            known = dict(json.loads(path.read_text())) if path.is_file() else {}
        except (ValueError, TypeError) as error:
            raise UserError(f"{path} is damaged ({error}); move it away") from error
        write_atomic(path, (json.dumps({**known, stage: environment}, indent=2) + "\n").encode())


@contextmanager
def exclusive_lock(file: Path, folder: Path) -> Iterator[None]:
    """Keep other processes off a folder, by a lock on this file."""
    lock = FileLock(file)
    with disk_errors(folder):
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise LockedError(f"another process is working on {folder}; wait for it to end") from error
    try:
        yield
    finally:
        lock.release()


def _no_run(path: Path) -> UserError:
    if is_archive(path):
        return UserError(f"{path} is a packed run, which has no weights; give the folder of a trained run")
    what = "has no recipe.yaml" if path.is_dir() else "is a file" if path.exists() else "does not exist"
    return UserError(f"{path} is not a run folder: it {what}; make one with `shieldwall train RECIPE`")


def _is_fresh(folder: Path) -> bool:
    """Whether a folder is empty, or holds only a partly written recipe after a kill."""
    return all(item.name == ".recipe.yaml.part" for item in folder.iterdir())
