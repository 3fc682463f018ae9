"""What diversity regularisation does to an ensemble: evidence on 8x8 digits, over several seeds.

    python benchmarks/diversity.py [--seeds 0,1,2] [--sigmas 0.25,0.5] [--n 2000] [--device cpu]

For each seed, the plain ensemble (digits-gaussian) is trained, and then trained on in four ways of equal
length and learning rate: as before, with DRT (digits-drt), and with either of its terms alone (digits-drt-gd,
digits-drt-cm). Measured on all test images: under noise, the gradient-diversity loss as the paper prints it,
the mean cosine of two members' margin gradients and the mean margin; and by certification, the accuracy at
some radii and the ACR. The recipes' numbers were chosen on held-out training images.
"""

import argparse
import copy
import time
from collections.abc import Callable, Sequence
from itertools import combinations

import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall import recipes
from shieldwall.runs.environment import commit, device_name
from shieldwall.training.drt import Group, gradient_diversity, mean_cosine, true_margin
from shieldwall.training.registry import build_objective

COPIES = 10
"""Noisy copies of each test image under which margins and their gradients are measured."""
RADII = {0.25: (0.0, 0.25, 0.5, 0.6), 0.5: (0.0, 0.25, 0.5, 0.75), 1.0: (0.0, 0.25, 0.5, 0.75)}
"""The radii of each sigma; the claims are about the last one."""
CONTINUED = "plain, continued"
WAYS = {CONTINUED: "gaussian", "GD alone": "drt-gd", "CM alone": "drt-cm", "DRT": "drt"}
"""How the plain ensemble is trained on, and the recipe whose objective does it."""

Row = dict[str, float]


Ensembles = Callable[[int, float, int, torch.device], dict[str, Row]]
"""Seed, sigma, n and device -> one seed's ensembles, each measured."""
Shown = Callable[[list[dict[str, Row]], float], str]
"""All seeds' ensembles, sigma -> text."""


def main() -> None:
    compare(__doc__, ensembles, lambda found, sigma: f"{table(found)}\n\n{claims(found, sigma)}")


def compare(
    about: str | None, ensembles: Ensembles, shown: Callable[[list[dict[str, Row]], float], str]
) -> None:
    """Print what `shown` makes of all seeds' ensembles, sigma by sigma, as the command line asks."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--sigmas", default="0.25,0.5")
    parser.add_argument("--n", type=int, default=2_000, help="draws of a certificate")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if len(seeds) < 2:
        parser.error("a spread takes at least two seeds")
    device = torch.device(options.device)
    print(f"{device_name(device)}, torch {torch.__version__}, commit {commit()}")
    for sigma in map(float, options.sigmas.split(",")):
        started = time.perf_counter()
        found = [ensembles(seed, sigma, options.n, device) for seed in seeds]
        settings = f"sigma {sigma:g}, seeds {options.seeds}, n {options.n:,}"
        seconds = time.perf_counter() - started
        print(
            f"\n{settings}: mean (smallest to largest), {seconds:.0f} s\n\n{shown(found, sigma)}", flush=True
        )


def ensembles(seed: int, sigma: float, n: int, device: torch.device) -> dict[str, Row]:
    """One seed's ensembles, each measured."""
    data = sw.load_data("digits")
    plain, drt = recipes.get(f"digits-gaussian-{sigma}"), recipes.get(f"digits-drt-{sigma}")
    noise = sw.Gaussian(sigma)
    members = sw.build_members(plain.model, plain.members, len(data.classes), data.shape, seed)
    objective = build_objective(plain.objective, noise)
    sw.train(members, data.train, objective, schedule=plain.schedule, seed=seed, device=device)
    rows = {"plain": measure(members, noise, n, device)}
    for name, method in WAYS.items():
        continued = copy.deepcopy(members)
        objective = build_objective(recipes.get(f"digits-{method}-{sigma}").objective, noise)
        sw.train(continued, data.train, objective, schedule=drt.schedule, seed=seed, device=device)
        rows[name] = measure(continued, noise, n, device)
    return rows


