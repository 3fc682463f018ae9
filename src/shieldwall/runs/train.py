"""recipe -> members: train into a run folder, or resume an interrupted training."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console

from shieldwall.console import QUIET, progress_bar
from shieldwall.data import datasets
from shieldwall.devices import check_memory, resolve_device
from shieldwall.distributed import ProcessGroup
from shieldwall.errors import UserError, require
from shieldwall.files import disk_errors, write_atomic
from shieldwall.models.registry import build_members, check_trusted, code_digest
from shieldwall.recipes import Recipe
from shieldwall.results.archive import RUN_FILES
from shieldwall.runs import environment
from shieldwall.runs.environment import say, say_if_changed
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.start import starting_members, warnings_of
from shieldwall.runs.trained import noise_of, training_part
from shieldwall.texts import json_value, read_file
from shieldwall.training.drt import DRT
from shieldwall.training.loop import Record, train
from shieldwall.training.registry import build_objective

Write = Callable[[Sequence[Record]], None]  # given all records so far, show those that are new
FROM_SCRATCH = "note: starting from random weights; DRT usually fine-tunes trained members: --from RUN"


def train_run(recipe: Recipe, path: Path | str, *, data_dir: Path | None = None, device: str | None = None,
              tensorboard: bool = False, console: Console = QUIET) -> RunFolder:  # fmt: skip
    """Train the recipe's members into the run folder `path`; processes of torchrun train together."""
    if tensorboard:
        require("tensorboard", "--tensorboard")
    world = ProcessGroup.from_environment()
    where = resolve_device(world.device_name(device))
    objective = build_objective(recipe.objective, noise_of(recipe))
    objective.check_members(recipe.members)
    check_trusted(recipe.model)
    code = code_digest(recipe.model)
    starts = starting_members(recipe)
    dataset = datasets.load(recipe.data, data_dir)
    images = training_part(recipe, dataset)
    copies = min(recipe.schedule.batch_size, len(images)) * getattr(objective, "num_noise", 1)
    check_memory(f"a batch of {copies:,} noisy images", copies, *dataset.shape)
    members = build_members(recipe.model, recipe.members, len(dataset.classes), dataset.shape, recipe.seed)
    for member, start in zip(members, starts, strict=bool(starts)):
        start.load_into(member)
    training = partial(
        train, members, images, objective,
        schedule=recipe.schedule, seed=recipe.seed, independent=recipe.independent, device=where, world=world,
    )  # fmt: skip
    with world.connected(where, shared=device not in (None, "cuda")):
        if not world.is_main:
            console.quiet = True  # for the caller too: only rank 0 prints
            if not world.broadcast(False):  # whether rank 0 says that the run is trained already
                training()
            return RunFolder(path)
        run = RunFolder.create(path, recipe)
        with run.lock() as check_lock:
            if world.broadcast(run.is_trained()):
                say(console, f"{run.path} is trained already")
                with _curves(run, tensorboard) as write:
                    path = run.path / "training.jsonl"
                    log = read_file(path) if tensorboard else b""
                    write([json_value(line, f"a line of {path}") for line in log.splitlines()])
                return run
            if run.checkpoint.is_file() and run.environment().get("train", {}).get("code_sha256") != code:
                changed = f"the code of the model {recipe.model} has changed since {run.path} was started"
                raise UserError(f"{changed}; choose another folder with --out, or restore the code")
            run.unseal("start.yaml", "training.jsonl")
            run.seal("recipe.yaml")
            if starts:  # their folders may move or change
                recipes = dict.fromkeys(start.description() for start in starts)  # each run's once
                write_atomic(run.path / "start.yaml", "---\n".join(recipes).encode())
                for warning in warnings_of(recipe, starts):
                    say(console, f"warning: {warning}")
            elif isinstance(objective, DRT):
                say(console, FROM_SCRATCH)
            described = {**environment.describe(where), "processes": world.size}
            if run.checkpoint.is_file():
                say_if_changed(console, described, run.path, stage="train")
            described |= {"data_sha256": dataset.train.digest(), **({"code_sha256": code} if code else {})}
            run.note_environment("train", described)
            run.seal("start.yaml")
            with _curves(run, tensorboard) as write:
                records = _logged(training, run, len(images), console, write, check_lock)
                run.save_log(records)  # a kill between the last checkpoint and its log left it a line short
                write(records)
            run.save_members(members)
            run.seal(*RUN_FILES, "members")
            run.checkpoint.unlink(missing_ok=True)
    return run


@contextmanager
def _curves(run: RunFolder, wanted: bool) -> Iterator[Write]:
    """Event files for TensorBoard: a scalar per number of a record, its step the epoch. Each call writes all
    epochs to a file that tells TensorBoard to forget what was written before: no point is lost or doubled."""
    if not wanted:
        yield lambda records: None
        return
    from torch.utils.tensorboard import SummaryWriter

    folder, written = run.path / "tensorboard", 0

    def write(records: Sequence[Record]) -> None:
        nonlocal written
        ended = time.time() - sum(record["seconds"] for record in records[written:])
        for record in records[written:]:
            ended += record["seconds"]  # epochs of a call before are dated as if they had run just now
            for name, value in record.items():
                if name != "epoch" and isinstance(value, int | float):
                    writer.add_scalar(f"training/{name}", value, record["epoch"], ended)
        with disk_errors(folder):
            writer.flush()
        written = len(records)

    with disk_errors(folder):
        writer = SummaryWriter(str(folder), purge_step=1)
    try:
        yield write
    finally:
        with disk_errors(folder):
            writer.close()


def _logged(training: Callable[..., list[Record]], run: RunFolder, images: int, console: Console,
            write: Write, check_lock: Callable[[], None]) -> list[Record]:  # fmt: skip
    title = f"training {run.recipe.members} members"
    total, done, note = run.recipe.schedule.epochs * images, run.epochs_done() * images, ""
    with progress_bar(console, title, total, done) as show:

        def on_epoch(records: list[Record]) -> None:
            nonlocal note
            run.save_log(records)
            write(records)
            note = f"epoch {records[-1]['epoch']}, loss {records[-1]['loss']:.4f}"
            show(records[-1]["epoch"] * images, note)

        def on_batch(seen: int) -> None:
            if seen % images:  # the last batch of an epoch is shown with its loss
                show(seen, note)
            else:
                check_lock()

        return training(checkpoint=run.checkpoint, on_epoch=on_epoch, on_batch=on_batch)
