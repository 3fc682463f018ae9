"""members -> certificates: every vote at every selected test input, in one pass that can be interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from shieldwall.console import defer_interrupt, progress_bar
from shieldwall.data import datasets
from shieldwall.devices import resolve_device, threads
from shieldwall.ensembles.votes import VoteSet
from shieldwall.errors import UserError, check_int
from shieldwall.files import write_atomic
from shieldwall.models.registry import code_digest
from shieldwall.noise.distributions import Noise
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
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.shards import Shard, merge_run, remaining, shards_folder
from shieldwall.runs.trained import QUIET, TrainedRun, held_out_part
from shieldwall.runs.verify import check_counts_in
from shieldwall.smoothing.certificates import Counts
from shieldwall.smoothing.plan import Plan
from shieldwall.smoothing.stopping import StopAtRadii, fewest_draws
from shieldwall.smoothing.trial import LEAST_FORWARDS, fastest

IN_PROGRESS = "the current inputs"
_POLL_SECONDS = 0.2


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
    jobs: int = 1,
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

    `shard` certifies one part of the inputs (`runs/shards.py`). `jobs` starts that number of processes on
    this machine, with one thread each, and merges their parts.
    """
    if Path(to).name != to or to in ("", ".."):
        raise UserError(f"--to takes the name of a folder inside the run folder; given: {to!r}")
    if batch_size is not None and batch_size < 1:
        raise UserError(f"--batch-size must be at least 1; given: {batch_size}")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(
            "certify cannot run under torchrun; use --jobs N on one machine or --shard K/N on several"
        )
    check_int("--jobs", jobs)
    if jobs < 1 or (jobs > 1 and shard is not None):
        raise UserError(f"--jobs must be at least 1, and cannot be used with --shard; given: {jobs}")
    run = RunFolder(path)
    changes = {name: value for name, value in changes.items() if value is not None}
    if "radii" in changes:
        changes["radii"] = tuple(changes["radii"])
    which = replace(run.recipe.certification, **changes)
    if jobs > 1:
        options = {
            "path": str(run.path), "data_dir": None if data_dir is None else str(data_dir), "device": device,
            "seed": seed, "to": to, "held_out": held_out, "batch_size": batch_size, "votes": votes,
            "compile": compile, "correct_only": correct_only, **changes,
        }  # fmt: skip
        return _certify_by_processes(run, options, which, jobs, console)
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
    trained.image(plan.noise, wanted[0])
    on_cpu = trained.device.type == "cpu"
    build = partial(trained.sampler, plan, chosen, prepare=bool(stored.get("prepared", not stored)))
    with threads(stored.get("threads") if on_cpu else None):
        if not stored and part is None and _is_worth_a_trial(run, trained.device, which, wanted):
            numbers = sorted({torch.get_num_threads(), 1}, reverse=True)
            sampler = fastest(build, _draws(which, wanted), numbers, batch_size=batch_size, compile=compile)
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
            left = remaining(writer.done, mine, folder)
            if writer.done and left:
                _say_if_changed(console, run, folder, described)
            if part is not None:
                write_atomic(folder / "environment.json", json.dumps(described).encode())
            if not left:
                _say_all_done(console, folder, len(mine))
                return run
            if part is None:
                run.note_environment("certify", described)
            source = _until(should_stop, trained, plan.noise, left)
            with closing(sampler.counts(source, wanted.index(left[0]))) as counts:  # type: ignore[type-var]
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


def _until(
    should_stop: Callable[[], bool], trained: TrainedRun, noise: Noise, indices: Sequence[int]
) -> Iterator[tuple[int, Tensor]]:
    for index in indices:
        if should_stop():
            return
        yield index, trained.image(noise, index)


def _first_settings(certificates: Path) -> dict[str, Any]:
    """Those of the certificates, or of their first shard there is, which others continue."""
    shards = sorted(shards_folder(certificates).glob("*-of-*"))
    return next(filter(None, map(_stored_settings, [certificates, *shards])), {})


def _draws(which: Certification, wanted: Sequence[int]) -> int:
    return len(wanted) * (which.n0 + which.n)


def _is_worth_a_trial(
    run: RunFolder, device: torch.device, which: Certification, wanted: Sequence[int]
) -> bool:
    return device.type == "cpu" and _draws(which, wanted) * run.recipe.members >= LEAST_FORWARDS


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