def measure(members: Sequence[nn.Module], noise: sw.Gaussian, n: int, device: torch.device) -> Row:
    test = sw.load_data("digits").test
    x, labels = test.images(range(len(test))), test.labels
    row = under_noise(members, x.to(device), labels.to(device), noise)
    found = sw.certify_members(members, x, votes=["we", "mme"], noise=noise, n=n)
    for vote, one in found.items():
        correct = one.labels == labels.cpu().numpy()
        for radius in RADII[noise.sigma]:
            row[at(vote, radius)] = 100 * float((correct & (one.radii >= radius)).mean())
        row[f"{vote.upper()}, ACR"] = float((correct * one.radii).mean())
    return row


def at(vote: str, radius: float) -> str:
    return f"{vote.upper()}, % at {radius:g}"


def under_noise(members: Sequence[nn.Module], x: Tensor, labels: Tensor, noise: sw.Gaussian) -> Row:
    """What DRT regularises, at noisy copies of the images."""
    generator = torch.Generator(x.device).manual_seed(0)
    y = labels.repeat(COPIES)
    points = x.repeat(COPIES, 1, 1, 1)
    points = (points + noise.sample(points.shape, generator)).requires_grad_()
    logits = [member(points) for member in members]
    margins = [true_margin(one, y) for one in logits]
    gradients = [torch.autograd.grad(margin.sum(), points)[0] for margin in margins]
    correct = [one.argmax(-1) == y for one in logits]
    pairs = combinations(range(len(members)), 2)
    groups = [Group((i, j), (correct[i] & correct[j]).float() / len(y)) for i, j in pairs]
    return {
        "GD loss": float(gradient_diversity(gradients, groups, squared=False)),
        "cosine": float(mean_cosine(gradients, groups)),
        "gradient norm": float(torch.stack(gradients).flatten(2).norm(dim=2).mean()),
        "margin": float(torch.stack(margins).detach().mean()),
        "member, % under noise": 100 * float(torch.stack(correct).float().mean()),
    }


def table(found: Sequence[dict[str, Row]]) -> str:
    """A row per measure and a column per ensemble."""
    names = list(found[0])
    lines = [f"| | {' | '.join(names)} |", f"| :-- {'| --: ' * len(names)}|"]
    for measured in found[0]["plain"]:
        digits = 1 if "%" in measured else 3
        cells = [cell([rows[name][measured] for rows in found], digits) for name in names]
        lines.append(f"| {measured} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(values: Sequence[float], digits: int) -> str:
    low, high, mean = min(values), max(values), sum(values) / len(values)
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def claims(found: Sequence[dict[str, Row]], sigma: float) -> str:
    """Whether each claim holds: the means differ so by more than either ensemble's spread over the seeds.

    The spread is the largest value less the smallest.
    """
    large = [at(vote, RADII[sigma][-1]) for vote in ("we", "mme")]
    lines = []
    for claim, name, measured, sign, other in [
        ("a", "DRT", "GD loss", -1, CONTINUED),
        ("a", "DRT", "cosine", -1, CONTINUED),
        ("b", "CM alone", "margin", 1, CONTINUED),
        *(("c", "DRT", one, 1, other) for one in large for other in ("plain", CONTINUED)),
    ]:
        ours, theirs = ([rows[key][measured] for rows in found] for key in (name, other))
        gains = [one - another for one, another in zip(ours, theirs, strict=True)]
        gain = sum(gains) / len(gains)
        spread = max(max(ours) - min(ours), max(theirs) - min(theirs))
        if sign * gain > spread:
            verdict = "holds"
        elif min(sign * one for one in gains) > 0:
            verdict = "does not hold: every seed agrees, but within the spread"
        else:
            verdict = "does not hold"
        lines.append(
            f"- ({claim}) {measured}, {name} against {other}: {gain:+.3f} "
            f"(by seed {', '.join(f'{one:+.3f}' for one in gains)}; spread {spread:.3f}): {verdict}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
