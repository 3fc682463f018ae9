"""DRT's numbers on MNIST, chosen on held-out training images and never on test images.

    python benchmarks/drt_search.py RUN --epochs 15 --try "5,0.5,0.01" --try "5,5,0.01,warmup=5,clip=1"

RUN is a trained run with held-out images, such as those of `shieldwall study run tab:mnisttable`. Each try
is rho_gd, rho_cm and the learning rate, then keys of the recipe: those of OF_OBJECTIVE are the objective's,
all others the schedule's, which is shortened to the given epochs, the rate dropping after two thirds. One
line for each try, after one for RUN itself: certified accuracy of WE on held-out images by radius, ACR, the
weakest member's accuracy under noise, the seconds of training.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch

import shieldwall as sw
from shieldwall import recipes
from shieldwall.data import datasets
from shieldwall.devices import resolve_device
from shieldwall.recipes import Recipe
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import held_out_part, load_members, noise_of, training_part
from shieldwall.training.registry import build_objective

OF_OBJECTIVE = ("warmup", "norm", "average", "cm_over", "points", "design", "base.steps")


def recipe_of(run: RunFolder, text: str, epochs: int, method: str) -> Recipe:
    rho_gd, rho_cm, lr, *others = text.split(",")
    assignments = [
        f"objective.rho_gd={rho_gd}", f"objective.rho_cm={rho_cm}", f"schedule.lr={lr}",
        f"schedule.epochs={epochs}", f"schedule.decay_every={-(-2 * epochs // 3)}",
        *(f"{'objective' if one.split('=')[0] in OF_OBJECTIVE else 'schedule'}.{one}" for one in others),
    ]  # fmt: skip
    recipe = recipes.override(recipes.get(f"mnist-{method}-{run.recipe.sigma}"), assignments)
    return replace(recipe, holdout_every=run.recipe.holdout_every, seed=run.recipe.seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--try", dest="tries", action="append", default=[])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--method", default="drt", help="drt, drt-smoothadv, ...")
    parser.add_argument("--images", type=int, default=1_000)
    parser.add_argument("--n", type=int, default=2_000)
    parser.add_argument("--out", type=Path, help="a file to add one JSON line for each try to")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device")
    options = parser.parse_args()
    device = resolve_device(options.device)
    run = RunFolder(options.run)
    dataset = datasets.load("mnist", options.data_dir)
    images = training_part(run.recipe, dataset).to(device)
    held_out = held_out_part(run.recipe, dataset).subset(range(options.images))
    radii = [run.recipe.sigma * k / 2 for k in range(6)]
    print("try | " + " ".join(f"r={r:g}" for r in radii) + " | ACR | weakest | seconds", flush=True)
    for text in ["none", *options.tries]:
        members = load_members(run, dataset, device)
        records, started = [], time.perf_counter()
        try:
            if text != "none":
                recipe = recipe_of(run, text, options.epochs, options.method)
                objective = build_objective(recipe.objective, noise_of(recipe))
                records = sw.train(members, images, objective, schedule=recipe.schedule, device=device)
        except sw.UserError as error:
            print(f"{text} | {error}", flush=True)
            continue
        seconds = time.perf_counter() - started
        found = sw.certify_members(
            members, held_out.images(range(len(held_out))).to(device), noise=noise_of(run.recipe),
            n=options.n, precision="float16" if device.type == "cuda" else "float32",
        )["we"]  # fmt: skip
        correct = found.labels == held_out.labels.cpu().numpy()
        reached = found.radii
        accuracy = [100 * float((correct & (reached >= r)).mean()) for r in radii]
        acr = float((reached * correct).mean())
        last = records[-1] if records else {}
        shown = " ".join(f"{one:5.1f}" for one in accuracy)
        print(f"{text} | {shown} | {acr:.3f} | {last.get('weakest', 0):.3f} | {seconds:.0f}", flush=True)
        if options.out is not None:
            line = {"run": run.path.name, "try": text, "epochs": options.epochs, "radii": radii,
                    "accuracy": accuracy, "acr": acr, "last": last, "device": str(device)}  # fmt: skip
            with options.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
        del members
        if device.type == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
