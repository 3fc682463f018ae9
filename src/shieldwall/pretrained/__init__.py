"""Trained members that come with the package, each file with its SHA-256 in checksums.yaml.

    NAME/recipe.yaml, environment.json, members/member-1.safetensors, ...

A name stands for a trained run: `shieldwall.load("NAME")` gives the ensemble, `shieldwall certify NAME`
certifies a copy of it in runs/NAME.
"""

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import yaml

from shieldwall.errors import UserError, unknown_name
from shieldwall.files import disk_errors, write_atomic

HERE = Path(__file__).parent
COPIES = Path("runs")
_CHECKSUMS = "checksums.yaml"
NEAR = 0.75
"""How alike a name must be to one that is pretrained, to be taken for a slip of it."""
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


def names() -> list[str]:
    return sorted(_checksums())


def folder(name: str) -> Path:
    """The trained run called `name`, every file as it was when it was kept."""
    known = _checksums()
    if not known:
        raise UserError(f"no pretrained ensemble called {name!r}: this copy of shieldwall comes without any")
    if name not in known:
        raise unknown_name("pretrained ensemble", name, known)
    for file, wanted in known[name].items():
        path = HERE / name / file
        if not path.is_file() or _sha256(path) != wanted:
            what = "is not the file that was published" if path.is_file() else "is missing"
            raise UserError(f"the pretrained {name} is damaged: {path} {what}; install shieldwall again")
    return HERE / name


def at_hand(path: Path) -> Path:
    """`path`, or the copy in runs/NAME of what is pretrained under this name, as is then said on stderr."""
    name = str(path)
    if path.exists():
        return path
    if name not in _checksums():
        _check_no_slip(name)
        return path
    copy = COPIES / name
    if not copy.exists():
        _copy(folder(name), copy, _checksums()[name])
        _say(f"{name} is pretrained: copied to {copy}")
    elif _holds(copy, name):
        _say(f"{name} is pretrained: going on with its copy in {copy}")
    else:
        raise UserError(
            f"{name} is pretrained, and {copy} holds another run: give {copy} for that one, or move it away"
        )
    return copy


def _check_no_slip(name: str) -> None:
    """Refuse a name that is nearly one of the pretrained, or that of a folder in runs/."""
    in_runs = [str(COPIES / name)] if (COPIES / name).is_dir() else []
    if near := in_runs or get_close_matches(name, names(), n=1, cutoff=NEAR):
        raise UserError(
            f"{name} is not a run folder: it does not exist; did you mean {near[0]!r}? "
            "`shieldwall train RECIPE` makes a new one"
        )


def keep(run: Path, name: str) -> None:
    """Add the trained members of a run folder to the package as `name`, in place of an older `name`."""
    if not _NAME.fullmatch(name):
        raise UserError(f"a pretrained name is of a-z, 0-9, dots and hyphens; given: {name!r}")
    weights = sorted((run / "members").glob("member-*.safetensors"))
    if not weights:
        raise UserError(f"{run} has no trained members to keep")
    kept = [run / "recipe.yaml", run / "environment.json", *weights]
    others = {other: files for other, files in _checksums().items() if other != name}
    _write_checksums(others)
    with disk_errors(HERE / name):
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name / "members").mkdir(parents=True)
    files = {path.relative_to(run).as_posix(): path.read_bytes() for path in kept}
    for file, content in files.items():
        write_atomic(HERE / name / file, content)
    digests = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    _write_checksums({**others, name: digests})


def _checksums() -> dict[str, dict[str, str]]:
    path = HERE / _CHECKSUMS
    content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    return dict(content or {})


def _write_checksums(known: dict[str, dict[str, str]]) -> None:
    write_atomic(HERE / _CHECKSUMS, yaml.safe_dump(known, sort_keys=True, width=110).encode())


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _holds(copy: Path, name: str) -> bool:
    """Whether a folder has this recipe and these members; its environment may have grown."""
    files = {file: digest for file, digest in _checksums()[name].items() if file != "environment.json"}
    return all((copy / file).is_file() and _sha256(copy / file) == digest for file, digest in files.items())


def _copy(source: Path, target: Path, files: Iterable[str]) -> None:
    """All or nothing, also where several processes copy at once."""
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as part:
            whole = Path(part) / target.name
            for file in files:
                (whole / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / file, whole / file)
            try:
                whole.rename(target)
            except OSError:
                if not target.is_dir():
                    raise


def _say(message: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        sys.stderr.write(message + "\n")
