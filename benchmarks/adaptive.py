"""Fewer draws for the same table: certification that stops once each radius is decided, against fixed draws.

    python benchmarks/adaptive.py RUN... [--radii 0,0.25,...] [--n 100000] [--every 20] [--limit 500]

Each trained run is certified twice, with n draws for every input and with `--radii`, in one pass over all
votes and, if asked for, over WE alone. The table gives the draws of the second as a share of n, and for each
vote the certified accuracy it loses, in points, at the worst radius and on average.
"""

import argparse
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from shieldwall.data import datasets
from shieldwall.devices import resolve_device
from shieldwall.ensembles.votes import default_vote_names, vote_set
from shieldwall.recipes import Certification
from shieldwall.results.certificates import Certificates
from shieldwall.runs.environment import commit, device_name
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import load_members, noise_of
from shieldwall.smoothing.plan import Plan
from shieldwall.smoothing.sampler import Sampler

RADII = tuple(0.25 * k for k in range(11))


def certified(
    run: RunFolder, votes: list[str], plan: Plan, indices: range, options: argparse.Namespace
) -> tuple[dict[str, Certificates], np.ndarray]:
    """The certificates of each vote, and the true labels."""
    device = resolve_device(options.device)
    dataset = datasets.load(run.recipe.data, options.data_dir)
    members = load_members(run, dataset, device)
    chosen = vote_set(votes, len(members))
    sampler = Sampler.of_plan(
        members, chosen, plan, shape=dataset.shape, device=device, compile=options.compile
    )
    images = ((index, dataset.test.images([index])[0]) for index in indices)
    by_input = [plan.certificates(counts, chosen) for counts in sampler.counts(images)]
    by_vote = {vote: Certificates.concat([one[vote] for one in by_input]) for vote in votes}
    return by_vote, dataset.test.labels[list(indices)].numpy()


def accuracies(certificates: Certificates, labels: np.ndarray, radii: tuple[float, ...]) -> np.ndarray:
    correct = certificates.labels == labels
    return np.array([100 * (correct & (certificates.radii >= r)).mean() for r in radii])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--radii", default=",".join(map(str, RADII)))
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--alpha", type=float, default=0.001)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default=None)
    parser.add_argument("--data-dir", type=Path, default=None)
    options = parser.parse_args()
    radii = tuple(float(part) for part in options.radii.split(","))
    where = device_name(resolve_device(options.device))
    print(f"{where}, torch {torch.__version__}, commit {commit() or 'unknown'}")
    print(f"n = {options.n:,}, alpha = {options.alpha}, {options.precision}, radii {options.radii}\n")
    print("| run | inputs | stops when | draws, % of n | vote: worst and mean difference in points |")
    print("| --- | ---: | --- | ---: | --- |", flush=True)
    for path in options.runs:
        run = RunFolder(path)
        test = datasets.load(run.recipe.data, options.data_dir).test
        indices = range(0, len(test), options.every)[: options.limit]
        size = math.prod(test.images([0]).shape)
        certification = Certification(n=options.n, alpha=options.alpha, precision=options.precision)
        fixed = Plan(noise_of(run.recipe), size, certification, run.recipe.seed)
        stopping = replace(fixed, certification=replace(certification, radii=radii))
        names = default_vote_names(run.recipe.members)
        reference, labels = certified(run, names, fixed, indices, options)
        expected = {name: accuracies(one, labels, radii) for name, one in reference.items()}
        for what, votes in (("all votes are decided", names), ("WE is decided", ["we"])):
            stopped, _ = certified(run, votes, stopping, indices, options)
            draws = stopped[votes[0]].n
            assert draws is not None
            share = draws.mean() / options.n
            lost = {name: accuracies(one, labels, radii) - expected[name] for name, one in stopped.items()}
            cells = [
                f"{name} {diff[abs(diff).argmax()]:+.2f}, {diff.mean():+.2f}" for name, diff in lost.items()
            ]
            print(
                f"| {run.recipe.name} | {len(indices)} | {what} | {100 * share:.1f} | {'; '.join(cells)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
