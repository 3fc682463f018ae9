"""members -> certificates: every vote at every selected test input, in one pass that can be interrupted."""

import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from rich.console import Console
from torch import Tensor

from shieldwall.console import defer_interrupt, progress_bar
from shieldwall.data.datasets import split_sizes
from shieldwall.devices import check_memory, device_of, resolve_device, threads
from shieldwall.ensembles.votes import VoteSet
from shieldwall.errors import UserError
from shieldwall.files import disk_errors, write_atomic
from shieldwall.models.registry import code_digest
from shieldwall.recipes import Certification
from shieldwall.results.archive import RUN_FILES
from shieldwall.results.certificate_writer import (
    HELD_OUT,
    SPLIT,
    WANTED,
    CertificateWriter,
    read_lines,
    read_settings,
    refuse_other_settings,
)
from shieldwall.runs import environment
from shieldwall.runs.cluster import LOCAL, workers_of
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.shards import (
    Shard,
    certified_inputs,
    check_folder_name,
    merge_run,
    remaining,
    shards_folder,
)
from shieldwall.runs.trained import QUIET, TrainedRun
from shieldwall.runs.verify import check_counts_in
from shieldwall.smoothing.certificates import Counts
from shieldwall.smoothing.plan import Plan
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.stopping import StopAtRadii, fewest_draws
from shieldwall.smoothing.trial import LEAST_FORWARDS, cost_note, fastest

IN_PROGRESS = "the current inputs"
_WORK = f"{__name__}:certify_share"


def certify_run(
    path: Path | str,
    *,
    data_dir: Path | str | None = None,
    device: str | None = None,
    seed: int | None = None,
    to: str = "certificates",
    held_out: bool = False,
    batch_size: int | None = None,
    votes: Sequence[str] | None = None,
    compile: bool | None = None,
    shard: str | None = None,
    places: Iterator[int] | None = None,
    jobs: int | None = 1,
    on: str = LOCAL,
    correct_only: bool = False,
    console: Console = QUIET,
    **changes: Any,
) -> RunFolder:
    """Certify the recipe's test inputs into the run folder, or resume an interrupted certification.

    `changes` replace fields of the recipe's certification where they are not None. `seed` is the noise seed,
    by default the recipe's. `votes` are names of votes, by default all. A resumed folder keeps its first
    settings: compiled or not, the batch size and, on a CPU, the number of threads. What is left open in a new
    folder is found by a trial on a CPU, if there is much work (`smoothing.trial`).

    `held_out` certifies training images that no member has seen in place of the test images: what their
    certificates choose can be reported on the test images. `correct_only` draws nothing to bound an input for
    which every vote chose a wrong class.

    `shard` certifies one part of the inputs (`runs/shards.py`), or those at `places` in the list of them.
    `jobs` is the number of workers that share the inputs, each with one thread: processes of this machine, or
    `on` Ray actors.
    """
    check_folder_name(to)
    if batch_size is not None and batch_size < 1:
        raise UserError(f"--batch-size must be at least 1; given: {batch_size}")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UserError(
            "certify cannot run under torchrun; use --jobs N on one machine or --shard K/N on several"
        )
    by_several = on != LOCAL or jobs != 1
    if by_several and shard is not None:
        raise UserError(f"--jobs and --on cannot be used with --shard; given: {shard}")
    run = RunFolder(path)
    changes = {name: value for name, value in changes.items() if value is not None}
    if "radii" in changes:
        changes["radii"] = tuple(changes["radii"])
    which = replace(run.recipe.certification, **changes)
    if by_several:
        task = {
            "path": str(run.path), "data_dir": None if data_dir is None else str(data_dir), "device": device,
            "seed": seed, "to": to, "held_out": held_out, "batch_size": batch_size, "votes": votes,
            "compile": compile, "correct_only": correct_only, **changes,
        }  # fmt: skip
        return _certify_by_workers(run, task, which, jobs, on, console)
    part = None if shard is None else Shard.parse(shard)
    certificates = run.path / to
    folder = certificates if part is None else part.folder(certificates)
    stored = _stored_settings(folder) or _first_settings(certificates)
    weights = run.weights_digest() if run.is_trained() else ""
    root = None if data_dir is None else Path(data_dir)
    trained = TrainedRun.open(run, data_dir=root, device=device, held_out=held_out)
    run.check_weights(weights, "run the same command again")
    chosen = trained.votes(votes or None)
    tuned = run.tuned_weights()
    plan = replace(trained.plan(which, seed), correct_only=correct_only)
    wanted = wanted_inputs(which, len(trained.dataset.test))
    check_memory(f"a batch of {batch_size or 1:,} images", batch_size or 1, *trained.dataset.shape)
    trained.image(plan.noise, wanted[0])
    on_cpu = trained.device.type == "cpu"
    build = partial(trained.sampler, plan, chosen, prepare=bool(stored.get("prepared", not stored)))
    with threads(stored.get("threads") if on_cpu else None):
        draws = len(wanted) * (which.n0 + which.n)
        is_by_hand = part is not None and places is None
        if not stored and not is_by_hand and on_cpu and draws * run.recipe.members >= LEAST_FORWARDS:
            numbers = sorted({torch.get_num_threads(), 1}, reverse=True)
            sampler = fastest(build, draws, numbers, batch_size=batch_size, compile=compile)
        else:
            sampler = build(
                batch_size=stored.get("batch_size") if batch_size is None else batch_size,
                compile=bool(stored.get("compiled", False)) if compile is None else compile,
            )
        settings = {
            "data": run.recipe.data, "data_sha256": trained.dataset.test.digest(), "every": which.every,
            WANTED: len(wanted), **({SPLIT: HELD_OUT} if held_out else {}),
            **plan.settings(), "compiled": sampler.is_compiled, "prepared": sampler.is_prepared,
            "batch_size": sampler.batch_size,
            **({"threads": torch.get_num_threads()} if on_cpu else {}),
            **({"votes": list(chosen.reported)} if votes else {}), "members_sha256": weights,
            **({"code_sha256": code} if (code := code_digest(run.recipe.model)) else {}),
            **({"tuned": tuned} if tuned else {}),
        }  # fmt: skip
        mine: Sequence[int] = wanted
        if part is not None:
            refuse_other_settings(certificates, settings)
            if places is None:
                already = read_lines(certificates, chosen.reported)
                mine = [index for index in part.part(wanted) if index not in already]
            settings = part.settings(settings)
        with (
            defer_interrupt(console, IN_PROGRESS) as should_stop,
            run.lock() if part is None else part.lock(certificates) as check_lock,
            _sealed(run, folder, settings, is_part=part is not None) as were_sealed,
            CertificateWriter(folder, chosen.reported, settings) as writer,
        ):
            if part is None:
                run.seal(f"{to}/settings.yaml")
            if not were_sealed:
                check_counts_in(folder)
            described = {**environment.describe(trained.device), "processes": 1}
            left = [] if places is not None else remaining(writer.done, mine, folder)
            if writer.done and left:
                _say_if_changed(console, run, folder, described)
            if part is not None:
                write_atomic(folder / "environment.json", json.dumps(described).encode())
            if not left and places is None:
                _say_all_done(console, folder, len(mine))
                return run
            if part is None:
                run.note_environment("certify", described)
            if note := cost_note(sampler, len(left), "--radii 0.5,1"):
                console.print(note, highlight=False, soft_wrap=True)
            mine_now = map(wanted.index, left) if places is None else places
            counts = _counts(sampler, trained, wanted, takewhile(lambda _: not should_stop(), mine_now))
            with closing(counts):
                labels = trained.dataset.test.labels
                _write(counts, writer, plan, chosen, labels, len(mine), console, check_lock)
            run.check_weights(weights, f"put those back that {folder} was made with, or delete {folder}")
    return run


