"""What a worker process does: steps as plain data, one to a line of its input, each answered by a line.

    {"kind": "certify", "folder": "runs/...", ...} -> {"error": null, "locked": false, "value": null}

It ends when its input does, so that it never outlives the process that started it.
"""

import json
import math
import os
import queue
import statistics
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from shieldwall.data.datasets import dataset_spec
from shieldwall.devices import resolve_device
from shieldwall.ensembles.votes import vote_set
from shieldwall.errors import LockedError, UserError
from shieldwall.models.members import to_device
from shieldwall.models.registry import build_members
from shieldwall.recipes import Certification, Recipe, from_mapping
from shieldwall.results.archive import pack
from shieldwall.runs.certify import certify_run
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.pretrained import resolve_run
from shieldwall.runs.train import train_run
from shieldwall.runs.trained import noise_of
from shieldwall.runs.tune_weights import tune_weights_run
from shieldwall.smoothing.plan import Plan
from shieldwall.smoothing.sampler import Sampler
from shieldwall.training.registry import build_objective
from shieldwall.training.step import WARM_UP, Arithmetic, Step, make_optimizer

_TRAINING_PIXELS, _NOISY_PIXELS = 200_000, 800_000
"""Of one batch that is timed, on a CPU."""


def perform(task: Mapping[str, Any], device: str | None) -> Any:
    """Do one step, or time one of its kind."""
    recipe, folder = from_mapping(task["recipe"]), Path(task["folder"])
    where: dict[str, Any] = {"data_dir": task["data_dir"] and Path(task["data_dir"]), "device": device}
    if task["kind"] == "time train":
        return _seconds_of_training(recipe, device)
    if task["kind"] == "time certify":
        return _seconds_of_certifying(recipe, device, task["compile"])
    if task["kind"] == "train":
        if (folder / "recipe.yaml").is_file():  # made by hand perhaps, and certified in another way
            recipe = RunFolder(folder).recipe
        elif (start := task["start"] or recipe.init_from) is not None:
            recipe = replace(recipe, init_from=str(resolve_run(start, to_write=True)))
        train_run(recipe, folder, **where)
    elif task["kind"] == "tune":
        for method in sorted(set(task["tune"]) - set(RunFolder(folder).tuned_weights())):
            name, _, radius = method.partition("-")
            goal: dict[str, Any] = {"objective": "certified", "radius": float(radius)} if radius else {}
            tune_weights_run(folder, name, **goal, **where)
    elif task["kind"] == "certify":
        settings = asdict(recipe.certification) | {"limit": recipe.certification.limit or sys.maxsize}
        certify_run(
            folder, to=task["to"], compile=task["compile"] or None, seed=recipe.seed, **settings, **where
        )
    elif task["kind"] == "pack":
        pack(folder, Path(task["archive"]))
    return None


def _seconds_of_training(recipe: Recipe, device: str | None) -> float:
    """Of one training image, through all members."""
    where, (shape, classes) = resolve_device(device), dataset_spec(recipe.data)
    on_cuda = where.type == "cuda"
    size = recipe.schedule.batch_size
    size = size if on_cuda else max(4, min(size, _TRAINING_PIXELS // math.prod(shape)))
    members = [
        to_device(member, where).train()
        for member in build_members(recipe.model, recipe.members, len(classes), shape, recipe.seed)
    ]
    generator = torch.Generator(where).manual_seed(0)
    images = torch.rand(size, *shape, generator=generator, device=where)
    with torch.no_grad():
        labels = members[0](images).argmax(-1)
    objective = build_objective(recipe.objective, noise_of(recipe)).at_epoch(recipe.schedule.epochs)
    schedule = recipe.schedule
    steps = []
    for group in [[member] for member in members] if recipe.independent else [members]:
        optimizer = make_optimizer(group, schedule.lr, schedule.momentum, schedule.weight_decay, where)
        arithmetic = Arithmetic(schedule.precision, schedule.clip)
        steps.append(Step(group, objective, optimizer, generator, arithmetic))

    def update() -> None:
        for step in steps:
            step(images, labels, 1e-6)
        if on_cuda:
            torch.cuda.synchronize()

    return _median_seconds(update, WARM_UP + 2 if on_cuda else 1) / size


def _seconds_of_certifying(recipe: Recipe, device: str | None, compile: bool) -> float:
    """Of one noise sample, through all members and votes."""
    where, (shape, classes) = resolve_device(device), dataset_spec(recipe.data)
    size = max(8, min(1_024, (50 if where.type == "cuda" else 1) * _NOISY_PIXELS // math.prod(shape)))
    members = [
        to_device(member, where).eval()
        for member in build_members(recipe.model, recipe.members, len(classes), shape, recipe.seed)
    ]
    which = Certification(n0=size, n=3 * size, alpha=0.5, precision=recipe.certification.precision)
    plan = Plan(noise_of(recipe), math.prod(shape), which)
    sampler = Sampler.of_plan(
        members,
        vote_set(None, recipe.members),
        plan,
        shape=shape,
        device=where,
        batch_size=size,
        compile=compile,
    )
    image = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return _median_seconds(lambda: [*sampler.counts([(0, image)])], 1) / (4 * size)


def _median_seconds(work: Any, warm_up: int, repeats: int = 3) -> float:
    for _ in range(warm_up):
        work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    """Answer each line of the input; the first argument is the worker's number, the second a device."""
    number, device = int(sys.argv[1]), sys.argv[2] or None
    if device is None and torch.cuda.is_available():
        device = f"cuda:{number % torch.cuda.device_count()}"
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = sys.stderr  # a library that prints must not answer
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            tasks.put(line)
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        answer: dict[str, Any] = {"error": None, "locked": False, "value": None}
        try:
            answer["value"] = perform(json.loads(tasks.get()), device)
        except UserError as error:
            answer |= {"error": " ".join(str(error).split()), "locked": isinstance(error, LockedError)}
        except Exception as error:  # a row that fails in any way must not stop the others
            answer["error"] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
