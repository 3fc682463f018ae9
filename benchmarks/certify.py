"""How fast certification is on the machine at hand: writes docs/speed.md.

    python benchmarks/certify.py [--minutes 4] [--wall] [--models lenet,resnet20,resnet110]

For each network: the forward passes of the network in every form, ART, the usual loop, and this package.
All numbers come from one run, on the same inputs and members. The contenders take turns, and the shortest of
their times counts, so that a busy moment of the machine falls on nobody. Times are CPU time on one thread
unless --wall says otherwise; on CUDA they are always times of the clock.

    ART     adversarial-robustness-toolbox's PyTorchRandomizedSmoothing.certify, one member, float32, as torch
            lays it out, at the faster of two batch sizes (needs the extra `benchmark`)
    loop    one input at a time: draw, forward, argmax, count on the host; the same network as ART's
"""

import argparse
import copy
import importlib.metadata
import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import torch
from documents import table, write_or_check
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.ensembles.votes import Vote, default_votes
from shieldwall.models.members import to_device
from shieldwall.models.registry import build_members
from shieldwall.runs.environment import commit, device_name
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.stopping import FixedSampleSize

ROOT = Path(__file__).parents[1]
ART = "adversarial-robustness-toolbox"
SHAPES = {"lenet": (1, 28, 28), "resnet20": (3, 32, 32), "resnet110": (3, 32, 32)}
ROWS = {"lenet": 2_048, "resnet20": 256, "resnet110": 128}
"""Draws of one turn on a CPU, n0 = 64 of them; on CUDA 200 times as many."""
N0, MEMBERS, NOISE = 64, 3, sw.Gaussian(0.5)
LOOP_SIZES = (64, 256)


@dataclass(frozen=True)
class Contender:
    """What is timed, and how it runs its network."""

    name: str
    how: str
    """Precision, layout, compiler."""
    work: Callable[[], object]
    draws: int
    """Draws of one call, over all members."""


def with_statistics(
    members: Sequence[nn.Module], shape: Sequence[int], device: torch.device
) -> list[nn.Module]:
    """Members whose batch norms know their inputs, so that untrained ones stay finite in half precision."""
    placed = [to_device(member, device).train() for member in members]
    with torch.no_grad():
        for _ in range(30):
            noisy = torch.rand(64, *shape, device=device) + 0.5 * torch.randn(64, *shape, device=device)
            for member in placed:
                member(noisy)
    return [member.eval() for member in placed]


def forwards(modules: Sequence[Callable[[Tensor], object]], noisy: Tensor, draws: int) -> None:
    with torch.inference_mode():
        for _ in range(math.ceil(draws / len(noisy))):
            for module in modules:
                module(noisy)


def usual_loop(classifier: nn.Module, image: Tensor, draws: int, size: int) -> None:
    counts = np.zeros(10, dtype=int)
    with torch.inference_mode():
        while draws > 0:
            batch = image.repeat(min(size, draws), *(1 for _ in image.shape))
            noisy = batch + torch.randn_like(batch) * NOISE.sigma
            counts += np.bincount(classifier(noisy).argmax(1).cpu().numpy(), minlength=10)
            draws -= len(batch)


def art(member: nn.Module, image: Tensor, draws: int, size: int) -> None:
    from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

    smoothed = PyTorchRandomizedSmoothing(
        model=member, loss=nn.CrossEntropyLoss(), input_shape=tuple(image.shape), nb_classes=10,
        clip_values=None, sample_size=N0, scale=NOISE.sigma, alpha=0.001,
        device_type="gpu" if image.is_cuda else "cpu",
    )  # fmt: skip
    smoothed.certify(image[None].cpu().numpy(), n=draws - N0, batch_size=size)


def contenders(model: str, device: torch.device, draws: int) -> list[Contender]:
    torch.manual_seed(0)
    shape = SHAPES[model]
    members = with_statistics(build_members(model, MEMBERS, 10, shape, seed=0), shape, device)
    plain = copy.deepcopy(members[0]).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    image = torch.rand(shape)
    found = []

    def add(name: str, how: str, work: Callable[[], object], passes: int) -> None:
        found.append(Contender(name, how, work, passes))

    on_device = image.to(device)
    for size in LOOP_SIZES:
        how = f"float32, contiguous, not compiled, batches of {size}"
        if importlib.util.find_spec("art"):
            add("ART", how, lambda size=size: art(plain, image, draws, size), draws)
        add("usual loop", how, lambda size=size: usual_loop(plain, on_device, draws, size), draws)
    size = 256 if model == "lenet" else 64
    if device.type == "cuda":
        size = 4_096
    for precision in ("float32", "bfloat16"):
        dtype = getattr(torch, precision)
        noisy = torch.randn(size, *shape, device=device, dtype=dtype)
        own = copy.deepcopy(plain).to(dtype)
        add("network alone", f"{precision}, contiguous, not compiled, batches of {size}",
            lambda own=own, noisy=noisy: forwards([own], noisy, draws), draws)  # fmt: skip
        for compiled in (False, True):
            how = (
                f"{precision}, channels last, {'compiled' if compiled else 'not compiled'}, batches of {size}"
            )
            for count, votes in ((1, None), (MEMBERS, default_votes(MEMBERS))):
                sampler = made(members[:count], votes, draws, image, device, precision, compiled, size)
                labeler = sampler.labeler
                batch = noisy.contiguous(memory_format=labeler.memory_format(shape))
                which = "one member" if count == 1 else f"{count} members"
                add(f"prepared, {which}", how,
                    lambda labeler=labeler, batch=batch: forwards(labeler.compiled, batch, draws),
                    draws * count)  # fmt: skip
                add(f"certify, {which}", how,
                    lambda sampler=sampler: list(sampler.counts([(0, image)])), draws * count)  # fmt: skip
    return found


