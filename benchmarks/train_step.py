"""What DRT costs: the time and memory of one training step, as ratios from one run.

    python benchmarks/train_step.py [--models lenet,resnet110] [--members 2,3,5,10] [--images 256]

For each model and number of members N: the plain ensemble step (Gaussian augmentation), the DRT step,
and the textbook DRT step, which differentiates every pair's norm with create_graph; DRT's loss is the one
that the paper prints. Each image has two noisy copies. All three run through the training loop's own `Step`:
on CUDA in bfloat16 and, once recorded, as a graph; on CPU in float32.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

import shieldwall as sw
from shieldwall.models.members import to_device
from shieldwall.models.registry import build_members
from shieldwall.runs.environment import commit, device_name
from shieldwall.training.drt import DRT, true_margin
from shieldwall.training.objective import Loss, NoisyBatch, Objective
from shieldwall.training.step import WARM_UP, Step, make_optimizer

SHAPES = {"digits-cnn": (1, 8, 8), "lenet": (1, 28, 28), "resnet20": (3, 32, 32), "resnet110": (3, 32, 32)}


@dataclass(frozen=True)
class Textbook(Objective):
    """DRT as printed: a norm per pair, differentiated by autograd."""

    noise: sw.Gaussian
    rho_gd: float
    rho_cm: float
    num_noise: int = 2

    def __call__(self, members: Sequence[nn.Module], batch: NoisyBatch) -> Loss:
        points = batch.noisy.requires_grad_()
        logits = [member(points) for member in members]
        total = torch.stack([F.cross_entropy(one, batch.labels) for one in logits]).sum()
        margins = [true_margin(one, batch.labels) for one in logits]
        correct = [one.argmax(-1) == batch.labels for one in logits]
        gradients = [torch.autograd.grad(m.sum(), points, create_graph=True)[0] for m in margins]
        for i, j in itertools.combinations(range(len(members)), 2):
            valid = (correct[i] & correct[j]).float()
            norm = (gradients[i] + gradients[j]).flatten(1).norm(dim=1)
            total = total + self.rho_gd * (valid * norm).mean()
            total = total - self.rho_cm * (valid * (margins[i] + margins[j])).mean()
        return Loss(total, {}, batch.accuracies(logits))


def measure(
    model: str, count: int, objective: Objective, images: int, device: torch.device, clip: float | None = None
) -> tuple[float, float]:
    """Median milliseconds of a step, and the peak memory in MiB (0 on CPU)."""
    members = [to_device(one, device).train() for one in build_members(model, count, 10, SHAPES[model], 0)]
    cuda = device.type == "cuda"
    precision = "bfloat16" if cuda else "float32"
    schedule = sw.Schedule(lr=1e-3, weight_decay=0.0, precision=precision, clip=clip)
    optimizer = make_optimizer(members, schedule, device)
    generator = torch.Generator(device).manual_seed(0)
    x = torch.rand(images, *SHAPES[model], generator=generator, device=device)
    with torch.no_grad():
        y = members[0](x).argmax(-1)
    step = Step(members, objective, optimizer, generator, schedule)
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    for _ in range(WARM_UP + 2 if cuda else 1):
        step(x, y, 1e-3)
    times = []
    for _ in range(5):
        repeats = 10 if cuda and model != "resnet110" else 2 if cuda else 1
        if cuda:
            torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(repeats):
            step(x, y, 1e-3)
        if cuda:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - started) / repeats * 1e3)
    return statistics.median(times), torch.cuda.max_memory_allocated() / 2**20 if cuda else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="lenet,resnet110")
    parser.add_argument("--members", default="2,3,5,10")
    parser.add_argument("--images", type=int, default=256, help="per batch, each with two noisy copies")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    noise = sw.Gaussian(0.5)
    objectives: dict[str, Objective] = {
        "plain": sw.GaussianAugmentation(noise),
        "drt": DRT.as_printed(sw.GaussianAugmentation(noise), 5.0, 5.0),
        "textbook": Textbook(noise, 5.0, 5.0),
    }
    what = f"{options.images} images x 2 copies"
    print(f"{device_name(device)}, torch {torch.__version__}, commit {commit()}, {what}\n")
    columns = "model, N, plain ms, DRT ms, textbook ms, DRT / plain, textbook / plain, DRT MiB, textbook MiB"
    print(f"| {columns.replace(',', ' |')} |")
    print("| :-- | --: | --: | --: | --: | --: | --: | --: | --: |")
    for model in options.models.split(","):
        for count in map(int, options.members.split(",")):
            found = {
                name: measure(model, count, one, options.images, device) for name, one in objectives.items()
            }
            (plain, _), (drt, memory), (textbook, reference) = found.values()
            print(
                f"| {model} | {count} | {plain:.2f} | {drt:.2f} | {textbook:.2f} | {drt / plain:.2f} | "
                f"{textbook / plain:.2f} | {memory:.0f} | {reference:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
