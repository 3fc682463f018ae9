"""What a training step of each row costs: results/mnist/step-seconds.json, for benchmarks/mnist_page.py.

    python benchmarks/mnist_steps.py [--out results/mnist/step-seconds.json] [--images 256]

Three LeNets and the recipes' own objectives at sigma 0.5, mini-batches of 256 images with two noisy copies
each, timed as in train_step.py.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

import torch
from mnist_files import ROWS
from train_step import measure

from shieldwall import recipes
from shieldwall.runs.environment import commit, device_name
from shieldwall.runs.trained import noise_of
from shieldwall.training.registry import build_objective


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/mnist/step-seconds.json"))
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    milliseconds = {}
    for row in ROWS:
        recipe = recipes.get(f"mnist-{row}-0.5")
        objective = build_objective(recipe.objective, noise_of(recipe))
        clip = recipe.schedule.clip
        time, _ = measure(recipe.model, recipe.members, objective, options.images, device, clip)
        milliseconds[row] = round(time, 2)
        print(f"{row}: {time:.2f} ms", flush=True)
    made = {"device": device_name(device), "date": datetime.now(UTC).date().isoformat(), "commit": commit()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({**made, "milliseconds": milliseconds}, indent=2) + "\n")


if __name__ == "__main__":
    main()
