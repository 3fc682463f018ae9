"""Writes docs/choosing.md, which sigma, method, N and n for a radius, from the packed runs in results/.

    python benchmarks/choosing.py [--check]

Nothing is sampled from a network. Fewer samples, and those at which `--radii` stops, are drawn from a run's
counts: every order of its samples is as likely as the one they came in.
"""

import argparse
import math
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from documents import table, write_or_check

from shieldwall.results.certificates import Certificates
from shieldwall.results.metrics import default_radii
from shieldwall.results.record import RunRecord, read_runs
from shieldwall.results.rows import method_of
from shieldwall.smoothing.certificates import certificates_from_counts
from shieldwall.smoothing.count_bounds import Ball, OneSided, TwoSided, count_of_class
from shieldwall.smoothing.stopping import StopAtRadii, fewest_draws

ROOT = Path(__file__).parents[1]
VOTES = ("member-1", "we")
USUAL = 3  # members
NUMBERS = (1_000, 10_000, 100_000)
IN_SIGMAS = (0.5, 1.25, 2.0, 2.5, 3.0, 3.5)
VORACEK = {0.5: (531, 635), 1.25: (2_169, 2_557), 2.0: (2_130, 2_670)}
"""NeurIPS 2024, CIFAR-10, sigma 1: samples per input for one radius, by betting and by union bound."""

MEASURED = """
Every number on this page is computed from measured runs: the packed runs in `results/`, of small networks.
For other data and networks, measure a few hundred of your own inputs in the same way. Runs whose inputs or
n differ can be compared roughly only; the table says both. Of several runs of a method the one with the most
samples is here.
"""
SIGMA = """
Find your radius in the header, and take the run with the largest certified accuracy below it (in %, bold).
A larger sigma costs accuracy at small radii and is needed for large ones: with 100,000 samples no radius
above 3.8 sigma can be certified (-). The weights of DRT are in brackets. N = 1 is the first member alone,
and N = 3 is WE of three members, at three times the cost of training and of each sample.
"""
SAMPLES = """
Gaussian members, and at each sigma the run with the largest ACR, with fewer of their samples, drawn at
random; WE, certified accuracy in %, alpha = 0.001. More samples help at radii near the largest that n
allows, and hardly elsewhere.
"""
BOUND = """
`--bound two-sided` also uses the runner-up, and costs 0.05 of alpha; each input has the better of both
bounds ([proof](certification.md#bounds)). Decide for a bound before you look; the literature's tables are
one-sided. The ACR from the same samples is below. For CIFAR-10 at sigma 1, Voracek (NeurIPS 2024) reports
0.50 and 0.61, of another network.
"""
RADIUS = """
With `--radii r` an input is sampled until r is certified or given up. The first columns are of an input
whose samples all agree: the fewest at which any test at alpha = 0.001 can certify r, and those that
`--radii` takes. Then the mean over the inputs of measured runs (WE, n up to 100,000, inputs that never
reach r included). Voracek's numbers are of CIFAR-10 at sigma 1 and of another network, by betting and by a
union bound: beside them, ours show the order of magnitude only.
"""


def prose(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 119, break_long_words=False, break_on_hyphens=False) + "\n"


def certified(log: Certificates, n: int, bound: str = "one-sided") -> Certificates:
    """The certificates of n of the samples of each input."""
    assert log.counts is not None
    assert log.selection_counts is not None
    assert log.alpha is not None
    if n < int(log.counts[0].sum()):
        rng = np.random.default_rng(0)
        counts = np.stack([rng.multivariate_hypergeometric(row, n, method="count") for row in log.counts])
    else:
        counts = log.counts
    found = certificates_from_counts(log.selection_counts, counts, log.noise or "", log.alpha, bound=bound)
    return found.with_truth(log.truth)


