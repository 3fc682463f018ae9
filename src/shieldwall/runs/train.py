"""recipe -> members: train into a run folder, or resume an interrupted training."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from shieldwall.console import progress_bar
from shieldwall.data import datasets
from shieldwall.devices import resolve_device
from shieldwall.distributed import ProcessGroup
from shieldwall.errors import UserError
from shieldwall.models.registry import build_members, factory
from shieldwall.recipes import Recipe
from shieldwall.runs import environment, event_files
from shieldwall.runs.event_files import Write
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import QUIET, noise_of, training_part
from shieldwall.training.drt import DRT
from shieldwall.training.loop import Record, train
from shieldwall.training.registry import build_objective

FROM_SCRATCH = "note: starting from random weights; DRT usually fine-tunes trained members: --from RUN"


def train_run(
    recipe: Recipe,
    path: Path | str,
    *,
    data_dir: Path | None = None,
    device: str | None = None,
    tensorboard: bool = False,
    console: Console = QUIET,
) -> RunFolder:
    """Train the recipe's members into the run folder `path`, with TensorBoard event files if asked for.

    Processes started by torchrun train together; rank 0 writes the run folder.
    """
    if tensorboard:
        event_files.check_installed()
    world = ProcessGroup.from_environment()
    where = resolve_device(world.device_name(device))
    objective = build_objective(recipe.objective, noise_of(recipe))
    objective.check_members(recipe.members)
    factory(recipe.model)
    start = None if recipe.init_from is None else starting_run(recipe)
    dataset = datasets.load(recipe.data, data_dir)
    images = training_part(recipe, dataset)
    members = build_members(recipe.model, recipe.members, len(dataset.classes), dataset.shape, recipe.seed)
    if start is not None:
        start.load_members(members)
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
        with run.lock():
            if world.broadcast(run.is_trained()):
                console.print(f"{run.path} is trained already", highlight=False, markup=False, soft_wrap=True)
                if tensorboard:
                    event_files.write_from_log(run)
                return run
            if start is not None:
                run.note_start(start)
            elif isinstance(objective, DRT):
                console.print(FROM_SCRATCH, highlight=False, soft_wrap=True)
            run.note_environment("train", {**environment.describe(where), "processes": world.size})
            write = event_files.writer(run) if tensorboard else _nothing
            records = _logged(training, run, len(images), console, write)
            run.save_log(records)  # a kill between the last checkpoint and its log left it a line short
            write(records)
            run.save_members(members)
            run.checkpoint.unlink(missing_ok=True)
    return run


def _nothing(records: Sequence[Record]) -> None:
    """Write no event file."""


def _logged(
    training: Callable[..., list[Record]], run: RunFolder, images: int, console: Console, write: Write
) -> list[Record]:
    """Train with a checkpoint and a log in the run folder, and progress on the console."""
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

        return training(checkpoint=run.checkpoint, on_epoch=on_epoch, on_batch=on_batch)


def starting_run(recipe: Recipe) -> RunFolder:
    """The trained run that the recipe starts from, which must have the same members."""
    assert recipe.init_from is not None
    run = RunFolder(recipe.init_from)
    for key in ("model", "members", "data"):
        theirs, ours = getattr(run.recipe, key), getattr(recipe, key)
        if theirs != ours:
            raise UserError(f"cannot start from {run.path}: its {key} is {theirs!r}, the recipe's {ours!r}")
    run.check_trained()
    return run
