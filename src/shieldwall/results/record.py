"""Everything that a run says except its weights, with each file read once.

runs/digits                             a run folder: its certificates, and how it was made
runs/digits/more-draws                  another folder of certificates of that run
runs/digits/certificates/member-1.tsv   one vote of it
results/digits.tar.xz                   a packed run, read from the archive in memory
other/sigma_0.25                        a file of another tool, called by its own name
results                                 a folder of any of these, at any depth
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from shieldwall.errors import UserError, describe
from shieldwall.recipes import Recipe, from_mapping
from shieldwall.recipes.recipe import distinctions
from shieldwall.results.archive import RUN_FILES, SUFFIX, is_archive, read_archive
from shieldwall.results.attacks import Attack
from shieldwall.results.certificate_file import is_log, with_current_names
from shieldwall.results.certificate_writer import HELD_OUT, SPLIT, WANTED
from shieldwall.results.certificates import Certificates, parse
from shieldwall.results.checks import SUMS, Sums, certificate_names, check_votes
from shieldwall.texts import json_value, read_file, title, yaml_documents
from shieldwall.vocabulary import is_member, is_standard_vote, vote_order, vote_title

FOLDER = "certificates"
_MAX_DEPTH = 8  # of the folders in a folder of runs


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run, or one certificate file of another tool, as its files say; what they do not say is empty."""

    base: str  #: the name of the recipe, or of the folder or the file
    home: Path  #: the folder it was read from; of an archive its path without the suffix
    certificates: dict[str, Certificates]  #: by vote: members, WE, MME, EAS, then the rest by name
    files: Mapping[str, str] = field(default_factory=dict)  #: texts of the run's other files
    is_run: bool = True  #: whether it is a run, not a single file
    place: str = ""  #: what tells it from others of its name: keys of the recipe, or its path's end
    varied: Mapping[str, str] = field(default_factory=dict)  #: these keys, if they tell it apart
    sums: Sums | None = None  #: the digests of its files, which those read here agree with

    @property
    def name(self) -> str:
        """A name that no other record read at the same time has."""
        return f"{self.base} ({self.place})" if self.place else self.base

    @property
    def logs(self) -> list["Log"]:
        name, votes = self.name, self.certificates.items()
        titles = [f"{name} {vote_title(vote)}" if self.is_run else name for vote in self.certificates]
        return [Log(title, name, *vote, self) for title, vote in zip(titles, votes, strict=True)]

    @cached_property
    def recipe_content(self) -> Mapping[str, Any]:
        return next(iter(self._mappings("recipe.yaml")), {})

    @cached_property
    def recipe(self) -> Recipe | None:
        """The recipe; None where there is none, or one that this version does not read."""
        with suppress(UserError):
            return from_mapping(self.recipe_content)
        return None

    @cached_property
    def origins(self) -> Sequence[Mapping[str, Any]]:
        """The recipe of the run that this one started from, and of those before."""
        return self._mappings("start.yaml")

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        return with_current_names(next(iter(self._mappings("settings.yaml")), {}))

    def _mappings(self, file: str) -> list[Mapping[str, Any]]:
        """The documents of a file, none where one cannot be read."""
        with suppress(UserError):
            content = yaml_documents(self.files.get(file, ""), "")
            return content if all(isinstance(document, dict) for document in content) else []
        return []

    @cached_property
    def environment(self) -> Mapping[str, Mapping[str, Any]]:
        try:
            stages = dict(json_value(self.files.get("environment.json", "{}"), "environment.json"))
        except (UserError, TypeError, ValueError):
            return {}
        return {stage: facts for stage, facts in stages.items() if isinstance(facts, dict)}

    @cached_property
    def attacks(self) -> Mapping[str, Attack]:
        if self.settings.get(SPLIT) == HELD_OUT:
            return {}
        names = [name for name in self.files if name.startswith("attack/")]
        return {_stem(Path(name)): Attack.parse(self.files[name], str(self.home / name)) for name in names}

    @cached_property
    def training(self) -> Sequence[Mapping[str, Any]]:
        """The epochs of the training log; a last line that was cut off is left out."""
        *lines, _ = self.files.get("training.jsonl", "").split("\n")
        where = [f"{self.home / 'training.jsonl'}, line {number}" for number in range(1, len(lines) + 1)]
        epochs = list(map(json_value, lines, where))
        for line, epoch in zip(where, epochs, strict=True):
            if not isinstance(epoch, dict) or not isinstance(epoch.get("epoch"), int):
                raise UserError(f"{line} is damaged: it has no epoch; repair or delete it")
        return epochs


