"""The paper's MNIST tables, measured: train, tune weights, certify and pack, row by row.

    python benchmarks/mnist.py gaussian drt --minutes 9        # rows, at every sigma
    python benchmarks/mnist.py drt --sigmas 1.0 --work runs/mnist --to results/mnist

The protocol is the paper's: LeNet, N = 3, every 10th test image, n0 = 100, n = 100,000, alpha = 0.001. Every
20th training image is kept from training, for tuning weights (and for choosing numbers: mnist_search.py).

What is done is not done again, and an interrupted run resumes, so the whole table can be
filled over several sittings: keep `--work`. When the minutes are over, the epoch or the input in progress is
the last. A row's file, ROW-SIGMA.tar.xz, holds everything but the weights; mnist_page.py renders them.
"""

import argparse
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

from mnist_files import HOLD_OUT, ROWS
from rich.console import Console

from shieldwall import recipes
from shieldwall.recipes import Recipe
from shieldwall.report.formats import to_terminal
from shieldwall.report.tables import accuracy_table
from shieldwall.results.archive import pack
from shieldwall.results.record import read_runs
from shieldwall.results.rows import rows_of
from shieldwall.runs.certify import certify_run
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.train import train_run
from shieldwall.runs.tune_weights import tune_weights_run
from shieldwall.vocabulary import SIGMAS

RADII = tuple(0.25 * k for k in range(11))


def recipe_of(row: str, sigma: float, work: Path, assignments: list[str]) -> Recipe:
    start = ROWS[row]
    recipe = recipes.override(recipes.get(f"mnist-{row}-{sigma}"), assignments)
    folder = None if start is None else str(work / f"{start}-{sigma}")
    return replace(recipe, holdout_every=HOLD_OUT, init_from=folder)


def fill(row: str, sigma: float, options: argparse.Namespace, console: Console) -> Path:
    """Everything for one file, or what is still missing of it; returns the run folder."""
    folder: Path = options.work / f"{row}-{sigma}"
    where = {"data_dir": options.data_dir, "device": options.device}
    start = ROWS[row]
    if start is not None and not (folder / "recipe.yaml").exists():
        train(start, sigma, [], options, console)
    train(row, sigma, options.set, options, console)
    run = RunFolder(folder)
    for method in ("sween", "grid"):
        if method not in run.tuned_weights():
            tune_weights_run(folder, method, **where)
    if options.certify:
        certify_run(
            folder, precision=options.precision, compile=options.compile, limit=options.limit, n=options.n,
            console=console, **where,
        )  # fmt: skip
        pack(folder, options.to / f"{row}-{sigma}.tar.xz")
    return folder


def train(
    row: str, sigma: float, assignments: list[str], options: argparse.Namespace, console: Console
) -> None:
    folder = options.work / f"{row}-{sigma}"
    if (folder / "recipe.yaml").exists():  # made with the numbers it holds, whatever the recipe says now
        recipe = RunFolder(folder).recipe
    else:
        recipe = recipe_of(row, sigma, options.work, assignments)
    console.print(f"{row} at sigma {sigma}: {recipe.objective}")
    train_run(recipe, folder, data_dir=options.data_dir, device=options.device, console=console)


def stop_after(minutes: float) -> None:
    """Ctrl-C by the clock: training stops at its last checkpoint, certification finishes its input."""
    timer = threading.Timer(60 * minutes, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rows", nargs="+", choices=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--sigmas", default=",".join(map(str, SIGMAS)))
    parser.add_argument("--work", type=Path, default=Path("runs/mnist"), help="run folders, weights and all")
    parser.add_argument("--to", type=Path, default=Path("results/mnist"), help="one packed file for each run")
    parser.add_argument("--minutes", type=float, help="stop after so long; the same command goes on")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="as `shieldwall train`, for the rows named, not for one they start from",
    )
    parser.add_argument("--no-certify", dest="certify", action="store_false", help="train and tune only")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--limit", type=int, help="certify fewer inputs, to try it out")
    parser.add_argument("--n", type=int, help="with fewer draws, to try it out")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started it as a job
    if options.minutes:
        stop_after(options.minutes)
    options.to.mkdir(parents=True, exist_ok=True)
    console = Console(markup=False, highlight=False)
    started, done = time.monotonic(), []
    try:
        for row in options.rows:
            for sigma in map(float, options.sigmas.split(",")):
                done.append(fill(row, sigma, options, console))
                console.print(f"{done[-1].name}: done after {time.monotonic() - started:.0f} s in all")
    except KeyboardInterrupt:
        console.print(f"stopped after {time.monotonic() - started:.0f} s; the same command goes on")
    if certified := [folder for folder in done if (folder / "certificates").is_dir()]:
        table = accuracy_table(rows_of(read_runs(certified), average_seeds=False), list(RADII))
        console.print(to_terminal(table), crop=False, soft_wrap=True)


if __name__ == "__main__":
    main()
