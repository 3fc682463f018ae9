"""members -> certificates: every vote at every wanted test input, in one pass that can be interrupted."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from shieldwall import data
from shieldwall.ensembles import Vote, named, standard
from shieldwall.errors import UserError
from shieldwall.progress import progress_bar
from shieldwall.recipes import Certification
from shieldwall.results import environment
from shieldwall.results.certificates import CertificateFolder
from shieldwall.results.run import Run
from shieldwall.smoothing import Gaussian, from_counts
from shieldwall.smoothing.classify import by_votes
from shieldwall.smoothing.sample import stream_counts
from shieldwall.stages.common import QUIET, choose_device, load_members


def certify_run(
    path: Path | str,
    *,
    data_dir: Path | None = None,
    device: str | None = None,
    seed: int | None = None,
    to: str = "certificates",
    batch_size: int | None = None,
    console: Console = QUIET,
    **changes: Any,
) -> Run:
    """Certify the recipe's test inputs into the run folder, or go on where it stopped.

    `changes` replace fields of the recipe's certification where they are not None: n0, n, alpha,
    every, limit. `seed` names the draws; by default the recipe's.
    """
    if Path(to).name != to or to in ("", ".."):
        raise UserError(f"--to takes the name of a folder inside the run folder; given: {to!r}")
    if batch_size is not None and batch_size < 1:
        raise UserError(f"--batch-size must be at least 1; given: {batch_size}")
    run = Run(path)
    recipe = run.recipe
    plan = replace(
        recipe.certification, **{key: value for key, value in changes.items() if value is not None}
    )
    where = choose_device(device)
    dataset = data.load(recipe.data, data_dir)
    members = load_members(run, dataset, where)
    tuned = run.tuned_weights()
    votes = standard(len(members)) + [
        Vote(f"we-{method}", named("we", len(members), weights).scores) for method, weights in tuned.items()
    ]
    classify = by_votes(members, votes)
    noise = Gaussian(recipe.sigma)
    seed = recipe.seed if seed is None else seed
    settings = {
        "data": recipe.data, "every": plan.every,
        "noise": str(noise), "n0": plan.n0, "n": plan.n, "alpha": plan.alpha, "seed": seed,
        "precision": "float32", "weights": run.weights_digest(), **({"tuned": tuned} if tuned else {}),
    }  # fmt: skip
    wanted = wanted_inputs(plan, len(dataset.test))
    with run.lock(), CertificateFolder(run.path / to, [vote.name for vote in votes], settings) as folder:
        done = len(folder.done)
        left = remaining(folder.done, wanted)
        if not left:
            message = f"{folder.path}: all {len(wanted)} inputs are certified already"
            console.print(message, highlight=False, markup=False, soft_wrap=True)
            return run
        run.note_environment("certify", environment.describe(where))
        title = f"certifying {len(wanted)} inputs, {len(votes)} votes"
        with progress_bar(console, title, len(wanted), done) as show:
            for idx in left:
                started = time.perf_counter()
                (counts,) = stream_counts(
                    classify, members, dataset.test.images([idx]), noise, plan.n0, plan.n,
                    seed=seed, indices=[idx], batch_size=batch_size, device=where,
                )  # fmt: skip
                certificates = {
                    vote.name: from_counts(phases[:1], phases[1:], noise, plan.alpha)
                    for vote, phases in zip(votes, counts, strict=True)
                }
                seconds = time.perf_counter() - started
                folder.append(idx, int(dataset.test.labels[idx]), certificates, seconds)
                done += 1
                show(done, "")
    return run


def wanted_inputs(plan: Certification, available: int) -> range:
    """The indices of the test inputs to certify."""
    return range(0, available, plan.every)[: plan.limit]


def remaining(done: Sequence[int], wanted: Sequence[int]) -> Sequence[int]:
    """What is wanted and not done; done inputs must be the first ones, so that the files read in order."""
    common = min(len(done), len(wanted))
    if list(done[:common]) != list(wanted[:common]):
        raise UserError(
            "the folder holds certificates of other inputs; write these to another one with --to NAME"
        )
    return wanted[common:]
