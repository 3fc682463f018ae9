"""What a step does, wherever it runs: train, tune weights, certify, pack, or time one of its kind."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import torch

from shieldwall.data.datasets import dataset_spec
from shieldwall.data.splits import TensorSplit
from shieldwall.devices import device_of, resolve_device
from shieldwall.ensembles.votes import vote_set
from shieldwall.models.members import to_device
from shieldwall.models.registry import build_members, check_trusted
from shieldwall.recipes import Recipe
from shieldwall.results.archive import pack
from shieldwall.runs.certify import certify_run
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.pretrained import resolve_sources
from shieldwall.runs.train import train_run
from shieldwall.runs.trained import noise_of
from shieldwall.runs.tune_weights import tune_weights_run
from shieldwall.runs.workers import LOCAL
from shieldwall.smoothing.certificates import Plan
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.trial import seconds_per_draw
from shieldwall.training.loop import train
from shieldwall.training.registry import build_objective

_TRAINING_PIXELS = 50_000  # of one batch that is timed, on a CPU


def perform(task: Mapping[str, Any], worker: int, places: object = None) -> Any:
    device, recipe, folder = device_of(worker, task["device"]), task["recipe"], task["folder"]
    check_trusted(recipe.model)
    where: dict[str, Any] = {"data_dir": task["data_dir"], "device": device}
    if task["kind"] == "time train":
        return _seconds_of_training(recipe, device)
    if task["kind"] == "time certify":
        return _seconds_of_certifying(recipe, device, task["compile"])
    if task["kind"] == "train":
        if (folder / "recipe.yaml").is_file():  # made by hand perhaps, and certified in another way
            recipe = RunFolder(folder).recipe
        elif task["start"] is not None:
            sources = resolve_sources(task["start"], to_write=True)
            recipe = replace(recipe, init_from=",".join(map(str, sources)))
        train_run(recipe, folder, **where)
    elif task["kind"] == "tune":
        for method in sorted(set(task["tune"]) - set(RunFolder(folder).tuned_weights())):
            name, _, radius = method.partition("-")
            goal: dict[str, Any] = {"objective": "certified", "radius": float(radius)} if radius else {}
            tune_weights_run(folder, name, **goal, **where)
    elif task["kind"] == "certify":
        settings = asdict(recipe.certification) | {"limit": recipe.certification.limit or sys.maxsize}
        certify_run(
            folder, to=task["to"], compile=task["compile"] or None, seed=recipe.seed,
            on=task.get("on", LOCAL), jobs=task.get("jobs", 1), **settings, **where,
        )  # fmt: skip
    elif task["kind"] == "pack":
        pack(folder, task["archive"])
    return None


def _seconds_of_training(recipe: Recipe, device: str | None) -> float:
    """Of one training image, through all members, once warm-ups are over."""
    where, (shape, classes) = resolve_device(device), dataset_spec(recipe.data)
    size = recipe.schedule.batch_size
    size = size if where.type == "cuda" else max(4, min(size, _TRAINING_PIXELS // math.prod(shape)))
    images = TensorSplit(torch.rand(size, *shape), torch.zeros(size, dtype=torch.int64))
    objective = build_objective(recipe.objective, noise_of(recipe)).at_epoch(recipe.schedule.epochs)
    clock, marks = _clock(where), list[float]()
    train(
        build_members(recipe.model, recipe.members, len(classes), shape, recipe.seed), images, objective,
        schedule=replace(recipe.schedule, epochs=3, batch_size=size, lr=1e-6), independent=recipe.independent,
        device=where, on_epoch=lambda records: marks.append(clock()),
    )  # fmt: skip
    return min(after - before for before, after in pairwise(marks)) / len(images)


def _seconds_of_certifying(recipe: Recipe, device: str | None, compile: bool) -> float:
    """Of one noise sample, through all members and votes; drawing its noise is not in it."""
    where, (shape, classes) = resolve_device(device), dataset_spec(recipe.data)
    members = build_members(recipe.model, recipe.members, len(classes), shape, recipe.seed)
    plan = Plan(noise_of(recipe), math.prod(shape), recipe.certification)
    sampler = Sampler(
        [to_device(member, where).eval() for member in members], vote_set(None, recipe.members).counted,
        plan.noise, recipe.certification.n0, plan.stopping, seed=0, shape=shape, device=where,
        precision=recipe.certification.precision, compile=compile,
    )  # fmt: skip
    return seconds_per_draw(sampler, sampler.batch_size, _clock(where))


def _clock(device: torch.device) -> Callable[[], float]:
    """Of a core the time that is ours, whatever else runs on the machine."""
    return time.process_time if device.type == "cpu" else time.perf_counter
