"""Certificates checked after the fact: from their counts, by the digests of their run, and by drawing again.

What each proves, and what only drawing again shows, is in docs/certification.md.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shieldwall.errors import UserError
from shieldwall.files import check_seal
from shieldwall.recipes import Certification
from shieldwall.results.archive import RUN_FILES, SUFFIX
from shieldwall.results.certificate_writer import HELD_OUT, SPLIT, WANTED, read_settings
from shieldwall.results.certificates import NOT_BOUNDED, Certificates, Ints, parse, split_call
from shieldwall.results.checks import SEALED, SUMS, Sums, certificate_names, check_votes, sha256
from shieldwall.results.record import FOLDER, RunRecord, read_runs
from shieldwall.runs.pretrained import PACKAGED, packaged_run
from shieldwall.smoothing.certificates import certificates_from_counts, eas_from_counts
from shieldwall.vocabulary import member_vote

if TYPE_CHECKING:
    from shieldwall.runs.trained import TrainedRun

_RUNS = ("recipe.yaml", f"*{SUFFIX}")  # the files that show that a folder is of runs
_ROUNDING = 1e-9  # relative: SciPy's versions differ in the last digits of a bound
_CHANCE = 1e-6  # how often two counts of the same distribution are refused, per input and vote

VERIFIED, INTERRUPTED, UNVERIFIED, CHANGED = "verified", "interrupted", "unverified", "changed"


@dataclass(frozen=True)
class Verification:
    run: str
    # Verified; interrupted: right, but what a stopped verb was writing has no digest; unverified: nothing to
    # check against; changed: not as it was written, or not what the counts give.
    status: str
    detail: str
    certificates: int = 0  # how many were computed again from their counts


def verify_run(path: Path | str, redraw: int = 0, *, data_dir: Path | None = None,
               device: str | None = None) -> Verification:  # fmt: skip
    """Check a run folder, a packed run, or a certificate file; of a file in a run folder, the whole run.
    `redraw` random inputs of each folder of certificates are drawn again, and their counts compared."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path} does not exist")
    if path.is_dir() and not _is_run_folder(path) and any(any(path.rglob(name)) for name in _RUNS):
        raise UserError(f"{path} is a folder of runs; give each of them: shieldwall verify {path}/*")
    folder = path if path.is_dir() else path.parent
    if (folder / "settings.yaml").is_file() and _is_run_folder(folder.resolve().parent):
        path = folder.resolve().parent
    try:
        verification = _verify(path)
    except UserError as error:
        return Verification(str(path), CHANGED, str(error))
    try:
        notes = redraw_run(path, redraw, data_dir=data_dir, device=device) if redraw else []
    except _OtherCountsError as error:
        return Verification(str(path), CHANGED, str(error))
    return replace(verification, detail="; ".join([verification.detail, *notes]))


def _is_run_folder(path: Path) -> bool:
    return (path / "recipe.yaml").is_file() or (path / SUMS).is_file()


def _verify(path: Path) -> Verification:
    if path.resolve().parent == PACKAGED:
        packaged_run(path.name)
        return Verification(str(path), VERIFIED, "pretrained, every file as it was published")
    if _is_run_folder(path):
        sums = Sums.read(path)
        _check_folder(path, sums)
        records = [each for file in _settings_files(path) for each in read_runs(_tables_in(file.parent))]
        open_files = _without_digest(path, sums)
    else:
        records, open_files = read_runs([path]), []
        sums = records[0].sums or Sums(path)
        _check_sums(sums, records[0].environment)
    tables = [table for record in records for table in record.certificates.values()]
    for record in records:
        if all(table.counts is not None for table in record.certificates.values()):
            check_counts(record.certificates, record.settings, str(record.home))
        elif record.is_run:
            raise UserError(f"{record.home} has certificates without counts; certify again")
    if any(table.counts is None for table in tables):
        return Verification(str(path), UNVERIFIED, "it has no counts to check")
    detail = "; ".join(_description(record, path) for record in records) or "not certified yet"
    num_digests, num_tables = len(sums.by_name), sum(map(len, tables))
    if not num_digests:
        return Verification(str(path), UNVERIFIED, f"{detail}; made without {SUMS}", num_tables)
    detail += f"; {num_digests} digest{'s' * (num_digests > 1)}"
    detail += f", none yet of {', '.join(open_files)}" if open_files else ""
    return Verification(str(path), INTERRUPTED if open_files else VERIFIED, detail, num_tables)


