"""Everything that a run says except its weights, with each file read once.

runs/digits                             a run folder: its certificates, and how it was made
runs/digits/more-draws                  another folder of certificates of that run
runs/digits/certificates/member-1.tsv   one vote of it
results/digits.tar.xz                   a packed run, read from the archive in memory
other/sigma_0.25                        a file of another tool, called by its own name
results                                 a folder of any of these, at any depth
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
_MAX_DEPTH = 8
"""Of the folders in a folder of runs."""


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run, or one certificate file of another tool, as its files say.

    A field is empty or None where the files do not record it.
    """

    base: str
    """The name of the recipe, or of the folder or the file."""
    home: Path
    """The folder it was read from; of an archive its path without the suffix."""
    certificates: dict[str, Certificates]
    """By vote: members by number, then WE, MME and EAS, then the rest by name."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The text of the run's other files, by name; `settings.yaml` is that of its certificates."""
    is_run: bool = True
    """Whether it is a run, not a single file."""
    place: str = ""
    """What distinguishes it from others of the same name: what differs in the recipe, or its path's end."""
    varied: Mapping[str, str] = field(default_factory=dict)
    """The keys in which its recipe differs from those of the same name, if that distinguishes them."""
    sums: Sums | None = None
    """The digests of its files, which those read here agree with."""
    named: dict[str, str | None] = field(default_factory=dict)
    """The vote that each certificate file names, by the file's own."""

    def add(self, vote: str, content: bytes, source: str) -> None:
        """Read a certificate file that is called by this vote; of another tool it may name its own."""
        certificates, named = parse(content, source)
        vote = vote if self.is_run else named or vote
        self.certificates[vote], self.named[vote] = certificates, named

    @property
    def name(self) -> str:
        """A name that no other record read at the same time has."""
        return f"{self.base} ({self.place})" if self.place else self.base

    @property
    def logs(self) -> list["Log"]:
        """The certificates of each vote, called by run and vote."""
        name = self.name
        return [
            Log(f"{name} {vote_title(vote)}" if self.is_run else name, name, vote, certificates, self)
            for vote, certificates in self.certificates.items()
        ]

    @cached_property
    def recipe_content(self) -> Mapping[str, Any] | None:
        """The recipe as it is written."""
        return next(iter(self._mappings("recipe.yaml")), None)

    @cached_property
    def recipe(self) -> Recipe | None:
        """The recipe; None where there is none, or one that this version does not read."""
        try:
            return None if self.recipe_content is None else from_mapping(self.recipe_content)
        except UserError:
            return None

    @cached_property
    def origins(self) -> Sequence[Mapping[str, Any]]:
        """The recipe of the run that this one started from, and of those before."""
        return self._mappings("start.yaml")

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """What the certificates were made with."""
        return with_current_names(next(iter(self._mappings("settings.yaml")), {}))

    def _mappings(self, file: str) -> list[Mapping[str, Any]]:
        """The documents of a file, none where one cannot be read."""
        try:
            content = yaml_documents(self.files.get(file, ""), "")
        except UserError:
            return []
        return content if all(isinstance(document, dict) for document in content) else []

    @cached_property
    def environment(self) -> Mapping[str, Mapping[str, Any]]:
        """Versions, commit and device by stage."""
        try:
            stages = dict(json_value(self.files.get("environment.json", "{}"), "environment.json"))
        except (UserError, TypeError, ValueError):
            return {}
        return {stage: facts for stage, facts in stages.items() if isinstance(facts, dict)}

    @cached_property
    def attacks(self) -> Mapping[str, Attack]:
        """What attacks on the test inputs found, by vote."""
        if self.settings.get(SPLIT) == HELD_OUT:
            return {}
        texts = {name: text for name, text in self.files.items() if name.startswith("attack/")}
        return {_stem(Path(name)): Attack.parse(text, str(self.home / name)) for name, text in texts.items()}

    @cached_property
    def training(self) -> Sequence[Mapping[str, Any]]:
        """The epochs of the training log; a last line that was cut off is left out."""
        lines = self.files.get("training.jsonl", "").split("\n")
        epochs: list[Mapping[str, Any]] = []
        for number, line in enumerate(lines, start=1):
            where = f"{self.home / 'training.jsonl'}, line {number}"
            try:
                epoch = json_value(line, where)
            except UserError:
                if number == len(lines):
                    break
                raise
            if not isinstance(epoch, dict) or not isinstance(epoch.get("epoch"), int):
                raise UserError(f"{where} is damaged: it has no epoch; repair or delete it")
            epochs.append(epoch)
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
    def num_wanted(self) -> int:
        """How many inputs were to be certified: more than there are where certification was interrupted."""
        wanted = self.record.settings.get(WANTED)
        return max(len(self.certificates), wanted if isinstance(wanted, int) else 0)


def read(path: str | Path) -> dict[str, Certificates]:
    """The certificates by vote of a run folder, a packed run, a file of `save`, or another tool's log.

    Those in a folder of several are called by run and vote, or by the file's name where it is no run.
    """
    if not isinstance(path, (str, Path)):
        raise UserError(f"give the path of a run or a file of certificates; given: {describe(path)}")
    records = read_runs([path])
    if len(records) == 1:
        return records[0].certificates
    return {log.title: log.certificates for record in records for log in record.logs}


