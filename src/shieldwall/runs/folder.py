"""A run folder: everything about one experiment, in files a person can read.

recipe.yaml                   the resolved recipe
start.yaml                    the recipe of the run it started from, and of those before
environment.json              versions, commit and device of each stage
training.jsonl                one line per epoch
members/member-1.safetensors  the trained weights
certificates/we.tsv, ...      one file per vote, one line per input
SHA256SUMS                    digests of these files, written when a verb ends (results/checks.py)
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout
from torch import nn

from shieldwall.errors import LockedError, UserError
from shieldwall.files import disk_errors, load_tensors, load_weights, remove_parts, save_tensors, write_atomic
from shieldwall.recipes import Recipe, difference
from shieldwall.recipes.recipe import from_file
from shieldwall.results.archive import is_archive
from shieldwall.results.checks import SUMS, Sums, certificate_names, sha256
from shieldwall.texts import json_value, read_file, read_yaml

LOCK = ".lock"


class RunFolder:
    """An existing run folder; `create` makes one, or opens one of the same recipe."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if is_archive(self.path):
            raise UserError(f"{path} is a packed run, which has no weights; give the folder of a trained run")
        if not (self.path / "recipe.yaml").is_file():
            there = "is a file" if self.path.is_file() else "does not exist"
            what = "has no recipe.yaml" if self.path.is_dir() else there
            raise UserError(f"{path} is not a run folder: it {what}; make one with `shieldwall train RECIPE`")
        Sums.read(self.path).check_files(["recipe.yaml"])
        self.recipe = from_file(self.path / "recipe.yaml")

    @classmethod
    def create(cls, path: Path | str, recipe: Recipe) -> "RunFolder":
        path = Path(path)
        file = path / "recipe.yaml"
        if not file.is_file():
            # Fresh: not there, empty, or with nothing but what a kill left: a lock, a part of a recipe.
            items = [path] if path.exists() and not path.is_dir() else path.glob("*")
            is_fresh = all(item.name == LOCK or item.suffix == ".part" for item in items)
            if not is_fresh and not file.is_file():  # another process may have made the run since
                raise UserError(f"{path} exists and is not a run folder; choose another one with --out")
            with disk_errors(path):
                path.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(path / LOCK, path):
                if not file.is_file():
                    write_atomic(file, recipe.to_yaml().encode())
        run = cls(path)
        if other := difference(asdict(run.recipe), asdict(recipe)):
            raise UserError(
                f"{path} holds a run of another recipe ({other}); choose another folder with --out"
            )
        return run

    @contextmanager
    def lock(self) -> Iterator[Callable[[], None]]:
        """Keep other processes out, as `exclusive_lock` does; the lock ends with this process."""
        with exclusive_lock(self.path / LOCK, self.path) as check:
            for folder in (self.path, *filter(Path.is_dir, self.path.iterdir())):
                remove_parts(folder)
            yield check

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
        self.check_trained()
        Sums.read(self.path).check_files(map(self._name_of, self.member_paths()))
        for path, member in zip(self.member_paths(), members, strict=True):
            load_weights(member, load_tensors(path)[0], path)

    def weights_digest(self) -> str:
        """One checksum over all members: certificates hold for these weights only."""
        return sha256(b"".join(path.read_bytes() for path in self.member_paths()))

    def seal(self, *names: str) -> None:
        """Add the digests of these files, and of the members or certificates in these folders."""
        known = Sums.read(self.path).by_name  # but a folder that was deleted as a whole is forgotten
        known = {name: digest for name, digest in known.items() if (self.path / name).parent.is_dir()}
        files: list[Path] = []
        for path in map(self.path.joinpath, names):
            files += [path / "settings.yaml", *path.glob("*.tsv"), *path.glob("*.safetensors"), path]
        fresh = {self._name_of(path): sha256(path.read_bytes()) for path in files if path.is_file()}
        self._write_sums(fresh | known)

    def unseal(self, *names: str) -> None:
        """Take away the digests of files that will change; `folder/` names all files in it."""
        known = Sums.read(self.path).by_name
        kept = {name: digest for name, digest in known.items() if not name.startswith(names)}
        if kept != known:
            self._write_sums(kept)

    def check_certificates(self, folder: str) -> None:
        """Raise if certificates are not as certify left them; a folder that was deleted is made again."""
        if (self.path / folder).is_dir():
            sums = Sums.read(self.path)
            sums.check_files(name for name in sums.by_name if name.startswith(f"{folder}/"))
            sums.check_listed(folder, certificate_names(self.path / folder))

    def _write_sums(self, by_name: dict[str, str]) -> None:
        write_atomic(self.path / SUMS, str(Sums(self.path, by_name)).encode())

    def _name_of(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def check_weights(self, digest: str, advice: str) -> None:
        if self.weights_digest() != digest:
            raise UserError(f"{self.path / 'members'}: the weights were changed by another process; {advice}")

    def epochs_done(self) -> int:  # of an interrupted training
        log = self.path / "training.jsonl"
        return len(log.read_bytes().splitlines()) if self.checkpoint.is_file() and log.is_file() else 0

    def save_weights(self, method: str, weights: list[float]) -> None:
        content = yaml.safe_dump({**self.tuned_weights(), method: weights}, sort_keys=True)
        self.unseal("weights.yaml")
        write_atomic(self.path / "weights.yaml", content.encode())
        self.seal("weights.yaml")

    def tuned_weights(self) -> dict[str, list[float]]:
        path = self.path / "weights.yaml"
        if not path.is_file():
            return {}
        Sums.read(self.path).check_files([path.name])
        try:
            (known,) = read_yaml(path)
            return {str(method): [float(weight) for weight in weights] for method, weights in known.items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise UserError(f"{path} is damaged; delete it and run `shieldwall tune-weights`") from error

    def save_log(self, records: Sequence[dict[str, Any]]) -> None:
        lines = "".join(json.dumps(record) + "\n" for record in records)
        write_atomic(self.path / "training.jsonl", lines.encode())

    def note_environment(self, stage: str, environment: dict[str, Any]) -> None:
        """Record the environment of a verb: the last one under `stage`, and all in the order they ran."""
        known = self.environment()
        earlier = known.get("history") or [{"stage": name, **facts} for name, facts in known.items()]
        history = [*earlier, {"stage": stage, **environment}]
        content = json.dumps({**known, stage: environment, "history": history}, indent=2) + "\n"
        self.unseal("environment.json")
        write_atomic(self.path / "environment.json", content.encode())

    def environment(self) -> dict[str, Any]:
        return recorded_environment(self.path)


def recorded_environment(folder: Path) -> dict[str, Any]:
    """What the environment.json of a run, or of a shard, says by stage."""
    path = folder / "environment.json"
    try:
        return dict(json_value(read_file(path), str(path))) if path.is_file() else {}
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); move it away") from error


@contextmanager
def exclusive_lock(file: Path, folder: Path) -> Iterator[Callable[[], None]]:
    """Keep other processes off a folder, by a lock on this file. Yields a function that raises an error if
    the file is no longer the one that was locked: then another process can lock the new one."""
    lock = FileLock(file)
    with disk_errors(folder):
        try:
            lock.acquire(timeout=0)
            locked = file.stat()
        except Timeout as error:
            raise LockedError(f"another process is working on {folder}; wait for it to end") from error

    def check() -> None:
        if not file.exists() or not os.path.samestat(file.stat(), locked):
            lost = f"the lock file {file} was deleted, so another process may be working on {folder} too"
            raise UserError(f"{lost}; make sure that none is, and run the same command again")

    try:
        yield check
        check()
    finally:
        lock.release()
