"""DRT's loss has two readings: the paper's formula, and its only public port. Which has the paper's effect?

    python benchmarks/drt_readings.py [--sigma 1.0] [--rho 5,0.5] [--epochs 8] [--lr 0.01] [--data-dir data]

Three LeNets are trained on MNIST with noise (mnist-short-gaussian, every 20th image held out), then
further, from these same members, by either reading. The table is certified accuracy of the weighted vote, on
held-out training images or, with --test, on test images. Below it stands the share of each class at the
largest radius: a member that answers one class for everything adds about that class's share there, so no
class may carry the row.

Runs are kept in --out and resumed. On two cores: 25 minutes of training for 20 epochs of the members, 15 for
each reading, some minutes for each row of 300 images at n = 10,000.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

import shieldwall as sw
from shieldwall import recipes

READINGS = {
    "DRT as printed": ("norm=plain", "average=batch", "cm_over=pairs", "points=noisy"),
    "DRT": (),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sigma", type=float, default=1.0)
    parser.add_argument("--rho", default="5,0.5", help="rho_1,rho_2")
    parser.add_argument("--base-epochs", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--test", action="store_true", help="judge on test images")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/drt-readings"))
    options = parser.parse_args()
    data = sw.load_data("mnist", options.data_dir)
    if options.test:
        split, rows = data.test, range(0, len(data.test), len(data.test) // options.images)
    else:
        split, rows = data.train, range(0, len(data.train), 20)[:: 3_000 // options.images]
    images, labels = split.images(list(rows)), split.labels[list(rows)].numpy()
    radii = np.arange(0, 2.6, 0.5) * options.sigma
    print(f"| WE, {'test' if options.test else 'held-out'} images |" + "".join(f" {r:g} |" for r in radii))
    print("| :-- |" + " --: |" * len(radii))
    by_class = []
    for name, members in ensembles(options):
        votes = sw.certify_members(
            members, images, noise=sw.Gaussian(options.sigma), n=options.n, votes=["we"],
            precision="bfloat16", compile=True,
        )  # fmt: skip
        certified = np.where(np.asarray(votes["we"].labels) == labels, np.asarray(votes["we"].radii), -1.0)
        cells = [f" {100 * (certified >= r).mean():.1f} |" for r in radii]
        print(f"| {name} |" + "".join(cells), flush=True)
        shares = [100 * (certified[labels == k] >= radii[-1]).mean() for k in range(10)]
        by_class.append(f"{name}, class by class at {radii[-1]:g}: " + " ".join(f"{s:.0f}" for s in shares))
    print("\n" + "\n".join(by_class))


def ensembles(options: argparse.Namespace) -> Sequence[tuple[str, list[nn.Module]]]:
    """The members, and what each reading of DRT makes of them."""
    rho_gd, rho_cm = options.rho.split(",")
    base = train(
        f"mnist-short-gaussian-{options.sigma}", options, "members",
        [f"schedule.epochs={options.base_epochs}"],
    )  # fmt: skip
    rows = [("members", base)]
    for name, reading in READINGS.items():
        settings = [
            f"objective.rho_gd={rho_gd}", f"objective.rho_cm={rho_cm}",
            f"schedule.epochs={options.epochs}", f"schedule.lr={options.lr}",
            f"init_from={options.out / 'members'}",
            *(f"objective.{key}" for key in reading),
        ]  # fmt: skip
        folder = name.lower().replace(" ", "-")
        rows.append((name, train(f"mnist-short-drt-{options.sigma}", options, folder, settings)))
    return rows


def train(recipe: str, options: argparse.Namespace, folder: str, settings: list[str]) -> list[nn.Module]:
    from shieldwall.runs.train import train_run

    chosen = recipes.override(recipes.get(recipe), ["holdout_every=20", *settings])
    train_run(chosen, options.out / folder, data_dir=options.data_dir)
    ensemble = sw.load(options.out / folder)
    return list(ensemble.members)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
