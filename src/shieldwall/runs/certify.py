"""members -> certificates: every vote at every selected test input, in one pass that can be interrupted."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby, takewhile
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from shieldwall.console import QUIET, defer_interrupt, progress_bar
from shieldwall.data.datasets import split_sizes
from shieldwall.devices import check_memory, device_of, resolve_device, threads
from shieldwall.ensembles.votes import VoteSet
from shieldwall.errors import UserError, check
from shieldwall.files import write_atomic
from shieldwall.models.registry import code_digest
from shieldwall.recipes import Certification
from shieldwall.results import certificate_writer as files
from shieldwall.results.archive import RUN_FILES
from shieldwall.runs import environment, shards
from shieldwall.runs.environment import say, say_if_changed
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.shards import Shard
from shieldwall.runs.trained import TrainedRun
from shieldwall.runs.verify import check_counts_in
from shieldwall.runs.workers import LOCAL, workers_of
from shieldwall.smoothing.certificates import Counts, Plan
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.stopping import StopAtRadii, fewest_draws
from shieldwall.smoothing.trial import LEAST_FORWARDS, cost_note, fastest

IN_PROGRESS = "the current inputs"
_POLL_SECONDS = 0.1


def certify_run(path: Path | str, *, data_dir: Path | str | None = None, device: str | None = None,
                seed: int | None = None, to: str = "certificates", held_out: bool = False,
                batch_size: int | None = None, votes: Sequence[str] | None = None,
                compile: bool | None = None, shard: str | None = None, places: Iterator[int] | None = None,
                jobs: int | None = 1, on: str = LOCAL, correct_only: bool = False, console: Console = QUIET,
                **changes: Any) -> RunFolder:  # fmt: skip
    """Certify the recipe's test inputs into the run folder, or resume an interrupted certification.

    A resumed folder keeps its first settings: compiled or not, the batch size and, on a CPU, the number of
    threads. A new one finds them by a trial, on a CPU with much work (`smoothing.trial`). `held_out` means
    training images that no member has seen; `correct_only`, to draw nothing to bound an input for which every
    vote chose a wrong class; `shard`, one part of the inputs (`runs/shards.py`), or those at `places` in the
    list of them; `changes`, fields of the recipe's certification, where they are not None.
    """
    shards.check_folder_name(to)
    check(batch_size is None or batch_size >= 1, "--batch-size must be at least 1", batch_size)
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UserError(
            "certify cannot run under torchrun; use --jobs N or, on several machines, --shard K/N"
        )
    by_several = on != LOCAL or jobs != 1
    check(not by_several or shard is None, "--jobs and --on cannot be used with --shard", shard)
    run = RunFolder(path)
    if changes.get("radii") is not None:
        changes["radii"] = tuple(changes["radii"])
    which = run.recipe.certification.changed(**changes)
    if by_several:
        task = {
            "path": run.path, "data_dir": data_dir, "device": device, "seed": seed, "to": to,
            "held_out": held_out, "batch_size": batch_size, "votes": votes, "compile": compile,
            "correct_only": correct_only, **changes,
        }  # fmt: skip
        return _certify_by_workers(run, task, which, jobs, on, console)
    part = None if shard is None else Shard.parse(shard)
    certificates = run.path / to
    folder = certificates if part is None else part.folder(certificates)
    stored = _stored_settings(folder, certificates, *shards.folders(certificates))
    weights = run.weights_digest() if run.is_trained() else ""
    trained = TrainedRun.open(run, data_dir=data_dir, device=device, held_out=held_out)
    run.check_weights(weights, "run the same command again")
    chosen, test = trained.votes(votes or None), trained.dataset.test
    plan, wanted = trained.plan(which, seed, correct_only), which.inputs(len(test))
    check_memory(f"a batch of {batch_size or 1:,} images", batch_size or 1, *trained.dataset.shape)
    trained.image(plan.noise, wanted[0])
    on_cpu = trained.device.type == "cpu"
    with threads(stored.get("threads") if on_cpu else None):
        may_try = on_cpu and (part is None or places is not None)
        sampler = _sampler(trained, plan, chosen, len(wanted), stored, batch_size, compile, may_try)
        settings = {
            "data": run.recipe.data, "data_sha256": test.digest(), "every": which.every,
            files.WANTED: len(wanted), files.SPLIT: files.HELD_OUT if held_out else None, **plan.settings(),
            "compiled": sampler.is_compiled, "prepared": sampler.is_prepared,
            "batch_size": sampler.batch_size, "threads": torch.get_num_threads() if on_cpu else None,
            "votes": list(chosen.reported) if votes else None, "members_sha256": weights,
            "code_sha256": code_digest(run.recipe.model), "tuned": run.tuned_weights() or None,
        }  # fmt: skip
        settings = {name: value for name, value in settings.items() if value is not None}
        files.refuse_other_settings(certificates, settings)
        mine: Sequence[int] = wanted
        if part is not None:
            settings |= {shards.SHARD: str(part)}
        if part is not None and places is None:
            already = files.read_lines(certificates, chosen.reported)
            mine = [index for index in part.part(wanted) if index not in already]
        with (
            defer_interrupt(console, IN_PROGRESS) as should_stop,
            _held(run, to, part) as check_lock,
            files.CertificateWriter(folder, chosen.reported, settings) as writer,
        ):
            check_counts_in(folder)
            left = shards.remaining(writer.done, mine, folder) if places is None else []
            facts = {**environment.describe(trained.device), "processes": 1}
            if writer.done and left:
                say_if_changed(console, facts, folder, run.path, stage="certify")
            if part is not None:
                write_atomic(folder / "environment.json", json.dumps({"certify": facts}).encode())
            else:
                run.seal(f"{to}/settings.yaml")
            if places is None and not left:
                say(console, f"{folder}: all {len(mine)} inputs are certified already")
                return run
            if part is None:
                run.note_environment("certify", facts)
            if note := cost_note(sampler, len(left), "--radii 0.5,1"):
                say(console, note)
            mine_now = map(wanted.index, left) if places is None else places
            going_on = takewhile(lambda _: not should_stop(), mine_now)
            counts = _counts(sampler, trained, wanted, going_on)
            _write(counts, writer, plan, chosen, test.labels, len(mine), console, check_lock)
            run.check_weights(weights, f"put those back that {folder} was made with, or delete {folder}")
    return run


def _sampler(trained: TrainedRun, plan: Plan, votes: VoteSet, inputs: int, stored: Mapping[str, Any],
             batch_size: int | None, compile: bool | None, may_try: bool) -> Sampler:  # fmt: skip
    """One with the settings that are asked for or stored; a trial finds those of much new work."""
    which = plan.certification
    draws = inputs * (which.n0 + which.n)
    build = partial(trained.sampler, plan, votes, prepare=bool(stored.get("prepared", not stored)))
    if may_try and not stored and draws * trained.recipe.members >= LEAST_FORWARDS:
        numbers = sorted({torch.get_num_threads(), 1}, reverse=True)
        return fastest(build, draws, numbers, batch_size=batch_size, compile=compile)
    batch_size = stored.get("batch_size") if batch_size is None else batch_size
    return build(batch_size=batch_size, compile=bool(stored.get("compiled")) if compile is None else compile)


@contextmanager
def _held(run: RunFolder, to: str, part: Shard | None) -> Iterator[Callable[[], None]]:
    """Keep others off the run or the shard; a run's certificates have digests but while they change."""
    if part is not None:
        with part.lock(run.path / to) as check_lock:
            yield check_lock
        return
    with run.lock() as check_lock:
        run.check_certificates(to)
        run.unseal(f"{to}/")
        yield check_lock
        run.seal(*RUN_FILES, "members", to)