def _check_folder(path: Path, sums: Sums) -> None:
    """Raise where a file of a run, or a shard of its certificates, is not as it was written."""
    sums.check_files()
    if not (path / "recipe.yaml").is_file():
        raise UserError(f"{path / 'recipe.yaml'} is missing")
    texts = {file.name: file.read_text(errors="replace") for file in path.glob("environment.json")}
    _check_sums(sums, RunRecord("", path, {}, texts).environment)
    files = sorted(path.glob("members/member-*.safetensors"), key=lambda file: (len(file.name), file))
    digest = sha256(b"".join(file.read_bytes() for file in files))
    of_shards = list(path.glob("*.shards/*/settings.yaml"))
    for settings in (*path.glob("*/settings.yaml"), *of_shards):
        if files and read_settings(settings).get("members_sha256", digest) != digest:
            raise UserError(f"{path / 'members'}: these are not the members that were certified")
    for settings in of_shards:
        check_counts_in(settings.parent)
    if (path / "checkpoint.safetensors").is_file():
        check_seal(path / "checkpoint.safetensors")


def _settings_files(run: Path) -> list[Path]:
    """One for each folder of certificates in a run, the usual one first."""
    return sorted(run.glob("*/settings.yaml"), key=lambda file: (file.parent.name != FOLDER, file))


def _tables_in(folder: Path) -> list[Path]:
    """The files of certificates in a folder, without those that have none yet."""
    return [file for file in sorted(folder.glob("*.tsv")) if file.read_bytes().count(b"\n") > 1]


def _check_sums(sums: Sums, environment: Mapping[str, Mapping[str, Any]]) -> None:
    """The digests are there, and the digest of them, if a verb says that it wrote them."""
    written = {facts.get("digests") for facts in environment.values()}
    if (not sums.by_name and written & {SUMS, SEALED}) or (not sums.is_sealed and SEALED in written):
        what = "the first line of its" if sums.by_name else "its"
        raise UserError(f"{sums.home} has lost {what} {SUMS}, without which no change shows")


def _description(record: RunRecord, run: Path) -> str:
    done, wanted = max(map(len, record.certificates.values())), record.settings.get(WANTED)
    inputs = f"{done} of {wanted}" if isinstance(wanted, int) and wanted > done else f"{done}"
    votes = len(record.certificates)
    where = f"{record.home.name}: " if record.home.parent == run.resolve() else ""
    return f"{where}{inputs} inputs, {votes} vote{'s' * (votes > 1)}"


def check_counts_in(folder: Path) -> None:
    """Check the certificates in a folder that has no digests: an interrupted verb left it."""
    if parsed := {file.stem: parse(file.read_bytes(), str(file)) for file in _tables_in(folder)}:
        settings = read_settings(folder / "settings.yaml")
        if "shard" in settings:  # its inputs begin anywhere
            settings.pop("every", None)
        check_votes(parsed, settings, folder)
        check_counts({vote: table for vote, (table, _) in parsed.items()}, settings, str(folder))


def check_counts(certificates: Mapping[str, Certificates], settings: Mapping[str, Any], where: str) -> None:
    for vote, table in certificates.items():
        file = f"{where}: {vote}.tsv"
        if table.counts is None or table.selection_counts is None or table.alpha is None:
            raise UserError(f"{file} has no counts, or several alphas, so its certificates cannot be checked")
        from_counts = eas_from_counts if table.counts.ndim == 3 else certificates_from_counts
        again = from_counts(
            table.selection_counts, table.counts, table.noise or "", table.alpha, norm=table.norm,
            bound="one-sided" if table.bound == NOT_BOUNDED else table.bound or "", size=settings.get("size"),
        )  # fmt: skip
        checks = [("its label is not what its counts give", again.labels != table.labels)]
        for name in ("p_lower", "p_upper", "radii"):
            is_close = np.isclose(getattr(table, name), getattr(again, name), rtol=_ROUNDING, atol=1e-300)
            checks.append((f"its {name.removesuffix('ii')} is not what its counts give", ~is_close))
        for k in range(table.counts.shape[1] if table.counts.ndim == 3 else 0):
            member = certificates.get(member_vote(k + 1))
            if member is not None and member.counts is not None:
                common = min(len(member), len(table))
                differ = (member.counts[:common] != table.counts[:common, k]).any(-1)
                checks.append((f"its counts are not those of {member_vote(k + 1)}", differ))
        for what, wrong in checks:
            if wrong.any():
                row = int(wrong.argmax())
                index = "" if table.indices is None else f" (input {table.indices[row]})"
                raise UserError(f"{file}, line {row + 2}{index}: {what}")


def _without_digest(run: Path, sums: Sums) -> list[str]:
    """The files of a run that have no digest, because a verb was stopped while it wrote them."""
    patterns = (*RUN_FILES, "checkpoint.safetensors", "*.shards/[!.]*-of-*", "members/*.safetensors")
    files = [file for pattern in patterns for file in run.glob(pattern)]
    for settings in _settings_files(run):
        files += map(settings.with_name, certificate_names(settings.parent))
    return [name for file in files if (name := file.relative_to(run).as_posix()) not in sums.by_name]


class _OtherCountsError(UserError):
    """What was drawn again cannot be of these members and this noise."""