def _write(
    all_counts: Iterator[Counts],
    writer: CertificateWriter,
    plan: Plan,
    votes: VoteSet,
    labels: Tensor,
    total: int,
    console: Console,
    check_lock: Callable[[], None],
) -> None:
    """Certificates from counts, into the folder as they come, with progress on the console."""
    began = last = time.perf_counter()
    title = f"certifying {total} inputs, {len(votes.counted)} vote{'s' * (len(votes.counted) > 1)}"
    draws = done = 0
    before = len(writer.done)
    with progress_bar(console, title, total, before) as show:
        for done, counts in enumerate(all_counts, start=1):
            certificates = plan.certificates(counts, votes)
            now = time.perf_counter()
            check_lock()
            writer.append(counts.index, int(labels[counts.index]), certificates, now - last)
            last = now
            draws += int(counts.estimation[0].sum())
            note = f"{done / (now - began):.3g} inputs/s"
            if plan.certification.radii or plan.correct_only:
                note += f", {1 - draws / (done * plan.certification.n):.0%} of the samples saved"
            show(before + done, note)
    rule = plan.stopping
    if isinstance(rule, StopAtRadii) and draws:
        floor, largest = fewest_draws(plan.ball, rule.radii[-1], rule.alpha), rule.radii[-1]
        console.print(
            f"samples that bound: {draws / done:,.0f} per input on average; radius {largest:g} takes "
            f"{rule.draws_if_sure:,} if all agree, and {floor:,.0f} in any test",
            highlight=False, soft_wrap=True,
        )  # fmt: skip


@contextmanager
def _sealed(
    run: RunFolder, certificates: Path, settings: Mapping[str, Any], *, is_part: bool
) -> Iterator[bool]:
    """Write digests of all certificates when the verb ends.  -> whether those there agree with theirs"""
    if is_part:
        yield False
        return
    refuse_other_settings(certificates, settings)
    were_sealed = run.check_certificates(certificates.name)
    run.unseal(f"{certificates.name}/")
    yield were_sealed
    run.seal(*RUN_FILES, "members", certificates.name)