def _write(all_counts: Iterator[Counts], writer: files.CertificateWriter, plan: Plan, votes: VoteSet,
           labels: Tensor, total: int, console: Console, check_lock: Callable[[], None]) -> None:  # fmt: skip
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
    if isinstance(rule := plan.stopping, StopAtRadii) and draws:
        largest = rule.radii[-1]
        floor = fewest_draws(plan.ball, largest, rule.alpha)
        if floor > rule.n:
            takes = f"{rule.n:,} samples cannot certify radius {largest:g}"
        else:
            sure = f"{rule.draws_if_sure:,} if all agree"
            takes = f"radius {largest:g} takes {sure}, and {floor:,.0f} in any test"
        say(console, f"samples that bound: {draws / done:,.0f} per input on average; {takes}")


def _counts(sampler: Sampler, trained: TrainedRun, wanted: Sequence[int],
            places: Iterator[int]) -> Iterator[Counts]:  # fmt: skip
    """Counts of the inputs at these places; consecutive ones are in the rows that one process gives them."""
    for _, stretch in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        _, first = next(stretch)
        indices = (wanted[place] for place in chain([first], (place for _, place in stretch)))
        yield from sampler.counts(((index, trained.image(sampler.noise, index)) for index in indices), first)


def _stored_settings(*folders: Path) -> dict[str, Any]:
    """Those of the first of these folders that has some, which others continue."""
    paths = (folder / "settings.yaml" for folder in folders)
    return next((files.read_settings(path) for path in paths if path.is_file()), {})