def draws_for(log: Certificates, radius: float) -> float:
    """The mean number of samples at which `--radii` with this radius alone stops, of n at most."""
    assert log.counts is not None
    assert log.selection_counts is not None
    rng, n = np.random.default_rng(0), int(log.counts[0].sum())
    rule = StopAtRadii([radius], Ball.of(log.noise or "", None, None), n, log.alpha or 0.0)
    chosen = log.selection_counts.argmax(-1)
    wins = count_of_class(chosen, log.counts)
    seen, drawn, draws = np.zeros_like(wins), 0, np.zeros_like(wins)
    for look in rule.looks():
        left = np.stack([wins - seen, (n - wins) - (drawn - seen)])
        seen = seen + rng.hypergeometric(left[0], left[1], look - drawn)
        drawn = look
        counts = np.stack([seen, look - seen], axis=-1)
        is_decided = rule.is_decided(np.zeros_like(chosen), counts)
        draws = np.where(is_decided & (draws == 0), look, draws)
    return float(draws.mean())


def largest_radius(log: Certificates, n: int | None = None) -> float:
    """That of an image whose n samples all agree."""
    return (
        Ball.of(log.noise or "", None, None)
        .radius((log.alpha or 0.0) ** (1 / (n or log.fixed_n or 1)))
        .item()
    )


def best_rows(runs: Sequence[RunRecord]) -> str:
    logs = [(run, vote, run.certificates[vote]) for run in runs for vote in VOTES]
    radii = default_radii([log for _, _, log in logs])
    shares = np.array([100 * log.certified_accuracy(None, radii) for _, _, log in logs])
    rows = []
    for (run, vote, log), accuracies in zip(logs, shares, strict=True):
        cells = [
            "-" if radius > largest_radius(log) else f"**{text}**" if text == f"{best:.1f}" else text
            for radius, text, best in zip(
                radii, [f"{share:.1f}" for share in accuracies], shares.max(0), strict=True
            )
        ]
        members = "1" if vote == "member-1" else str(run.recipe.members if run.recipe else "")
        rows.append([method(run), f"{log.sigma:g}", members, f"{len(log)}", f"{log.fixed_n:,}", *cells])
    return table(["method", "sigma", "N", "inputs", "n", *(f"{radius:g}" for radius in radii)], rows)


def fewer_samples(run: RunRecord) -> str:
    log = run.certificates["we"]
    radii, rows = default_radii([log]), []
    for n in NUMBERS:
        found = certified(log, n)
        most = largest_radius(log, n)
        accuracies = found.certified_accuracy(None, radii)
        shares = [
            "-" if r > most else f"{100 * share:.1f}" for r, share in zip(radii, accuracies, strict=True)
        ]
        rows.append([f"{n:,}", f"{most:.2f}", *shares, f"{found.acr():.3f}"])
    return table(["n", "largest radius", *(f"{radius:g}" for radius in radii), "ACR"], rows)


def bounds(runs: Sequence[RunRecord]) -> str:
    rows = []
    for run in runs:
        for vote in VOTES:
            log = run.certificates[vote]
            n = log.fixed_n or 0
            found = [certified(log, n, str(b)).acr() for b in (OneSided(), TwoSided())]
            name = f"{method(run)}, sigma {log.sigma:g}, {vote.upper() if vote == 'we' else 'member 1'}"
            rows.append(
                [
                    name,
                    f"{n:,}",
                    *(f"{acr:.3f}" for acr in found),
                    f"{round(found[1] - found[0], 3) + 0.0:+.3f}",
                ]
            )
    return table(["run", "n", "ACR, one-sided", "ACR, two-sided", "difference"], rows)


