"""Certificates checked after the fact: from their counts, by the digests of their run, and by drawing again.

What this proves. The digests: the files are those that a verb left. The counts: label, bounds and radius are
what the counts give, so nobody wrote a radius by hand; and they are those of all inputs, in order, under the
settings that the run states. Drawing again: the counts are what these members return for this noise. Only
that, or a copy of SHA256SUMS, shows that a file and its digest were not changed together.
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
from shieldwall.results.archive import is_archive
from shieldwall.results.certificate_file import parse
from shieldwall.results.certificate_writer import WANTED, read_settings
from shieldwall.results.certificates import Certificates, Ints
from shieldwall.results.checks import SUMS, Sums, check_votes, sha256
from shieldwall.results.record import RunRecord, read_runs
from shieldwall.smoothing.certificates import certificates_from_counts
from shieldwall.smoothing.eas import eas_from_counts
from shieldwall.vocabulary import member_vote

if TYPE_CHECKING:
    from shieldwall.runs.trained import TrainedRun

_ROUNDING = 1e-9
"""Relative: SciPy's versions differ in the last digits of a bound."""
_CHANCE = 1e-6
"""How often two counts of the same distribution are refused, per input and vote."""

VERIFIED, INTERRUPTED, UNVERIFIED, CHANGED = "verified", "interrupted", "unverified", "changed"


@dataclass(frozen=True)
class Verification:
    """What `verify` says of one run, or of one file of another tool."""

    run: str
    status: str
    """verified; interrupted: right, but there is no digest of what a stopped verb was writing; unverified:
    nothing to check against; changed: not as it was written, or not what the counts give."""
    detail: str
    inputs: int = 0
    votes: int = 0


def verify_run(
    path: Path | str, redraw: int = 0, *, data_dir: Path | None = None, device: str | None = None
) -> Verification:
    """Check a run folder, a packed run, or a certificate file.

    `redraw` random inputs of each folder of certificates are drawn again, and their counts compared.
    """
    path = Path(path)
    try:
        verification = _verify(path)
        if redraw:
            notes = redraw_run(path, redraw, data_dir=data_dir, device=device)
            verification = replace(verification, detail="; ".join([verification.detail, *notes]))
    except UserError as error:
        return Verification(str(path), CHANGED, str(error))
    return verification


def _verify(path: Path) -> Verification:
    is_folder = (path / "recipe.yaml").is_file()
    if is_folder:
        sums = Sums.read(path)
        sums.check_files()
        folders = sorted(settings.parent for settings in path.glob("*/settings.yaml"))
        records = [record for folder in folders for record in read_runs([folder])]
        if (path / "checkpoint.safetensors").is_file():
            check_seal(path / "checkpoint.safetensors")
    else:
        records = read_runs([path])
        sums = records[0].sums or Sums(path)
    tables = [table for record in records for table in record.certificates.values()]
    for record in records:
        if record.environment.get("certify", {}).get("digests") == SUMS and not sums.by_name:
            raise UserError(f"{path} has lost its {SUMS}; without it nothing shows that no file has changed")
        if all(table.counts is not None and table.selection_counts is not None for table in tables):
            check_counts(record.certificates, record.settings, str(record.home))
        elif record.is_run:
            raise UserError(f"{record.home} has certificates without counts; certify again")
        if is_folder:
            _check_members(path, record.settings)
    inputs, votes = sum(map(len, tables)), len(tables)
    shown = ", ".join(map(_shown, records)) or "not certified yet"
    if any(table.counts is None for table in tables):
        return Verification(str(path), UNVERIFIED, "it has no counts to check", inputs, votes)
    if not sums.by_name:
        detail = f"made without {SUMS}; {shown}, as their counts give"
        return Verification(str(path), UNVERIFIED, detail, inputs, votes)
    open_files = _without_digest(path, sums) if is_folder else []
    if open_files:
        detail = f"{shown}, right by their counts; no digest yet of {', '.join(open_files)}"
        return Verification(str(path), INTERRUPTED, detail, inputs, votes)
    return Verification(str(path), VERIFIED, f"{shown}, {len(sums.by_name)} digests", inputs, votes)