@dataclass(frozen=True, eq=False)
class Log:
    """One vote of a run: what a row of a table and a curve show."""

    title: str
    run: str
    vote: str
    certificates: Certificates
    record: RunRecord

    @property
    def is_member(self) -> bool:
        return is_member(self.vote)

    @property
    def num_wanted(self) -> int:  # to be certified: more than there are where certification was interrupted
        wanted = self.record.settings.get(WANTED)
        return max(len(self.certificates), wanted if isinstance(wanted, int) else 0)


def read(path: str | Path) -> dict[str, Certificates]:
    """The certificates by vote of a run folder, a packed run, a file of `save`, or another tool's log.
    Those in a folder of several are called by run and vote, or by the file's name where it is no run."""
    if not isinstance(path, (str, Path)):
        raise UserError(f"give the path of a run or a file of certificates; given: {describe(path)}")
    records = read_runs([path])
    if len(records) == 1:
        return records[0].certificates
    return {log.title: log.certificates for record in records for log in record.logs}


def read_runs(paths: Iterable[str | Path]) -> list[RunRecord]:
    """The runs, certificate folders, archives and single files at these paths, each file once. Refused are
    files that differ from the run's digests, and certificates that `check_votes` refuses."""
    files = {file.resolve(): file for path in map(Path, paths) for file in _certificate_files(path)}
    by_home: dict[Path, list[Path]] = defaultdict(list)
    for resolved, file in files.items():
        by_home[resolved if is_archive(file) or not _run_folder(file) else _home(file)].append(file)
    read_once = cache(read_file)  # several folders of certificates may be of one run
    return _told_apart([_record(of_home, read_once) for of_home in by_home.values()])


def held_out_records(records: Iterable[RunRecord], folder: str) -> list[RunRecord]:
    """The runs' certificates in a folder of this name, of images that no member was trained on."""
    held_out = []
    for home in (record.home for record in records):
        if not (home / folder / "settings.yaml").is_file():
            raise UserError(f"{home} has no certificates in {folder}: run `certify --held-out` on it")
        held_out += read_runs([home / folder])
        if held_out[-1].settings.get(SPLIT) != HELD_OUT:
            raise UserError(f"{home / folder} is not of held-out images: make it with `certify --held-out`")
    return held_out


def _record(files: Sequence[Path], read_once: Callable[[Path], bytes]) -> RunRecord:
    """The record of an archive, of certificate files in one folder of a run, or of another tool's file."""
    file, run, home, folder = files[0], _run_folder(files[0]), _home(files[0]), FOLDER
    if is_archive(file):
        run, home = file, file.resolve().with_name(file.name.removesuffix(SUFFIX))
        content = read_archive(file)
        names = [name for name in content if name.startswith(f"{FOLDER}/") and name.endswith(".tsv")]
        names.sort(key=lambda name: vote_order(_stem(Path(name))))
        sources = {name: f"{file}, {name}" for name in names}
    elif run is None:
        certificates, vote = parse(read_file(file), str(file))
        return RunRecord(_stem(file), home, {vote or _stem(file): certificates}, is_run=False)
    else:
        folder = _name_in(run, file.parent)
        sources = {_name_in(run, file): str(file) for file in files}
        attacks = sorted(_name_in(run, file) for file in run.glob("attack/*.tsv"))
        names = [SUMS, *RUN_FILES, *attacks, f"{folder}/settings.yaml", *sources]
        content = {name: read_once(run / name) for name in names if (run / name).is_file()}
    sums = Sums.parse(content.get(SUMS, b""), run)
    if is_archive(file):
        sums.check_packed(content)
    else:
        sums.check_listed(folder, certificate_names(file.parent))
        for name, data in content.items():
            sums.check(name, data)
    if not sources:
        raise UserError(f"{file}: this packed run has no certificates")
    texts = {}
    for name, data in content.items():
        if name in (*RUN_FILES, f"{folder}/settings.yaml") or name.startswith("attack/"):
            texts[name.removeprefix(f"{folder}/")] = data.decode(errors="replace")
    parsed = {_stem(Path(name)): parse(content[name], source) for name, source in sources.items()}
    certificates_by_vote = {vote: table for vote, (table, _) in parsed.items()}
    recipe = next(iter(yaml_documents(texts.get("recipe.yaml", ""), str(run / "recipe.yaml"))), None)
    base = recipe["name"] if isinstance(recipe, dict) and "name" in recipe else run.name.removesuffix(SUFFIX)
    record = RunRecord(title(base), home, certificates_by_vote, texts, sums=sums)
    check_votes(parsed, record.settings, home)
    return record


