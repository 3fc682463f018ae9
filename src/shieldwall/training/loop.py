"""The training loop for every objective."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shieldwall import seeds
from shieldwall.data.splits import Dataset, Split
from shieldwall.devices import keep_freed_memory
from shieldwall.distributed import SINGLE, ProcessGroup, copy_buffers_from_first, copy_state_from_first
from shieldwall.errors import UserError, check, checked, describe
from shieldwall.models.classifier import Classifier, as_classifier, scores_of
from shieldwall.models.members import as_member_list, infer_device, inference, model_errors, to_device
from shieldwall.recipes.recipe import Schedule
from shieldwall.training import checkpoint as checkpoints
from shieldwall.training.checkpoint import Position
from shieldwall.training.objective import Loss, Objective
from shieldwall.training.step import Step, make_optimizer

Record = dict[str, Any]  #: one epoch of the log: loss, terms, the weakest member's accuracy, seconds, ...
Sums = dict[str, Tensor]  #: over this process's images of an epoch so far: "" is the loss, then the terms
ACCURACIES = " accuracies"  # the name of the members' own accuracies among the sums
ASK_EVERY = 50  # updates after which several processes agree whether to write a checkpoint
WEAKEST = "weakest"  # the name of the least accuracy of a member in the log
LEARNED, DEAD = 0.25, 0.05  #: above chance by so much it has learned something; by less, nothing is left


@checked
def train(
    members: Sequence[nn.Module], data: Split, objective: Objective, *,
    schedule: Schedule = Schedule(), seed: int = 0, independent: bool = False,  # noqa: B008  (frozen)
    device: torch.device | str | None = None, checkpoint: Path | str | None = None,
    checkpoint_minutes: float = 10.0, on_epoch: Callable[[list[Record]], None] | None = None,
    on_batch: Callable[[int], None] | None = None, world: ProcessGroup = SINGLE,
) -> list[Record]:  # fmt: skip
    """Train the members in place, and return one record per epoch.

    Args:
        objective: what to minimise, such as `sw.GaussianAugmentation(sw.Gaussian(0.25))`.
        seed: fixes the order of the images and all noise, epoch by epoch.
        independent: train each member on an order and noise of its own. By default all see the same batches,
            which methods that compare members (DRT, ADP, GAL) need.
        device: where to train; by default where the members are.
        checkpoint: a file written after every epoch, and within one every `checkpoint_minutes`. If it
            exists, training resumes from it and yields the losses of an uninterrupted run. Several processes
            resume in mid-epoch with rank 0's batch-norm statistics, which SmoothAdv's attack sees.
        on_epoch: called after each epoch with all records so far.
        on_batch: called after each batch with the number of images seen since the first epoch.
        world: the processes that train together, by default this one alone. All make this call with the
            same arguments; the first reads and writes the checkpoint and makes the calls back.
    """
    members = as_member_list(members)
    check_modules(members)
    _check_kinds(data, objective, schedule)
    check(checkpoint_minutes >= 0, "checkpoint_minutes must be at least 0", checkpoint_minutes)
    objective.check_members(len(members))
    if independent and not objective.is_separable:
        name = type(objective).__name__
        raise UserError(f"{name} compares members, so they cannot be trained independently; leave it out")
    where = infer_device(members, data.labels, device)
    if where.type == "cpu":
        keep_freed_memory()
    for member in members:
        to_device(member, where)
    members = _with_scores(members, data.images([0]).to(where), int(data.labels.max()))
    groups = [(member,) for member in members] if independent else [tuple(members)]
    optimizers = [make_optimizer(group, schedule, where) for group in groups]
    counts = f"members={len(members)}, independent={independent}, images={len(data)}"
    fingerprint = f"{objective}, {schedule}, seed={seed}, {counts}"
    path = Path(checkpoint) if checkpoint is not None and world.is_main else None
    records: list[Record] = []
    at = Position()
    if path is not None:
        fingerprint += f", data={data.digest()}"
        if path.exists():
            records, at = checkpoints.load(path, members, optimizers, fingerprint)
    records, at = world.broadcast((records, at))
    copy_state_from_first(world, members, optimizers)

    chance = float(data.labels.bincount().max()) / len(data)
    data = data.to(where)
    noises = [torch.Generator(device=where) for _ in groups]
    updates = -(-len(data) // schedule.batch_size)
    saved = time.monotonic()
    steps: list[Step] = []
    for epoch in range(len(records), schedule.epochs):
        current = objective.at_epoch(epoch)
        if not steps or current != steps[0].objective:
            of_groups = zip(groups, optimizers, noises, strict=True)
            steps = [Step(group, current, its, noise, schedule, world) for group, its, noise in of_groups]
        started = time.perf_counter() - at.seconds
        # Sums over all processes, which the first continues.
        tensor = partial(torch.tensor, dtype=torch.float64, device=where)
        sums = [{name: world.is_main * tensor(total) for name, total in s.items()} for s in at.sums]
        for k in range(at.group, len(groups)):
            own = (k,) if independent else ()
            noises[k].manual_seed(seeds.derive(seed, "training noise", *own, epoch))
            if at.noise:
                noises[k].set_state(torch.frombuffer(bytearray.fromhex(at.noise), dtype=torch.uint8))
            order = seeds.generator("cpu", seed, "order", *own, epoch)
            batches = data.batches(schedule.batch_size, order, where, at.update, world)
            if len(sums) == k:
                sums.append({})
            for member in groups[k]:
                member.train()
            for update, (x, y) in enumerate(batches, start=at.update):
                loss = steps[k](x, y, schedule.lr_at(epoch * updates + update, updates), update)
                sums[k] = _added(sums[k], loss, world.share(len(x)).num_rows)
                if _is_due(world, update, math.inf if path is None else saved + 60 * checkpoint_minutes):
                    noise = bytes(noises[k].get_state().tolist()).hex()
                    totals = [{name: world.sum(v.clone()).tolist() for name, v in s.items()} for s in sums]
                    at = Position(k, update + 1, noise, totals, time.perf_counter() - started)
                    if path is not None:
                        checkpoints.save(path, members, optimizers, records, fingerprint, at)
                    saved = time.monotonic()
                if world.is_main and on_batch is not None:
                    seen = min((update + 1) * schedule.batch_size, len(data))
                    on_batch(epoch * len(data) + (k * len(data) + seen) // len(groups))
            at = Position()
        lr = schedule.lr_at((epoch + 1) * updates - 1, updates)
        means = {"lr": lr, **_means(sums, len(data), world)}
        _check_finite(epoch, means)
        records.append({"epoch": epoch + 1, **means, "seconds": time.perf_counter() - started})
        check_alive(records, chance)
        # All processes continue with what a checkpoint holds, or a resumed training would differ.
        copy_buffers_from_first(world, members)
        if path is not None:
            checkpoints.save(path, members, optimizers, records, fingerprint)
        saved = time.monotonic()
        if world.is_main and on_epoch is not None:
            on_epoch(records)
    for member in members:
        member.eval()
    return records


def _is_due(world: ProcessGroup, update: int, when: float) -> bool:
    """Whether to write a checkpoint, as the first process says."""
    may_ask = world.size == 1 or not (update + 1) % ASK_EVERY
    return may_ask and world.broadcast(time.monotonic() >= when)


def _with_scores(members: Sequence[nn.Module], image: Tensor, largest: int) -> list[nn.Module]:
    """The members as modules that return scores: those that return more in a `Classifier`, weights shared.

    Labels beyond the first one's classes are refused: a GPU would not say what is wrong.
    """
    with model_errors(image.shape[1:]), inference(members):
        outputs = [as_classifier(member, image)(image) for member in members]
        classes = scores_of(outputs[0]).shape[-1]
    if largest >= classes:
        only = f"the members have only {classes} classes (0 to {classes - 1})"
        raise UserError(f"labels go up to {largest}, but {only}")
    pairs = zip(members, outputs, strict=True)
    return [member if isinstance(out, Tensor) else Classifier(member) for member, out in pairs]


def _added(sums: Sums, loss: Loss, rows: int) -> Sums:
    values = {"": loss.total, **loss.terms, ACCURACIES: loss.accuracies}
    return {name: sums.get(name, 0) + value.double() * rows for name, value in values.items()}


def _means(sums: Sequence[Sums], images: int, world: ProcessGroup) -> Record:
    """One record from the sums of all groups of members: losses add up, terms are averaged."""
    names = [name for name in sums[0] if name not in ("", ACCURACIES)]
    rows = [torch.cat([torch.stack([s[""], *(s[n] for n in names)]), s[ACCURACIES]]) for s in sums]
    # Summed over processes before anything is looked at, so that all stop at a broken epoch, or none.
    totals = world.sum(torch.stack(rows)) / images
    terms = totals[:, 1 : 1 + len(names)].mean(0).tolist()
    weakest = float(totals[:, 1 + len(names) :].min())
    return {"loss": float(totals[:, 0].sum()), **dict(zip(names, terms, strict=True)), WEAKEST: weakest}


def _check_finite(epoch: int, means: dict[str, float]) -> None:
    """Stop before a broken epoch is saved."""
    if broken := [name for name, value in means.items() if not math.isfinite(value)]:
        what = f"training diverged in epoch {epoch + 1}: {', '.join(broken)} is not finite"
        advice = "lower the learning rate (--set schedule.lr=...) and start a new run"
        raise UserError(f"{what}; the state after epoch {epoch} is kept; {advice}")


def check_alive(records: Sequence[Record], chance: float) -> None:
    """Stop when a member collapses: it had learned something, and now predicts one class for every image.

    `chance` is the best accuracy of a single class. The ensemble's accuracy does not show a collapse.
    """
    weakest = [record[WEAKEST] for record in records if WEAKEST in record]
    if weakest and max(weakest) > chance + LEARNED and weakest[-1] < chance + DEAD:
        raise UserError(
            f"a member collapsed in epoch {records[-1]['epoch']}: its accuracy under noise fell from "
            f"{100 * max(weakest):.1f}% to {100 * weakest[-1]:.1f}%; the last checkpoint is kept; start a "
            "new run with a lower learning rate (--set schedule.lr=...), clipped gradients (--set "
            "schedule.clip=1) or, for DRT, a longer warm-up (--set objective.warmup=10)"
        )


def check_modules(members: Sequence[object]) -> None:
    for k, member in enumerate(members, start=1):
        if not isinstance(member, nn.Module):
            raise UserError(f"training takes torch modules; member {k} is: {describe(member)}")
        if (first := 1 + [id(other) for other in members].index(id(member))) < k:
            advice = "make one for each, or copy.deepcopy it"
            raise UserError(f"members {first} and {k} are the same module; {advice}")


def _check_kinds(data: object, objective: object, schedule: object) -> None:
    if not isinstance(data, Split):
        hint = "its .train" if isinstance(data, Dataset) else "sw.Split.from_tensors(images, labels)"
        raise UserError(f"data must be a split to train on; given: {describe(data)}; pass {hint}")
    if int(data.labels.min()) < 0:
        raise UserError("the images have no labels; give labels, or put them into a folder for each class")
    rule = "objective must be a training method, such as sw.GaussianAugmentation(sw.Gaussian(0.25))"
    check(isinstance(objective, Objective), rule, describe(objective))
    rule = "schedule must be a Schedule, such as sw.Schedule(epochs=10)"
    check(isinstance(schedule, Schedule), rule, describe(schedule))