def _shown(record: RunRecord) -> str:
    done, wanted = max(map(len, record.certificates.values())), record.settings.get(WANTED)
    inputs = f"{done} of {wanted}" if isinstance(wanted, int) and wanted > done else f"{done}"
    return f"{inputs} inputs, {len(record.certificates)} votes"


def check_counts_in(folder: Path) -> None:
    """Check the certificates in a folder that has no digests: an interrupted verb left it."""
    files = [file for file in sorted(folder.glob("*.tsv")) if file.read_bytes().count(b"\n") > 1]
    parsed = {file.stem: parse(file.read_bytes(), str(file)) for file in files}
    if parsed:
        settings = read_settings(folder / "settings.yaml")
        certificates = {vote: table for vote, (table, _) in parsed.items()}
        if "shard" in settings:  # its inputs begin anywhere
            settings.pop("every")
        check_votes(certificates, {vote: named for vote, (_, named) in parsed.items()}, settings, folder)
        check_counts(certificates, settings, str(folder))


def check_counts(certificates: Mapping[str, Certificates], settings: Mapping[str, Any], where: str) -> None:
    """Raise where a certificate is not what its counts give."""
    for vote, table in certificates.items():
        file = f"{where}: {vote}.tsv"
        if table.counts is None or table.selection_counts is None or table.alpha is None:
            raise UserError(f"{file} has no counts, or several alphas, so its certificates cannot be checked")
        from_counts = eas_from_counts if table.counts.ndim == 3 else certificates_from_counts
        again = from_counts(
            table.selection_counts, table.counts, table.noise or "", table.alpha, bound=table.bound or "",
            norm=table.norm, size=settings.get("size"),
        )  # fmt: skip
        _refuse_rows(file, table, again.labels != table.labels, "its label is not what its counts give")
        for name in ("p_lower", "p_upper", "radii"):
            ours, theirs = getattr(table, name), getattr(again, name)
            wrong = ~np.isclose(ours, theirs, rtol=_ROUNDING, atol=1e-300)
            _refuse_rows(file, table, wrong, f"its {name.removesuffix('ii')} is not what its counts give")
        if table.counts.ndim == 3:
            for k in range(table.counts.shape[1]):
                member = certificates.get(member_vote(k + 1))
                if member is not None and member.counts is not None:
                    common = min(len(member), len(table))
                    wrong = (member.counts[:common] != table.counts[:common, k]).any(-1)
                    _refuse_rows(file, table, wrong, f"its counts are not those of {member_vote(k + 1)}")


def _refuse_rows(
    file: str, table: Certificates, wrong: "np.ndarray[Any, np.dtype[np.bool_]]", what: str
) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        index = "" if table.indices is None else f" (input {table.indices[row]})"
        raise UserError(f"{file}, line {row + 2}{index}: {what}")


def _check_members(run: Path, settings: Mapping[str, Any]) -> None:
    """The certificates are of the members that the run holds, if it holds any."""
    files = sorted(
        run.glob("members/member-*.safetensors"), key=lambda file: int(file.stem[len("member-") :])
    )
    digest = sha256(b"".join(file.read_bytes() for file in files))
    if files and settings.get("members_sha256", digest) != digest:
        raise UserError(f"{run / 'members'}: these are not the members that were certified")


def _without_digest(run: Path, sums: Sums) -> list[str]:
    """The files of a run that have no digest, because a verb was stopped while it wrote them."""
    files = [
        run / "recipe.yaml",
        run / "environment.json",
        run / "training.jsonl",
        run / "checkpoint.safetensors",
    ]
    files += [*run.glob("members/*.safetensors"), *run.glob("*/settings.yaml"), *run.glob("*/*.tsv")]
    files += run.glob("*.shards/*")
    with_settings = {settings.parent for settings in run.glob("*/settings.yaml")}
    names = [
        file.relative_to(run).as_posix()
        for file in files
        if file.exists() and not (file.suffix == ".tsv" and file.parent not in with_settings)
    ]
    return [name for name in names if name not in sums.by_name]


