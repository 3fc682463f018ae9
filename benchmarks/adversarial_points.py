"""DRT around SmoothAdv: margins at the shared noisy inputs, or at each member's own adversarial ones?

    python benchmarks/adversarial_points.py [--seeds 0,1,2] [--sigmas 0.25,0.5] [--n 2000] [--device cpu]

The paper takes DRT's two terms at the noisy inputs that all members share (`points="noisy"`), public code at
the adversarial inputs of each (`points="own"`). For each seed, the plain ensemble (digits-smoothadv)
is trained, and then trained on in four ways of equal length and learning rate: as before, with
digits-drt-smoothadv at either points, and at noisy points with a larger rho_gd, to tell another place from
a stronger pull. The measures are those of benchmarks/diversity.py, all at test images: what DRT regularises
is measured under shared noise, whichever points it was trained at.
"""

import copy
from collections.abc import Sequence

import torch
from diversity import CONTINUED, Row, compare, measure, table

import shieldwall as sw
from shieldwall import recipes
from shieldwall.training.registry import build_objective

NOISY, STRONGER, ADVERSARIAL = "DRT, noisy", "DRT, noisy, stronger", "DRT, adversarial"
FACTOR = 1.3
"""On rho_gd: about what noisy points need for the GD loss that adversarial ones reach."""


def main() -> None:
    compare(__doc__, ensembles, shown)


def shown(found: list[dict[str, Row]], sigma: float) -> str:
    return "\n\n".join([table(found), differences(found, NOISY), differences(found, STRONGER)])


def ensembles(seed: int, sigma: float, n: int, device: torch.device) -> dict[str, Row]:
    """One seed's ensembles, each measured."""
    data, noise = sw.load_data("digits"), sw.Gaussian(sigma)
    plain, drt = (recipes.get(f"digits-{method}-{sigma}") for method in ("smoothadv", "drt-smoothadv"))
    members = sw.build_members(plain.model, plain.members, len(data.classes), data.shape, seed)
    objective = build_objective(plain.objective, noise)
    sw.train(members, data.train, objective, schedule=plain.schedule, seed=seed, device=device)
    rows = {"plain": measure(members, noise, n, device)}
    ways = {
        CONTINUED: drt.objective["base"],
        NOISY: {**drt.objective, "points": "noisy"},
        STRONGER: {**drt.objective, "points": "noisy", "rho_gd": FACTOR * drt.objective["rho_gd"]},
        ADVERSARIAL: {**drt.objective, "points": "own"},
    }
    for name, description in ways.items():
        continued = copy.deepcopy(members)
        objective = build_objective(description, noise)
        sw.train(continued, data.train, objective, schedule=drt.schedule, seed=seed, device=device)
        rows[name] = measure(continued, noise, n, device)
    return rows


def differences(found: Sequence[dict[str, Row]], other: str) -> str:
    """Adversarial points less another way, for each measure: by seed, and against the spread over the seeds.

    The spread is the largest value less the smallest, of the ensemble that has more of it.
    """
    lines = [
        f"| {ADVERSARIAL}, less {other} | mean | by seed | spread | |",
        "| :-- | --: | --: | --: | :-- |",
    ]
    for measured in found[0][other]:
        ours, theirs = ([rows[name][measured] for rows in found] for name in (ADVERSARIAL, other))
        gains = [one - another for one, another in zip(ours, theirs, strict=True)]
        mean = sum(gains) / len(gains)
        spread = max(max(values) - min(values) for values in (ours, theirs))
        verdict = "beyond the spread" if abs(mean) > spread else ""
        by_seed = ", ".join(f"{gain:+.3f}" for gain in gains)
        lines.append(f"| {measured} | {mean:+.3f} | {by_seed} | {spread:.3f} | {verdict} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
