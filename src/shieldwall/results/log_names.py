"""Where certification logs are, in what order, and what they are called.

runs/digits/certificates/member-1.tsv   digits member 1    of a run: its name, then the vote's
results/digits.tar.xz                   digits member 1    of a packed run: the same, for each vote
other/sigma_0.25                        sigma_0.25         on its own: the file's name
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from shieldwall.errors import UserError
from shieldwall.results.packed import is_packed, unpacked
from shieldwall.vocabulary import is_standard_vote, vote_order, vote_title

FOLDER = "certificates"


class Name(NamedTuple):
    title: str
    run: str
    vote: str


def log_files(path: Path) -> list[Path]:
    """The logs of a run, folder or packed, or of a certificate folder in a table's order, or the one log."""
    if is_packed(path):
        files = _logs_in(unpacked(path) / FOLDER)
        if not files:
            raise UserError(f"{path}: this packed run has no certificates")
        return files
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"{path}: there is no such file or folder")
    run = path.parent if path.name == FOLDER else path
    is_run = (run / "recipe.yaml").exists() or (run / FOLDER).is_dir()
    files = _logs_in(run / FOLDER if is_run else path)
    if not files and is_run:
        raise UserError(f"{run}: this run has no certificates; make them with: shieldwall certify {run}")
    if not files:
        raise UserError(f"{path}: this is no run folder and there are no certificates (*.tsv) in it")
    return files


def name_of(path: Path, vote: str | None) -> Name:
    """What a log is called; `vote` is what the file itself says, for a file that is not called by a vote."""
    stem = _stem(path)
    vote = stem if is_standard_vote(stem) else vote or stem
    folder = _run_folder(path)
    if folder is None:
        return Name(stem, stem, vote)
    run = _recipe_name(folder)
    return Name(f"{run} {vote_title(stem)}", run, vote)


def runs_told_apart(logs: Sequence[tuple[str, Path]]) -> list[str]:
    """The run of each log from (run, path), runs that share a name told apart by their folders' names."""
    homes: dict[str, set[Path]] = defaultdict(set)
    for run, path in logs:
        homes[run].add(_home(path))
    return [
        f"{run} ({_shortest(_home(path), homes[run])})" if len(homes[run]) > 1 else run for run, path in logs
    ]


def _logs_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tsv"), key=lambda path: vote_order(_stem(path)))


def _stem(path: Path) -> str:
    # Not Path.stem: other tools name their logs "sigma_0.25", without a suffix.
    return path.name.removesuffix(".tsv")


def _run_folder(path: Path) -> Path | None:
    """The run that a log is of, or None where it stands alone."""
    folder = path.parent.resolve()
    if folder.name == FOLDER or (folder.parent / "recipe.yaml").is_file():
        return folder.parent
    return folder if is_standard_vote(_stem(path)) else None


def _home(path: Path) -> Path:
    """The folder that tells a log from those of the same name, votes of one certification sharing it."""
    folder = path.parent.resolve()
    return folder.parent if folder.name == FOLDER else folder


def _shortest(home: Path, homes: set[Path]) -> str:
    """As much of the end of a path as tells all of them apart."""
    depth = 1
    while len({one.parts[-depth:] for one in homes}) < len(homes):
        depth += 1
    return "/".join(home.parts[-depth:])


def _recipe_name(run: Path) -> str:
    recipe = run / "recipe.yaml"
    if not recipe.is_file():
        return run.name
    try:
        content = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{recipe}: this is not YAML: {' '.join(str(error).split())}") from None
    return str(content["name"]) if isinstance(content, dict) and "name" in content else run.name
