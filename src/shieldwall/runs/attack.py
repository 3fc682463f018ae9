"""members -> answers under attack: PGD on the smoothed classifier of a run (models/attack.py).

For each input x and length epsilon, PGD looks for x' within epsilon of x under m noise samples. n others then
say what the smoothed classifier answers at x', by `sw.predict`. Only an answer that is another class at the
level alpha counts as broken. So, up to alpha for each certificate and each answer,

    certified accuracy  <=  robust accuracy  <=  empirical accuracy.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from shieldwall import seeds
from shieldwall.console import progress_bar
from shieldwall.ensembles.ensemble import Ensemble
from shieldwall.errors import UserError
from shieldwall.files import disk_errors, write_atomic
from shieldwall.models.attack import TINY, smoothed_pgd
from shieldwall.noise.distributions import Gaussian
from shieldwall.results.attacks import FOLDER, Attack
from shieldwall.runs import environment
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import QUIET, TrainedRun, classifier_of, noise_of
from shieldwall.smoothing.certify import predict

_NUMBERS = 2**22
"""Of the noisy images that are attacked at a time."""


def attack_run(
    path: Path | str,
    *,
    vote: str = "we",
    lengths: Sequence[float] = (),
    steps: int = 20,
    samples: int = 32,
    n: int = 1_000,
    alpha: float = 0.001,
    every: int | None = None,
    limit: int | None = None,
    seed: int | None = None,
    data_dir: Path | None = None,
    device: str | None = None,
    console: Console = QUIET,
) -> Attack:
    """Attack the smoothed classifier of a vote, and write its answers to `attack/VOTE.tsv` of the run.

    Args:
        lengths: L2 lengths of the attack; by default one to four times sigma.
        steps, samples: PGD steps, and noise samples m of each gradient.
        every, limit: which test inputs; by default those that the recipe certifies.
    """
    run = RunFolder(path)
    noise, which = noise_of(run.recipe), run.recipe.certification
    if not isinstance(noise, Gaussian):
        raise UserError(f"the attack has an L2 length; {path} was trained with {run.recipe.noise} noise")
    wanted = sorted(set(lengths)) or [noise.sigma * k for k in (1, 2, 3, 4)]
    for name, least in (("length", wanted[0]), ("steps", steps), ("samples", samples)):
        if not 0 < least <= max(wanted[-1], steps, samples) < math.inf:
            raise UserError(f"{name} of the attack must be a positive number; given: {least}")
    trained = TrainedRun.open(run, data_dir=data_dir, device=device)
    seed, where, test = run.recipe.seed if seed is None else seed, trained.device, trained.dataset.test
    chosen = slice(None, which.limit if limit is None else limit)
    indices = np.arange(0, len(test), which.every if every is None else every)[chosen]
    images, truth = test.images(indices.tolist()), test.labels[indices].numpy()
    classifier = classifier_of(vote, trained.members)

    def logits(x: Tensor) -> Tensor:
        scores: Tensor = classifier(x)  # those of an ensemble are confidences already
        return scores.clamp_min(TINY).log() if isinstance(classifier, Ensemble) else scores

    def attacked(rows: Sequence[int], epsilon: float) -> Tensor:
        shape, drawn = (samples, *images.shape[1:]), []
        for row in rows:
            drawn.append(noise.sample(shape, seeds.generator(where, seed, "attack", int(indices[row]))))
        x, y = images[rows].to(where), torch.from_numpy(truth[rows]).to(where)
        return smoothed_pgd(logits, x, y, torch.stack(drawn, 1), epsilon, steps).cpu()

    at_a_time = max(1, _NUMBERS // (samples * math.prod(trained.dataset.shape)))
    answers = np.tile(truth, (1 + len(wanted), 1))
    found = Attack(np.array([0.0, *wanted]), indices, truth, answers)
    total = len(wanted) * len(indices)
    with run.lock(), progress_bar(console, f"attacking {len(indices)} inputs", total) as show:
        for k, epsilon in enumerate([0.0, *wanted]):
            answers[k] = answers[k - 1] if k else truth
            standing = np.flatnonzero(~found.is_broken[k])
            for start in range(0, len(standing), at_a_time):
                rows = standing[start : start + at_a_time].tolist()
                x = attacked(rows, epsilon) if k else images[rows]
                own = indices[rows].tolist()
                said = predict(
                    classifier, x, noise=noise, n=n, alpha=alpha, seed=seed, indices=own, device=where
                )
                answers[k, rows] = said.labels
            show(k * len(indices), f"length {epsilon:g}: {found.accuracy[k]:.1%} not broken")
        run.note_environment("attack", environment.describe(where))
        run.seal("environment.json")
        with disk_errors(run.path / FOLDER):
            (run.path / FOLDER).mkdir(exist_ok=True)
        settings = {"steps": steps, "samples": samples, "n": n, "alpha": alpha, "seed": seed}
        write_atomic(run.path / FOLDER / f"{vote}.tsv", found.to_tsv(settings).encode())
    return found