def _told_apart(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Those of one name with what differs in their recipes, or their path's end."""
    by_name: dict[str, list[RunRecord]] = defaultdict(list)
    for record in records:
        by_name[record.base].append(record)
    told = {}
    for same in by_name.values():
        homes = {record.home for record in same}
        for record, varied in zip(same, _varied(same), strict=True):
            depth = 1  # of the shortest end of its path that no other path has
            while len({home.parts[-depth:] for home in homes}) < len(homes):
                depth += 1
            end = "/".join(record.home.parts[-depth:]) if len(homes) > 1 else ""
            keys = ", ".join(f"{key} {value}" for key, value in varied.items())
            told[record] = replace(record, place=keys or end, varied=varied)
    return [told[record] for record in records]


def _varied(records: Sequence[RunRecord]) -> list[dict[str, str]]:
    """What differs in the recipes of these runs; nothing where that does not distinguish them."""
    recipes = [content for record in records if (content := record.recipe_content)]
    different = distinctions(recipes) if 1 < len(recipes) == len(records) else [{}]
    seedless = [{key: value for key, value in varied.items() if key != "seed"} for varied in different]
    for varied in (seedless, different) if seedless[0] else ():
        if len({str(keys) for keys in varied}) == len(records):
            return varied
    return [{} for _ in records]


def _certificate_files(path: Path) -> list[Path]:
    """The logs of a run or of a certificate folder in a table's order, or the one log."""
    if not path.exists():
        raise UserError(f"{path}: there is no such file or folder")
    if not path.is_dir():
        return [path]
    run = path.parent if path.name == FOLDER else path
    if _is_run(run):
        if files := _votes(run / FOLDER):
            return files
        raise UserError(f"{run}: this run has no certificates; make them with: shieldwall certify {run}")
    votes = _votes(path)
    if votes and _run_folder(votes[0]) is not None:
        return votes
    if files := list(dict.fromkeys(votes + _below(path))):
        return files
    raise UserError(f"{path}: this is not a run folder and has no certificates (*.tsv)")


def _is_run(folder: Path) -> bool:
    return (folder / "recipe.yaml").exists() or (folder / FOLDER).is_dir()


def _votes(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tsv"), key=lambda file: vote_order(_stem(file)))


def _below(folder: Path, depth: int = 0) -> list[Path]:
    """The packed runs and other tools' logs in a folder, and all certified ones in the folders below."""
    files: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith(".") and depth < _MAX_DEPTH:
            files += _votes(path / FOLDER) if _is_run(path) else _below(path, depth + 1)
        elif is_archive(path) or (path.is_file() and is_log(path)):
            files.append(path)
    return files


def _run_folder(file: Path) -> Path | None:
    """The run that a certificate file is of, or None where it stands alone."""
    folder = file.parent.resolve()
    if folder.name == FOLDER or (folder.parent / "recipe.yaml").is_file():
        return folder.parent
    return folder if is_standard_vote(_stem(file)) else None


def _home(file: Path) -> Path:
    """The folder that tells certificates from others of the same name."""
    folder = file.parent.resolve()
    return folder.parent if folder.name == FOLDER else folder


def _stem(file: Path) -> str:
    # Not Path.stem: other tools name their logs "sigma_0.25", without a suffix.
    return title(file.name.removesuffix(".tsv").removesuffix(".json"))


def _name_in(run: Path, file: Path) -> str:
    return file.resolve().relative_to(run).as_posix()
