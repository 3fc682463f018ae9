"""members -> certificates: every vote at every wanted test input, in one pass that can be interrupted."""

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from shieldwall import data
from shieldwall.console import defer_interrupt, progress_bar
from shieldwall.data import Split
from shieldwall.devices import resolve_device
from shieldwall.distributed import ProcessGroup
from shieldwall.ensembles.votes import Vote, named, standard
from shieldwall.errors import UserError, unknown_name
from shieldwall.noise.distributions import Noise
from shieldwall.recipes import Certification
from shieldwall.results import environment
from shieldwall.results.certificate_file import CertificateWriter
from shieldwall.results.run import Run
from shieldwall.smoothing.build import engine_for
from shieldwall.smoothing.engine import Counted
from shieldwall.smoothing.plan import Plan
from shieldwall.stages.common import QUIET, load_members, noise_of
from shieldwall.stages.shares import counted
from shieldwall.vocabulary import EAS

PATIENCE = timedelta(days=1)
"""How long a process waits for the others: one input may take hours where another takes seconds."""


def certify_run(
    path: Path | str,
    *,
    data_dir: Path | None = None,
    device: str | None = None,
    seed: int | None = None,
    to: str = "certificates",
    batch_size: int | None = None,
    votes: Sequence[str] | None = None,
    bound: str = "one-sided",
    radii: Sequence[float] | None = None,
    tolerance: float | None = None,
    norm: str | None = None,
    precision: str = "float32",
    exact_noise: bool = False,
    compile: bool = False,
    console: Console = QUIET,
    **changes: Any,
) -> Run:
    """Certify the recipe's test inputs into the run folder, or go on where it stopped.

    `changes` replace fields of the recipe's certification where they are not None: n0, n, alpha,
    every, limit. `seed` names the draws; by default the recipe's. The other options are those of
    `shieldwall.certify`; `votes` are names of votes or `eas`; `exact_noise` draws integers
    (docs/certification.md).

    Started by torchrun, each process certifies its share of the inputs and the first one writes them all.
    """
    if Path(to).name != to or to in ("", ".."):
        raise UserError(f"--to takes the name of a folder inside the run folder; given: {to!r}")
    if batch_size is not None and batch_size < 1:
        raise UserError(f"--batch-size must be at least 1; given: {batch_size}")
    world = ProcessGroup.from_environment()
    run = Run(path)
    recipe = run.recipe
    which = replace(
        recipe.certification, **{key: value for key, value in changes.items() if value is not None}
    )
    where = resolve_device(world.device_name(device))
    dataset = data.load(recipe.data, data_dir)
    members = load_members(run, dataset, where)
    tuned = run.tuned_weights()
    every_vote = standard(len(members)) + [
        Vote(f"we-{method}", named("we", len(members), weights).scores) for method, weights in tuned.items()
    ]
    wanted_votes, counted_votes = chosen_votes(votes, every_vote, len(members))
    plan = Plan(
        noise_of(recipe, exact=exact_noise), math.prod(dataset.shape),
        n0=which.n0, n=which.n, alpha=which.alpha, seed=recipe.seed if seed is None else seed,
        bound=bound, radii=radii, tolerance=tolerance, norm=norm, precision=precision,
    )  # fmt: skip
    engine = engine_for(
        members, counted_votes, plan.noise, plan.n0, plan.stopping,
        shape=dataset.shape, device=where, seed=plan.seed, batch_size=batch_size,
        precision=precision, compile=compile,
    )  # fmt: skip
    settings = {
        "data": recipe.data, "data_sha256": dataset.test.digest(), "every": which.every, **plan.settings(),
        **({"compiled": True} if compile else {}), **({"votes": wanted_votes} if votes else {}),
        "weights": run.weights_digest(),
        **({"tuned": tuned} if tuned else {}),
    }  # fmt: skip
    wanted = wanted_inputs(which, len(dataset.test))
    work = partial(counted, engine, partial(one_image, dataset.test, plan.noise))
    one_image(dataset.test, plan.noise, wanted[0])
    with (
        world.connected(torch.device("cpu"), patience=PATIENCE),
        defer_interrupt(console, "the inputs in progress") as should_stop,
    ):
        if not world.is_main:
            console.quiet = True  # for the caller too: what is said is said once
            for _ in work(*world.broadcast(([], 0)), world, should_stop):
                pass
            return run
        with run.lock(), CertificateWriter(run.path / to, wanted_votes, settings) as folder:
            left, done = world.broadcast((remaining(folder.done, wanted), len(folder.done)))
            if not left:
                message = f"{folder.path}: all {len(wanted)} inputs are certified already"
                console.print(message, highlight=False, markup=False, soft_wrap=True)
                return run
            run.note_environment("certify", {**environment.describe(where), "processes": world.size})
            with closing(work(left, done, world, should_stop)) as counts:
                _write(counts, folder, plan, counted_votes, wanted_votes, dataset.test, len(wanted), console)
    return run


def _write(
    found: Iterable[Counted],
    folder: CertificateWriter,
    plan: Plan,
    counted_votes: Sequence[Vote],
    wanted_votes: Sequence[str],
    inputs: Split,
    total: int,
    console: Console,
) -> None:
    """Certificates from counts, into the folder as they come, with progress on the console."""
    began = last = time.perf_counter()
    title = f"certifying {total} inputs, {len(counted_votes)} vote{'s' * (len(counted_votes) > 1)}"
    members = [k for k, vote in enumerate(counted_votes) if vote.name.startswith("member-")]
    draws = 0
    with progress_bar(console, title, total, len(folder.done)) as show:
        for done, one in enumerate(found, start=1):
            certificates = plan.certificates(one.index, one.selection, one.counts)
            by_vote: dict[str, Any] = {
                vote.name: certificates[k : k + 1] for k, vote in enumerate(counted_votes)
            }
            if EAS in wanted_votes:
                by_vote[EAS] = plan.after_smoothing(one.selection[members], one.counts[members])
            now = time.perf_counter()
            folder.append(one.index, int(inputs.labels[one.index]), by_vote, now - last)
            last = now
            draws += int(one.counts[0].sum())
            note = f"{done / (now - began):.3g} inputs/s"
            if plan.is_sequential:
                note += f", {1 - draws / (done * plan.n):.0%} of the draws saved"
            show(len(folder.done) + done, note)


def chosen_votes(
    asked: Sequence[str] | None, every_vote: Sequence[Vote], members: int
) -> tuple[list[str], list[Vote]]:
    """The names of those asked for, by default of all, and what is counted for them."""
    names = [*(vote.name for vote in every_vote), *([EAS] if members > 1 else [])]
    wanted = list(dict.fromkeys(asked)) if asked else names
    for name in wanted:
        if name not in names:
            raise unknown_name("vote", name, names)
    of_after_smoothing = every_vote[:members] if EAS in wanted else []
    return wanted, [vote for vote in every_vote if vote.name in wanted or vote in of_after_smoothing]


def one_image(inputs: Split, noise: Noise, index: int) -> Tensor:
    """The image, which must be one that the noise is meant for."""
    images = inputs.images([index])
    noise.check(images)
    return images[0]


def wanted_inputs(which: Certification, available: int) -> range:
    """The indices of the test inputs to certify."""
    return range(0, available, which.every)[: which.limit]


def remaining(done: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """What is wanted and not done; done inputs must be the first ones, so that the files read in order."""
    common = min(len(done), len(wanted))
    if list(done[:common]) != list(wanted[:common]):
        raise UserError(
            "the folder holds certificates of other inputs; write these to another one with --to NAME"
        )
    return list(wanted[common:])