def one_radius(runs: Sequence[RunRecord]) -> str:
    logs = [run.certificates["we"] for run in runs]
    rows = []
    for radius in IN_SIGMAS:
        ball = Ball.of("gaussian(1)", None, None)
        sure = StopAtRadii([radius], ball, 100_000, 0.001).draws_if_sure
        floor = fewest_draws(ball, radius, 0.001)
        published = VORACEK.get(radius)
        rows.append(
            [
                f"{radius:g} sigma", f"{floor:,.0f}", f"{sure:,}", f"{sure / floor:.2f}",
                *(f"{draws_for(log, radius * (log.sigma or 0)):,.0f}" for log in logs),
                "" if published is None else " / ".join(f"{count:,}" for count in published),
            ]
        )  # fmt: skip
    measured = [f"{method(run)}, sigma {log.sigma:g}" for run, log in zip(runs, logs, strict=True)]
    header = ["radius", "any test, if all agree", "`--radii`, if all agree", "ratio", *measured, "Voracek"]
    return table(header, rows)


def method(run: RunRecord) -> str:
    """With the weights of DRT's two terms."""
    name = method_of(run.base, run.recipe.sigma if run.recipe else None)
    objective = dict(run.recipe.objective) if run.recipe else {}
    weights = [f"{objective[key]:g}" for key in ("rho_gd", "rho_cm") if key in objective]
    members = [f"{run.recipe.members} members"] if run.recipe and run.recipe.members != USUAL else []
    in_brackets = ", ".join(weights + members)
    return f"{name} ({in_brackets})" if in_brackets else name


def one_of_each(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Of the runs of a method with as many members, that with the most samples; of these the first seed."""

    def samples(run: RunRecord) -> tuple[int, int]:
        log = run.certificates["we"]
        return len(log) * (log.fixed_n or 0), -(run.recipe.seed if run.recipe else 0)

    best: dict[object, RunRecord] = {}
    for run in runs:
        key = method(run), run.recipe and (run.recipe.data, run.recipe.sigma, run.recipe.members)
        if key not in best or samples(run) > samples(best[key]):
            best[key] = run
    return list(best.values())


def page(root: Path) -> str:
    by_data: dict[str, list[RunRecord]] = defaultdict(list)
    measured = [
        run
        for run in read_runs(sorted((root / "results").glob("*/*.tar.xz")))
        if set(VOTES) <= set(run.certificates) and all(log.fixed_n for log in run.certificates.values())
    ]
    for run in one_of_each(measured):
        if run.recipe:
            by_data[run.recipe.data].append(run)
    text = "# Which sigma, method, N and n for my radius?\n\n"
    text += "<!-- Written by `benchmarks/choosing.py` from the runs in `results/`. -->\n\n"
    text += f"{prose(MEASURED)}\n## Sigma, method and N\n\n{prose(SIGMA)}"
    for data, runs in sorted(by_data.items()):
        runs.sort(key=lambda run: (method(run), run.recipe.sigma if run.recipe else math.nan))
        text += f"\n{data}, certified accuracy in % by L2 radius:\n\n{best_rows(runs)}"
    everything = [run for _, runs in sorted(by_data.items()) for run in runs]
    large = [run for run in everything if (run.certificates["we"].fixed_n or 0) >= max(NUMBERS)]
    best = {
        (run.recipe and run.recipe.data, run.recipe and run.recipe.sigma): run
        for run in sorted(large, key=lambda run: run.certificates["we"].acr())
    }
    gaussian = [
        run for run in large if "gaussian" in method(run) and run.recipe and run.recipe.members == USUAL
    ]
    text += f"\n## n\n\n{prose(SAMPLES)}"
    for run in large:
        if run not in gaussian and run not in best.values():
            continue
        text += f"\n{method(run)}, sigma {run.certificates['we'].sigma:g}:\n\n{fewer_samples(run)}"
    text += f"\n## The bound\n\n{prose(BOUND)}\n{bounds(everything)}"
    return text + f"\n## Samples for one radius\n\n{prose(RADIUS)}\n{one_radius(gaussian)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is old")
    options = parser.parse_args()
    pages = {ROOT / "docs" / "choosing.md": page(ROOT)}
    stale = write_or_check(pages, check=options.check, command="python benchmarks/choosing.py")
    return int(options.check and stale)


if __name__ == "__main__":
    sys.exit(main())
