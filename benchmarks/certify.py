"""How fast certification is: against its limit, against ART, and against the plain loop of the field.

    python benchmarks/certify.py [--model lenet] [--inputs 4] [--n 10000] [--precision float32] [--compile]

All numbers come from one run, on the same inputs, members and numbers of draws. The contenders take turns,
and the shortest of their times counts, so that a busy moment of the machine falls on nobody:

    limit    as many forwards of the prepared members over ready-made noisy batches, and nothing else
    ART      adversarial-robustness-toolbox's PyTorchRandomizedSmoothing.certify, one member, float32, at the
             fastest of a few batch sizes (needs: pip install adversarial-robustness-toolbox statsmodels)
    loop     one input and one classifier at a time: draw, forward, argmax, count on the host; float32, at
             the fastest of a few batch sizes, for each of the five rows member-1, member-2, member-3, WE, MME

ART and the loop run the members as torch lays them out, not channels last.
"""

import argparse
import copy
import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.ensembles.votes import default_votes
from shieldwall.models.members import to_device
from shieldwall.models.registry import build_members
from shieldwall.runs.environment import commit, device_name
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.stopping import FixedSampleSize

SHAPES = {"digits-cnn": (1, 8, 8), "lenet": (1, 28, 28), "resnet20": (3, 32, 32), "resnet110": (3, 32, 32)}
N0, MEMBERS = 100, 3
NOISE = sw.Gaussian(0.5)
SIZES = {"cpu": (100, 250, 500, 1_000), "cuda": (1_000, 10_000)}


def shortest(
    contenders: dict[str, Callable[[], object]], rounds: int, device: torch.device
) -> dict[str, float]:
    """The shortest time of each in seconds, over rounds in which all take turns; the first does not count."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(1 + rounds):
        for name, work in contenders.items():
            started = time.perf_counter()
            work()
            if device.type == "cuda":
                torch.cuda.synchronize()
            found[name].append(time.perf_counter() - started)
    return {name: min(times[1:]) for name, times in found.items()}


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


def ours(sampler: Sampler, x: Tensor) -> None:
    for _ in sampler.counts(enumerate(x)):
        pass


def limit(sampler: Sampler, draws: int) -> None:
    """The forwards of the engine's batches and no more."""
    layout = sampler.labeler.memory_format(sampler.shape)
    noisy = torch.randn(sampler.batch_size, *sampler.shape, device=sampler.device)
    noisy = noisy.to(sampler.labeler.dtype).contiguous(memory_format=layout)
    with torch.inference_mode():
        for _ in range(math.ceil(draws / sampler.batch_size)):
            for member in sampler.labeler.compiled:
                member(noisy)


def plain_loop(classifier: nn.Module, x: Tensor, n: int, size: int, device: torch.device) -> None:
    with torch.inference_mode():
        for image in x:
            image = image.to(device)
            for draws in (N0, n):
                counts = np.zeros(10, dtype=int)
                while draws > 0:
                    batch = image.repeat(min(size, draws), *(1 for _ in image.shape))
                    noisy = batch + torch.randn_like(batch) * NOISE.sigma
                    labels = classifier(noisy).argmax(1).cpu().numpy()
                    counts += np.bincount(labels, minlength=10)
                    draws -= len(batch)


def all_rows(classifiers: Sequence[nn.Module], x: Tensor, n: int, size: int, device: torch.device) -> None:
    for classifier in classifiers:
        plain_loop(classifier, x, n, size, device)


def art(member: nn.Module, x: Tensor, n: int, size: int, device: torch.device) -> None:
    from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

    smoothed = PyTorchRandomizedSmoothing(
        model=member, loss=nn.CrossEntropyLoss(), input_shape=tuple(x.shape[1:]), nb_classes=10,
        clip_values=None, sample_size=N0, scale=NOISE.sigma, alpha=0.001,
        device_type="gpu" if device.type == "cuda" else "cpu",
    )  # fmt: skip
    smoothed.certify(x.numpy(), n=n, batch_size=size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="lenet", choices=SHAPES)
    parser.add_argument("--inputs", type=int, default=4)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only-limit", action="store_true", help="leave out ART and the loop")
    options = parser.parse_args()
    device, shape, n = torch.device(options.device), SHAPES[options.model], options.n
    torch.manual_seed(0)
    members = with_statistics(build_members(options.model, MEMBERS, 10, shape, seed=0), shape, device)
    x = torch.rand(options.inputs, *shape)
    draws = options.inputs * (N0 + n)

    def sampler(some: Sequence[nn.Module], votes: bool) -> Sampler:
        return Sampler(
            some, default_votes(len(some)) if votes else None, NOISE, N0, FixedSampleSize(n),
            seed=0, shape=shape, device=device, precision=options.precision, compile=options.compile,
            prepare=True, example=x[0],
        )  # fmt: skip

    ensemble, single = sampler(members, True), sampler(members[:1], False)
    contenders: dict[str, Callable[[], object]] = {
        "five votes": lambda: ours(ensemble, x),
        "limit, N = 3": lambda: limit(ensemble, draws),
        "one member": lambda: ours(single, x),
        "limit, N = 1": lambda: limit(single, draws),
    }
    if not options.only_limit:
        plain = [copy.deepcopy(one).to(memory_format=torch.contiguous_format) for one in members]  # type: ignore[call-overload]
        five = [*plain, sw.WeightedEnsemble(plain), sw.MaxMarginEnsemble(plain)]
        for size in SIZES[device.type]:
            contenders[f"the loop, batches of {size}"] = partial(all_rows, five, x, n, size, device)
            if importlib.util.find_spec("art"):
                contenders[f"ART, batches of {size}"] = partial(art, plain[0], x, n, size, device)
    print(
        f"{device_name(device)}, torch {torch.__version__}, commit {commit() or 'unknown'}, "
        f"{torch.get_num_threads()} threads\n{options.model}, {options.inputs} inputs, n = {n:,}, "
        f"{options.precision}{', compiled' if options.compile else ''}, batches of {ensemble.batch_size}\n"
    )
    found = shortest(contenders, options.rounds, device)
    print("| against | theirs, ms per input | ours, ms per input | ratio |")
    print("| --- | ---: | ---: | --- |", flush=True)

    def row(theirs: str, mine: str, what: str) -> None:
        times = " | ".join(f"{1_000 * found[name] / options.inputs:.1f}" for name in (theirs, mine))
        print(f"| {theirs} | {times} | {found[theirs] / found[mine]:.2f} {what} |")

    row("limit, N = 3", "five votes", "of the limit")
    row("limit, N = 1", "one member", "of the limit")
    for kind, mine in (("ART", "one member"), ("the loop", "five votes")):
        if names := [name for name in found if name.startswith(kind)]:
            row(min(names, key=found.__getitem__), mine, "times as fast")


if __name__ == "__main__":
    main()