def redraw_run(path: Path, number: int, *, data_dir: Path | None, device: str | None) -> list[str]:
    """Draw random inputs of each folder of certificates again and compare.  -> what to say of each folder

    On the machine and with the torch that they were made with, all counts must be equal. Elsewhere another
    rounding changes some, and on another kind of device the noise is another: then a test asks whether
    both counts can be samples of one distribution. It refuses one input in a million that is right.
    """
    from shieldwall.runs.folder import RunFolder
    from shieldwall.runs.trained import TrainedRun  # loads torch, which the checks above do without

    if is_archive(path):
        raise UserError(f"{path} is a packed run, which has no weights; draw again in the run folder")
    run = RunFolder(path)
    trained = TrainedRun.open(run, data_dir=data_dir, device=device)
    notes = []
    for settings_file in sorted(path.glob("*/settings.yaml")):
        folder = settings_file.parent
        (record,) = read_runs([folder])
        notes.append(f"{folder.name}: {_redraw(trained, record, number)}")
    return notes


def _redraw(trained: "TrainedRun", record: RunRecord, number: int) -> str:
    from shieldwall.devices import threads
    from shieldwall.runs.environment import describe

    settings, folder = record.settings, record.home
    certified = next(iter(record.certificates.values()))
    assert certified.indices is not None
    assert certified.truth is not None
    test = trained.dataset.test
    if settings.get("data_sha256", test.digest()) != test.digest():
        raise UserError(f"{folder} was certified on other test images than the {trained.recipe.data} here")
    rows = sorted(random.SystemRandom().sample(range(len(certified)), min(number, len(certified))))
    certification = Certification(
        n0=settings["n0"], n=settings["n"], alpha=settings["alpha"], bound=settings["bound"],
        radii=tuple(settings.get("radii", ())), norm=settings["norm"], precision=settings["precision"],
        exact_noise=str(settings["noise"]).startswith("exact"),
    )  # fmt: skip
    plan = trained.plan(certification, settings["seed"])
    votes = trained.votes(list(record.certificates))
    made = record.environment.get("certify", {})
    here = describe(trained.device)
    alike = all(made.get(name) == here[name] for name in ("torch", "device", "platform"))
    alike = alike and not certification.radii  # with radii, the rows of a batch depend on other inputs
    different = 0
    with threads(settings.get("threads") if trained.device.type == "cpu" else None):
        sampler = trained.sampler(
            plan, votes, batch_size=settings.get("batch_size"), compile=bool(settings.get("compiled")),
            prepare=bool(settings.get("prepared")),
        )  # fmt: skip
        for row in rows:
            index = int(certified.indices[row])
            if int(test.labels[index]) != certified.truth[row]:
                raise UserError(f"{folder}: the true class of input {index} is {int(test.labels[index])}")
            (counts,) = sampler.counts([(index, trained.image(plan.noise, index))], row)
            for vote, again in plan.certificates(counts, votes).items():
                stored = record.certificates[vote]
                assert stored.counts is not None
                assert again.counts is not None
                ours, theirs = stored.counts[row], again.counts[0]
                if (ours == theirs).all():
                    continue
                different = max(different, int(np.abs(ours - theirs).max()))
                if alike or _p_value(ours, theirs) < _CHANCE:
                    raise UserError(
                        f"{folder}: {vote}.tsv, input {index}: drawn again, they are {theirs.tolist()}, "
                        f"not {ours.tolist()}"
                    )
    said = "equal counts"
    if different:
        said = (
            f"they differ by at most {different} of {certification.n}, by another rounding or other noise "
            f"(made with torch {made.get('torch')} on {made.get('device')})"
        )
    return f"{len(rows)} inputs drawn again: {said}"


def _p_value(ours: Ints, theirs: Ints) -> float:
    """Of the hypothesis that two counts (..., K) are samples of one distribution, by Fisher's exact test."""
    from scipy.stats import fisher_exact

    pairs = zip(np.atleast_2d(ours), np.atleast_2d(theirs), strict=True)
    tables = [
        [[a, int(first.sum()) - a], [b, int(second.sum()) - b]]
        for first, second in pairs
        for a, b in zip(first.tolist(), second.tolist(), strict=True)
    ]
    return min(1.0, min(float(fisher_exact(table).pvalue) for table in tables) * len(tables))