def redraw_run(path: Path, number: int, *, data_dir: Path | None = None,
               device: str | None = None) -> list[str]:  # fmt: skip
    """Draw random inputs of each folder of certificates again and compare.  -> what to say of each folder

    With the machine and the torch that made them, all counts must be equal. Elsewhere rounding, or the noise,
    differs: then a test (`_CHANCE`) asks whether both counts can be samples of one distribution.
    """
    from shieldwall.runs.folder import RunFolder
    from shieldwall.runs.trained import TrainedRun  # loads torch, which the checks above do without

    run, notes = RunFolder(path), []
    for folder in (settings.parent for settings in _settings_files(path)):
        for record in read_runs(_tables_in(folder)):
            held_out = record.settings.get(SPLIT) == HELD_OUT
            trained = TrainedRun.open(run, data_dir=data_dir, device=device, held_out=held_out)
            notes.append(f"{folder.name}: {_redraw(trained, record, number)}")
    return notes


def _redraw(trained: "TrainedRun", record: RunRecord, number: int) -> str:
    from shieldwall.devices import threads
    from shieldwall.models.registry import code_digest
    from shieldwall.runs.environment import describe

    settings, folder, test = record.settings, record.home, trained.dataset.test
    certified = next(iter(record.certificates.values()))
    assert certified.indices is not None
    if settings.get("data_sha256", test.digest()) != test.digest():
        raise UserError(f"{folder} was certified on other test images than the {trained.recipe.data} here")
    if settings.get("code_sha256") != code_digest(trained.recipe.model):
        raise UserError(f"{folder} was certified with other code of the model {trained.recipe.model}")
    rows = sorted(random.SystemRandom().sample(range(len(certified)), min(number, len(certified))))
    certification = Certification(
        n0=settings["n0"], n=settings["n"], alpha=settings["alpha"], bound=split_call(settings["bound"])[0],
        radii=tuple(settings.get("radii", ())), norm=settings["norm"], precision=settings["precision"],
        exact_noise=str(settings["noise"]).startswith("exact"),
    )  # fmt: skip
    plan = trained.plan(certification, settings["seed"], bool(settings.get("correct_only")))
    votes = trained.votes(list(record.certificates))
    made, here = record.environment.get("certify", {}), describe(trained.device)
    is_same_machine = all(made.get(name) == here[name] for name in ("torch", "device", "platform"))
    # Where sampling stops early, the rows of a batch depend on other inputs.
    must_be_equal = is_same_machine and not certification.radii and not plan.correct_only
    largest = 0
    with threads(settings.get("threads") if trained.device.type == "cpu" else None):
        how = {
            name: bool(settings.get(key)) for name, key in (("compile", "compiled"), ("prepare", "prepared"))
        }
        sampler = trained.sampler(plan, votes, batch_size=settings.get("batch_size"), **how)
        for row in rows:
            truth = int(test.labels[index := int(certified.indices[row])])
            if certified.truth is not None and truth != certified.truth[row]:
                said = f"has the true class {certified.truth[row]} in its file, and {truth} in"
                raise _OtherCountsError(f"{folder}: input {index} {said} {trained.recipe.data}")
            (counts,) = sampler.counts([(index, trained.image(plan.noise, index))], row)
            for vote, again in plan.certificates(counts, votes).items():
                stored = record.certificates[vote].counts
                assert stored is not None and again.counts is not None  # noqa: PT018
                before, now = stored[row], again.counts[0]
                difference = int(np.abs(before - now).max())
                if difference and (must_be_equal or _p_value(before, now) < _CHANCE):
                    said = f"its counts are {before.tolist()}; drawn again, they are {now.tolist()}"
                    raise _OtherCountsError(f"{folder}: {vote}.tsv, input {index}: {said}")
                largest = max(largest, difference)
    drawn = f"{len(rows)} input{'s' * (len(rows) != 1)} drawn again"
    if not largest:
        return f"{drawn}: equal counts"
    made_with = f"(made with torch {made.get('torch')} on {made.get('device')})"
    counts_are = f"counts differ by at most {largest} of {certification.n}, as rounding or noise differs here"
    return f"{drawn}: {counts_are} {made_with}"


def _p_value(ours: Ints, theirs: Ints) -> float:
    """Of the hypothesis that two counts (..., K) are samples of one distribution, by Fisher's exact test."""
    from scipy.stats import fisher_exact

    totals = (np.broadcast_to(counts.sum(-1, keepdims=True), counts.shape) for counts in (ours, theirs))
    cells = [counts.ravel().tolist() for counts in (ours, theirs, *totals)]
    tables = [[[a, n - a], [b, m - b]] for a, b, n, m in zip(*cells, strict=True)]
    return min(1.0, min(float(fisher_exact(table).pvalue) for table in tables) * len(tables))
