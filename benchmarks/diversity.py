"""What diversity regularisation does to an ensemble: evidence on 8x8 digits, over several seeds.

    python benchmarks/diversity.py [--seeds 0,1,2] [--sigma 0.5] [--n 1000] [--device cpu]

For each seed, the plain ensemble (digits-gaussian) is trained, and then trained on in four ways of equal
length and learning rate: as before, with DRT (digits-drt), and with either of its terms alone (digits-drt-gd,
digits-drt-cm). Measured on all test images: under noise, DRT's gradient-diversity loss, the mean cosine of
two members' margin gradients and the mean margin; and by certification, the accuracy at some radii and the
average certified radius (ACR). The recipes' numbers were chosen on training images, held out.
"""

import argparse
import copy
import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall import recipes
from shieldwall.results.environment import commit, device_name
from shieldwall.training import build_objective
from shieldwall.training.drt import gradient_diversity, mean_cosine, true_margin, valid_groups

COPIES = 10
"""Noisy copies of each test image under which margins and their gradients are measured."""
CONTINUATIONS = {"plain, continued": "gaussian", "GD alone": "drt-gd", "CM alone": "drt-cm", "DRT": "drt"}
"""How the plain ensemble is trained on, and the recipe whose objective does it."""

Row = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--sigma", type=float, default=0.5, choices=[0.25, 0.5, 1.0])
    parser.add_argument("--n", type=int, default=1_000, help="draws of a certificate")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    started = time.perf_counter()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    found = [ensembles(seed, options.sigma, options.n, device) for seed in seeds]
    print(
        f"{device_name(device)}, torch {torch.__version__}, commit {commit()}, sigma {options.sigma:g}, ",
        end="",
    )
    print(f"seeds {options.seeds}, n {options.n:,}, {time.perf_counter() - started:.0f} s\n")
    print(table(found))
    print()
    print(claims(found))


def ensembles(seed: int, sigma: float, n: int, device: torch.device) -> dict[str, Row]:
    """One seed's ensembles, each measured."""
    data = sw.load_data("digits")
    plain, tuned = recipes.get(f"digits-gaussian-{sigma}"), recipes.get(f"digits-drt-{sigma}")
    noise = sw.Gaussian(sigma)
    members = sw.build_members(plain.model, plain.members, len(data.classes), data.shape, seed)
    objective = build_objective(plain.objective, noise)
    sw.train(members, data.train, objective, schedule=plain.schedule, seed=seed, device=device)
    rows = {"plain": measure(members, noise, n, device)}
    for name, method in CONTINUATIONS.items():
        recipe = replace(recipes.get(f"digits-{method}-{sigma}"), schedule=tuned.schedule)
        continued = copy.deepcopy(members)
        objective = build_objective(recipe.objective, noise)
        sw.train(continued, data.train, objective, schedule=recipe.schedule, seed=seed, device=device)
        rows[name] = measure(continued, noise, n, device)
    return rows


def measure(members: Sequence[nn.Module], noise: sw.Gaussian, n: int, device: torch.device) -> Row:
    test = sw.load_data("digits").test
    x, labels = test.images(range(len(test))), test.labels
    row = under_noise(members, x.to(device), labels.to(device), noise)
    found = sw.certify_members(members, x, votes=["we", "mme"], noise=noise, n=n)
    for vote in ("we", "mme"):
        correct, radii = found[vote].labels == labels, found[vote].radii
        for radius in (0.0, noise.sigma, 1.5 * noise.sigma, 2 * noise.sigma):
            row[f"{vote.upper()} at {radius:g}"] = 100 * float((correct & (radii >= radius)).float().mean())
        row[f"{vote.upper()} ACR"] = float((correct * radii).mean())
    return row


def under_noise(members: Sequence[nn.Module], x: Tensor, labels: Tensor, noise: sw.Gaussian) -> Row:
    generator = torch.Generator(x.device).manual_seed(0)
    y = labels.repeat(COPIES)
    points = x.repeat(COPIES, 1, 1, 1)
    points = (points + noise.sample(points.shape, generator)).requires_grad_()
    logits = [member(points) for member in members]
    margins = [true_margin(one, y) for one in logits]
    gradients = [torch.autograd.grad(margin.sum(), points)[0] for margin in margins]
    correct = [one.argmax(-1) == y for one in logits]
    groups = valid_groups(correct, "pairwise")
    return {
        "noisy accuracy": 100 * float(torch.stack(correct).float().mean()),
        "GD loss": float(gradient_diversity(gradients, groups)),
        "cosine": float(mean_cosine(gradients, groups)),
        "margin": float(torch.stack(margins).detach().mean()),
    }


def table(found: Sequence[dict[str, Row]]) -> str:
    """A row per measure, a column per ensemble: the mean over seeds, and the smallest and largest."""
    names, measures = list(found[0]), list(found[0]["plain"])
    lines = [f"| | {' | '.join(names)} |", f"| :-- {'| --: ' * len(names)}|"]
    for measure in measures:
        cells = [cell([rows[name][measure] for rows in found]) for name in names]
        lines.append(f"| {measure} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(values: Sequence[float]) -> str:
    digits = 1 if max(values) > 10 else 3
    low, mean, high = (
        f"{value:.{digits}f}" for value in (min(values), sum(values) / len(values), max(values))
    )
    return f"{mean} ({low}..{high})"


def claims(found: Sequence[dict[str, Row]]) -> str:
    """Each claim against the ensemble that was trained on as before, seed by seed.

    It holds if the means differ in its direction by more than the spread (largest less smallest) of either
    ensemble over the seeds; it leans so if they differ less, yet every seed agrees.
    """
    large = [measure for measure in found[0]["plain"] if measure.startswith(("WE at", "MME at"))]
    said = [
        ("a", "GD loss", "DRT", -1),
        ("a", "cosine", "DRT", -1),
        ("b", "margin", "CM alone", 1),
        *(("c", measure, "DRT", 1) for measure in large if not measure.endswith(" 0")),
    ]
    lines = []
    for label, measure, name, sign in said:
        ours = [rows[name][measure] for rows in found]
        theirs = [rows["plain, continued"][measure] for rows in found]
        gains = [sign * (one - other) for one, other in zip(ours, theirs, strict=True)]
        spread = max(max(ours) - min(ours), max(theirs) - min(theirs))
        mean = sum(gains) / len(gains)
        verdict = "holds" if mean > spread else "every seed agrees" if min(gains) > 0 else "does not hold"
        lines.append(
            f"- ({label}) {measure}, {name}: {'above' if sign > 0 else 'below'} by {mean:.3g} on average "
            f"({', '.join(f'{gain:.3g}' for gain in gains)}), spread {spread:.3g}: {verdict}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