def _certify_by_processes(
    run: RunFolder, options: Mapping[str, Any], which: Certification, jobs: int, console: Console
) -> RunFolder:
    """Certify `jobs` shards in parallel on this machine, and merge them."""
    command = [sys.executable, "-c", "from shieldwall.runs.certify import work_on_shard; work_on_shard()"]
    # One thread per process; a resumed folder keeps its number of threads.
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    certificates = run.path / str(options["to"])
    data_dir = None if options["data_dir"] is None else Path(options["data_dir"])
    dataset = datasets.load(run.recipe.data, data_dir)
    split = held_out_part(run.recipe, dataset) if options["held_out"] else dataset.test
    wanted = wanted_inputs(which, len(split))
    device = resolve_device(options["device"])
    if _is_worth_a_trial(run, device, which, wanted) and not _first_settings(certificates):
        trained = TrainedRun.open(
            run, data_dir=data_dir, device=options["device"], held_out=options["held_out"]
        )
        plan, votes = trained.plan(which, options["seed"]), trained.votes(options["votes"] or None)
        with threads(1):  # as each process has
            sampler = fastest(
                partial(trained.sampler, plan, votes, prepare=True), _draws(which, wanted), [1],
                batch_size=options["batch_size"], compile=options["compile"],
            )  # fmt: skip
        options = {**options, "batch_size": sampler.batch_size, "compile": sampler.is_compiled}
    if 0 < _done_inputs(certificates) < len(wanted):
        now = environment.describe(device)
        _say_if_changed(console, run, Shard(1, jobs).folder(certificates), now)
    with defer_interrupt(console, IN_PROGRESS) as should_stop, run.lock():
        run.check_certificates(certificates.name)
        workers = [
            subprocess.Popen(
                [*command, json.dumps({**options, "shard": f"{number + 1}/{jobs}"})],
                env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                start_new_session=True,
            )
            for number in range(jobs)
        ]  # fmt: skip
        try:
            _wait_for(workers, certificates, len(wanted), console, should_stop)
        finally:
            for worker in workers:
                if worker.poll() is None:
                    worker.kill()
                worker.wait()
                assert worker.stderr is not None
                worker.stderr.close()
    merge_run(run.path, to=str(options["to"]), console=QUIET)
    return run


def _wait_for(
    workers: Sequence["subprocess.Popen[str]"],
    certificates: Path,
    total: int,
    console: Console,
    should_stop: Callable[[], bool],
) -> None:
    """Wait for all processes; if one fails, or on Ctrl-C, they stop after their current inputs."""
    began = time.perf_counter()
    before = _done_inputs(certificates)
    title = f"certifying {total} inputs by {len(workers)} processes"
    asked = False
    with progress_bar(console, title, total, before) as show:
        while any(worker.poll() is None for worker in workers):
            failed = any(worker.poll() not in (None, 0) for worker in workers)
            if (should_stop() or failed) and not asked:
                asked = True
                for worker in workers:
                    if worker.poll() is None:
                        worker.send_signal(signal.SIGINT)
            time.sleep(_POLL_SECONDS)
            done = _done_inputs(certificates)
            if before < done < total:
                show(done, f"{(done - before) / (time.perf_counter() - began):.3g} inputs/s")
        if should_stop():
            return
        for worker in workers:
            if worker.returncode:
                assert worker.stderr is not None
                message = worker.stderr.read().strip().rpartition("\n")[2]
                raise UserError(
                    message.removeprefix("error: ")
                    or f"a process ended with code {worker.returncode}; run the same command to resume"
                )
        show(total, f"{(total - before) / (time.perf_counter() - began):.3g} inputs/s")


def _done_inputs(certificates: Path) -> int:
    """How many inputs are certified, by one process or in shards."""
    files: dict[Path, Path] = {}
    for folder in (certificates, *shards_folder(certificates).glob("*-of-*")):
        for file in sorted(folder.glob("*.tsv"))[:1]:
            files[folder] = file
    return sum(max(0, file.read_bytes().count(b"\n") - 1) for file in files.values())


def work_on_shard() -> None:
    """What a process of `jobs` does: its options come as JSON."""
    try:
        certify_run(**json.loads(sys.argv[1]))
    except UserError as error:
        sys.exit(f"error: {' '.join(str(error).split())}")
    except KeyboardInterrupt:
        sys.exit(130)