def certify_share(task: Mapping[str, Any], number: int, places: Iterator[int]) -> None:
    """What one of several workers does: a shard of the inputs that it is given, one by one. The first shard
    decides on the settings, which the others wait for and follow."""
    certificates = Path(task["path"]) / task["to"]
    if not task["shard"].startswith("1/"):
        while not _stored_settings(certificates, *shards.folders(certificates)):
            time.sleep(_POLL_SECONDS)
        if (first := next(places, None)) is None:
            return
        places = chain([first], places)
    certify_run(**{**task, "device": device_of(number, task["device"])}, places=places)


def _certify_by_workers(run: RunFolder, task: Mapping[str, Any], which: Certification, jobs: int | None,
                        on: str, console: Console) -> RunFolder:  # fmt: skip
    certificates = run.path / task["to"]
    train, test = split_sizes(run.recipe.data, task["data_dir"])
    held_out = len(range(0, train, run.recipe.holdout_every or 1))
    wanted = which.inputs(held_out if task["held_out"] else test)
    there = shards.certified_inputs(certificates)
    places = [place for place, index in enumerate(wanted) if index not in there]
    if there and places and on == LOCAL:
        facts, first = environment.describe(resolve_device(task["device"])), Shard(1, jobs or 1)
        say_if_changed(console, facts, first.folder(certificates), run.path, stage="certify")
    with (
        defer_interrupt(console, IN_PROGRESS) as should_stop,
        run.lock(),
        workers_of(on, f"{__name__}:certify_share", jobs, task["device"], places) as workers,
    ):
        run.check_certificates(certificates.name)
        began = time.perf_counter()
        for k in range(workers.most):
            workers.give(k, {**task, "shard": f"{k + 1}/{workers.most}"})
        title = f"certifying {len(wanted)} inputs by {workers.most} processes"
        with progress_bar(console, title, len(wanted), len(there)) as show:
            while workers.busy:
                for _, answer, _ in workers.answers():
                    if answer.error:
                        raise UserError(answer.error)
                if should_stop():  # they end after their current inputs
                    workers.ask("stop")
                if workers.busy and 0 < (new := sum(workers.ask("taken"))) < len(places):
                    show(len(there) + new, f"{new / (time.perf_counter() - began):.3g} inputs/s")
            show(len(wanted), f"{len(places) / (time.perf_counter() - began):.3g} inputs/s")
    shards.merge_run(run.path, to=task["to"], console=QUIET)
    return run