def read_runs(paths: Iterable[str | Path]) -> list[RunRecord]:
    """The runs, certificate folders, archives and single files at these paths, each file once.

    Files that differ from the run's digests are refused, and certificates that contradict their settings,
    their order or each other.
    """
    files = {file.resolve(): file for path in map(Path, paths) for file in _certificate_files(path)}
    records: dict[Path, RunRecord] = {}
    texts_of_run = cache(_texts_of_run)  # several folders of certificates may be of one run
    for resolved, file in files.items():
        if is_archive(file):
            records[resolved] = _read_archive(file)
            continue
        run, content = _run_folder(file), read_file(file)
        key = _home(file) if run else resolved
        if run:
            sums, texts = texts_of_run(run)
            if key not in records:
                sums.check_listed(_name_in(run, file.parent), certificate_names(file.parent))
                texts = {**texts, **_texts(file.parent, ["settings.yaml"], sums)}
                records[key] = RunRecord(_recipe_name(texts, run), key, {}, texts, sums=sums)
            sums.check(_name_in(run, file), content)
        else:
            records[key] = RunRecord(_stem(file), _home(file), {}, is_run=False)
        records[key].add(_stem(file), content, str(file))
    return _told_apart(list(records.values()))


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


def _texts_of_run(run: Path) -> tuple[Sums, dict[str, str]]:
    sums = Sums.read(run)
    attacks = [_name_in(run, file) for file in sorted(run.glob("attack/*.tsv"))]
    return sums, _texts(run, [*RUN_FILES, *attacks], sums)


def _told_apart(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Check the records, and give those of one name what differs in their recipes, or their path's end."""
    by_name: dict[str, list[RunRecord]] = defaultdict(list)
    for record in records:
        by_name[record.base].append(record)
        if record.is_run:
            check_votes(record.certificates, record.named, record.settings, record.home)
    told = {}
    for same in by_name.values():
        homes = {record.home for record in same}
        for record, own in zip(same, _varied(same), strict=True):
            place = ", ".join(f"{key} {value}" for key, value in own.items())
            if not own and len(homes) > 1:
                place = _shortest(record.home, homes)
            told[record] = replace(record, place=place, varied=own)
    return [told[record] for record in records]


def _varied(records: Sequence[RunRecord]) -> list[dict[str, str]]:
    """What differs in the recipes of these runs; nothing where that does not distinguish them."""
    recipes = [content for record in records if (content := record.recipe_content) is not None]
    nothing: list[dict[str, str]] = [{} for _ in records]
    if len(recipes) < len(records) or len(records) < 2:
        return nothing
    different = distinctions(recipes)
    seedless = [{key: value for key, value in own.items() if key != "seed"} for own in different]
    if not seedless[0]:
        return nothing
    for told in (seedless, different):
        if len({str(own) for own in told}) == len(records):
            return told
    return nothing


def _read_archive(path: Path) -> RunRecord:
    content = read_archive(path)
    sums = Sums.parse(content.get(SUMS, b""), path)
    sums.check_packed(content)
    texts = {
        name.removeprefix(f"{FOLDER}/"): content[name].decode(errors="replace")
        for name in (*RUN_FILES, f"{FOLDER}/settings.yaml")
        if name in content
    }
    files = [Path(name) for name in content if name.startswith(f"{FOLDER}/") and name.endswith(".tsv")]
    if not files:
        raise UserError(f"{path}: this packed run has no certificates")
    home = path.resolve().with_name(path.name.removesuffix(SUFFIX))
    record = RunRecord(_recipe_name(texts, path), home, {}, texts, sums=sums)
    for file in sorted(files, key=_place_in_table):
        record.add(file.name.removesuffix(".tsv"), content[str(file)], f"{path}, {file}")
    return record


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
    is_of_one_run = bool(votes) and _run_folder(votes[0]) is not None
    if files := votes if is_of_one_run else list(dict.fromkeys(votes + _below(path))):
        return files
    raise UserError(f"{path}: this is not a run folder and has no certificates (*.tsv)")


def _is_run(folder: Path) -> bool:
    return (folder / "recipe.yaml").exists() or (folder / FOLDER).is_dir()


def _votes(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tsv"), key=_place_in_table)


def _below(folder: Path, depth: int = 0) -> list[Path]:
    """The packed runs and other tools' logs in a folder, and all runs and logs in the folders below it.

    A run that is not certified yet is left out.
    """
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


def _place_in_table(file: Path) -> tuple[int, int, str]:
    return vote_order(_stem(file))


def _stem(file: Path) -> str:
    # Not Path.stem: other tools name their logs "sigma_0.25", without a suffix.
    return title(file.name.removesuffix(".tsv").removesuffix(".json"))


def _name_in(run: Path, file: Path) -> str:
    return file.resolve().relative_to(run).as_posix()


def _texts(folder: Path, names: Iterable[str], sums: Sums) -> dict[str, str]:
    texts = {}
    for name in names:
        file = folder / name
        if file.is_file():
            content = read_file(file)
            sums.check(_name_in(sums.home, file), content)
            texts[name] = content.decode(errors="replace")
    return texts


def _recipe_name(files: Mapping[str, str], source: Path) -> str:
    text = files.get("recipe.yaml", "")
    content = next(iter(yaml_documents(text, str(source / "recipe.yaml"))), None)
    if isinstance(content, dict) and "name" in content:
        return title(content["name"])
    return title(source.name.removesuffix(SUFFIX))


def _shortest(home: Path, homes: set[Path]) -> str:
    """The shortest end of a path that no other path has."""
    depth = 1
    while len({other.parts[-depth:] for other in homes}) < len(homes):
        depth += 1
    return "/".join(home.parts[-depth:])