def made(
    members: Sequence[nn.Module], votes: Sequence[Vote] | None, draws: int, image: Tensor,
    device: torch.device, precision: str, compiled: bool, size: int,
) -> Sampler:  # fmt: skip
    return Sampler(
        members, votes, NOISE, N0, FixedSampleSize(draws - N0), seed=0, shape=image.shape, device=device,
        precision=precision, compile=compiled, prepare=True, example=image, batch_size=size,
    )  # fmt: skip


def shortest(rivals: Sequence[Contender], seconds: float, clock: Callable[[], float]) -> list[float]:
    """Microseconds per pass of each, the shortest over rounds in turns; the first does not count."""
    times: list[list[float]] = [[] for _ in rivals]
    end = time.perf_counter() + seconds
    while len(times[-1]) < 3 or time.perf_counter() < end:
        for k, rival in enumerate(rivals):
            started = clock()
            rival.work()
            times[k].append(clock() - started)
    return [1e6 * min(found[1:]) / rival.draws for found, rival in zip(times, rivals, strict=True)]


def section(model: str, rivals: Sequence[Contender], found: Sequence[float]) -> str:
    """The table of a network, and the ratios that matter."""
    rows = sorted(zip(rivals, found, strict=True), key=lambda pair: (pair[0].name, pair[1]))
    fastest = {(rival.name, rival.how): micros for rival, micros in rows}
    text = f"\n## {model}\n\n" + table(
        ["what", "how", "microseconds per image and member", "images/s"],
        [[rival.name, rival.how, f"{micros:.1f}", f"{1e6 / micros:,.0f}"] for rival, micros in rows],
    )

    def best(name: str, *words: str) -> float:
        ways = {how: micros for (own, how), micros in fastest.items() if own == name}
        return min((ways[how] for how in ways if all(word in how for word in words)), default=math.nan)

    ratios = []
    forms = [(p, c) for p in ("float32,", "bfloat16,") for c in (" not compiled,", "last, compiled,")]
    for which in ("one member", f"{MEMBERS} members"):
        shares = [best(f"prepared, {which}", *form) / best(f"certify, {which}", *form) for form in forms]
        ratios.append([f"certify, of the prepared network's speed, {which}", *(f"{s:.2f}" for s in shares)])
    for rival in ("ART", "usual loop"):
        gains = [best(rival) / best("certify, one member", *form) for form in forms]
        if not math.isnan(gains[0]):
            ratios.append(
                [f"certify, one member, times as fast as {rival}, float32", *(f"{g:.1f}" for g in gains)]
            )
    header = ["ratio", "float32", "float32, compiled", "bfloat16", "bfloat16, compiled"]
    text += f"\n{table(header, ratios)}"
    plain, alone = best("network alone", "float32,"), [best("prepared, one member", *form) for form in forms]
    factors = {
        "ART to the network alone": best("ART") / plain,
        "layout and merged batch norm": plain / alone[0],
        "compiling, in float32": alone[0] / alone[1],
        "bfloat16, not compiled": alone[0] / alone[2],
        "bfloat16, compiled": alone[1] / alone[3],
    }
    rows_of_factors = [[name, f"{factor:.2f}"] for name, factor in factors.items() if not math.isnan(factor)]
    return f"{text}\n{table(['factor', 'times as fast'], rows_of_factors)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", default="lenet,resnet20,resnet110")
    parser.add_argument("--minutes", type=float, default=4.0, help="of measuring, besides compiling")
    parser.add_argument("--wall", action="store_true", help="times of the clock, for a machine that is idle")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device, models = torch.device(options.device), options.models.split(",")
    on_cuda = device.type == "cuda"
    clock = time.perf_counter if options.wall or on_cuda else time.process_time
    if not on_cuda:
        torch.set_num_threads(1)
    has_art = importlib.util.find_spec("art") is not None
    version = f"ART {importlib.metadata.version(ART)}" if has_art else "ART not installed"
    threads = f"{torch.get_num_threads()} threads".replace("1 threads", "1 thread")
    head = f"{date.today()}, {device_name(device)}, torch {torch.__version__}, {version}"
    times = "time of the clock" if clock is time.perf_counter else "CPU time of the process"
    text = (
        "# Speed\n\n<!-- Written by `benchmarks/certify.py`. -->\n\n"
        f"{head}, commit {(commit() or 'unknown')[:7]}, {threads},\n"
        f"{times}; untrained members, n0 = {N0}. Each side's precision, layout, compiler and batch size are\n"
        "in its line. The shortest of several times in turns; on a shared machine, ratios within 10 % mean\n"
        "nothing.\n"
    )
    for model in models:
        rivals = contenders(model, device, ROWS[model] * (200 if on_cuda else 1))
        text += section(model, rivals, shortest(rivals, 60 * options.minutes / len(models), clock))
        print(text if model == models[0] else text[text.rindex("\n## ") :], flush=True)
    write_or_check({ROOT / "docs" / "speed.md": text}, check=False, command="")


if __name__ == "__main__":
    main()
