"""Trained ensembles that come with the package, by name.

shieldwall/pretrained/NAME is a run folder with a model card; benchmarks/keep.py puts it there. The package is
never written to: a command that writes works on a copy.
"""

import re
import shutil
import tempfile
from pathlib import Path

import yaml

from shieldwall.errors import UserError, unknown_name
from shieldwall.files import disk_errors
from shieldwall.results.checks import sha256

PACKAGED = Path(__file__).parents[1] / "pretrained"
CHECKSUMS = "checksums.yaml"
COPIES = Path("runs")
_FIXED = re.compile("recipe.yaml|members/")  # of a copy; its other files may differ


def checksums() -> dict[str, dict[str, str]]:  # by ensemble, of each of its files
    path = PACKAGED / CHECKSUMS
    return dict(yaml.safe_load(path.read_text("utf-8")) or {}) if path.is_file() else {}


def packaged_run(name: str) -> Path:
    """The run folder of a pretrained ensemble inside the package, every file checked."""
    known = checksums()
    if name not in known:
        raise unknown_name("pretrained ensemble", name, known)
    for file, expected in known[name].items():
        path = PACKAGED / name / file
        if not path.is_file() or sha256(path.read_bytes()) != expected:
            problem = "is not the file that was published" if path.is_file() else "is missing"
            raise UserError(f"the pretrained {name} is damaged: {path} {problem}; install shieldwall again")
    return PACKAGED / name


def resolve_run(run: Path | str, *, to_write: bool = False) -> Path:
    """The run folder for a command's argument: a path, or the name of a pretrained ensemble.

    An existing path comes first. A name means its copy in runs/NAME, if there is one; else the folder in the
    package, which `to_write` copies to runs/NAME.
    """
    path, name = Path(run), str(run)
    if path.exists() or name not in checksums():
        return path
    copy = COPIES / name
    if not copy.exists():
        source = packaged_run(name)
        return _copy(source, copy) if to_write else source
    fixed = {file: digest for file, digest in checksums()[name].items() if _FIXED.match(file)}
    if not all(
        (copy / file).is_file() and sha256((copy / file).read_bytes()) == fixed[file] for file in fixed
    ):
        other = f"{name} is pretrained, and {copy} is a different run"
        raise UserError(f"{other}; pass {copy} to use that, or move it")
    return copy


def resolve_sources(init_from: str, *, to_write: bool = False) -> list[Path]:
    """What a recipe's `init_from` names, separated by commas: runs, pretrained names, or files of weights."""
    sources = [init_from] if Path(init_from).exists() else init_from.split(",")
    return [resolve_run(source.strip(), to_write=to_write) for source in sources]


def _copy(source: Path, target: Path) -> Path:
    """Copy in one step, safe if several processes copy at once."""
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as part:
            whole = shutil.copytree(source, Path(part) / target.name, copy_function=shutil.copyfile)
            try:
                Path(whole).rename(target)
            except OSError:
                if not target.is_dir():
                    raise
    return target