def wanted_inputs(which: Certification, available: int) -> range:
    """The indices of the test inputs to certify."""
    return range(0, available, which.every)[: which.limit]


def _counts(
    sampler: Sampler, trained: TrainedRun, wanted: Sequence[int], places: Iterator[int]
) -> Generator[Counts, None, None]:
    """Counts of the inputs at these places; consecutive ones are in the rows that one process gives them."""
    place = next(places, None)

    def stretch(following: int) -> Iterator[tuple[int, Tensor]]:
        nonlocal place
        while place == following:
            yield wanted[place], trained.image(sampler.noise, wanted[place])
            place, following = next(places, None), following + 1

    while place is not None:
        yield from sampler.counts(stretch(place), place)


def _first_settings(certificates: Path) -> dict[str, Any]:
    """Those of the certificates, or of their first shard there is, which others continue."""
    shards = sorted(shards_folder(certificates).glob("*-of-*"))
    return next(filter(None, map(_stored_settings, [certificates, *shards])), {})


def _stored_settings(folder: Path) -> dict[str, Any]:
    path = folder / "settings.yaml"
    return read_settings(path) if path.is_file() else {}


def _say_if_changed(console: Console, run: RunFolder, folder: Path, now: Mapping[str, Any]) -> None:
    """Print a note where a folder's certificates so far are of another device or torch."""
    of_shard = folder / "environment.json"
    file, stage = (of_shard, None) if of_shard.is_file() else (run.path / of_shard.name, "certify")
    environment.say_if_changed(console, "this certification", file, stage, now)


def _say_all_done(console: Console, folder: Path, total: int) -> None:
    message = f"{folder}: all {total} inputs are certified already"
    console.print(message, highlight=False, markup=False, soft_wrap=True)


def certify_share(task: Mapping[str, Any], number: int, places: Iterator[int]) -> None:
    """What one of several workers does: a shard of the inputs that it is given, one by one.

    Whoever is first decides on the settings, and the others follow them.
    """
    first = next(places, None)
    if first is None and not task["shard"].startswith("1/"):  # which checks the settings in any case
        return
    certificates = Path(task["path"]) / task["to"]
    lock = FileLock(shards_folder(certificates) / ".settings.lock")

    def given() -> Iterator[int]:
        lock.release()  # once the settings are written
        if first is not None:
            yield first
        yield from places

    with ExitStack() as stack:
        if not _first_settings(certificates):
            with disk_errors(certificates):
                shards_folder(certificates).mkdir(exist_ok=True)
            stack.enter_context(lock)
            if _first_settings(certificates):
                lock.release()
        certify_run(**{**task, "device": device_of(number, task["device"])}, places=given())


def _certify_by_workers(
    run: RunFolder, task: Mapping[str, Any], which: Certification, jobs: int | None, on: str, console: Console
) -> RunFolder:
    """Certify shards by several workers, and merge them."""
    certificates = run.path / task["to"]
    data_dir = None if task["data_dir"] is None else Path(task["data_dir"])
    train, test = split_sizes(run.recipe.data, data_dir)
    held_out = len(range(0, train, run.recipe.holdout_every or 1))
    wanted = wanted_inputs(which, held_out if task["held_out"] else test)
    there = certified_inputs(certificates)
    places = [place for place, index in enumerate(wanted) if index not in there]
    if there and places and on == LOCAL:
        now = environment.describe(resolve_device(task["device"]))
        _say_if_changed(console, run, Shard(1, jobs or 1).folder(certificates), now)
    errors: list[str] = []
    with (
        defer_interrupt(console, IN_PROGRESS) as should_stop,
        run.lock(),
        workers_of(on, _WORK, jobs, task["device"], places) as workers,
    ):
        run.check_certificates(certificates.name)
        began = time.perf_counter()
        for k in range(workers.most):
            workers.give(k, {**task, "shard": f"{k + 1}/{workers.most}"})
        title = f"certifying {len(wanted)} inputs by {workers.most} processes"
        with progress_bar(console, title, len(wanted), len(there)) as show:
            while workers.busy:
                errors += [answer["error"] for _, answer, _ in workers.answers() if answer["error"]]
                if should_stop() or errors:  # those that are left end after their current inputs
                    workers.stop()
                if workers.busy and 0 < (new := sum(workers.taken())) < len(places):
                    show(len(there) + new, f"{new / (time.perf_counter() - began):.3g} inputs/s")
            if errors:
                raise UserError(errors[0])
            show(len(wanted), f"{len(places) / (time.perf_counter() - began):.3g} inputs/s")
    merge_run(run.path, to=task["to"], console=QUIET)
    return run
