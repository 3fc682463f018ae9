"""members -> attack: PGD on the smoothed classifier of a run (models/attack.py), length by length.

PGD looks for x' within epsilon of x under m noise samples. n others then say what the smoothed classifier
answers at x'. x is broken if that is another class at the level alpha; an abstention is not. So, up to alpha
for each certificate and each answer, certified accuracy <= robust accuracy <= empirical accuracy.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from shieldwall import seeds
from shieldwall.console import QUIET, progress_bar
from shieldwall.ensembles.votes import Ensemble
from shieldwall.errors import UserError, check
from shieldwall.files import write_output
from shieldwall.models.attack import TINY, smoothed_pgd
from shieldwall.models.members import model_errors
from shieldwall.noise.distributions import Gaussian
from shieldwall.results.attacks import Attack
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import TrainedRun, classifier_of, noise_of
from shieldwall.smoothing.certify import predict
from shieldwall.vocabulary import ABSTAIN

_NUMBERS = 2**22  # of the noisy images that are attacked at a time


def attack_run(path: Path | str, *, vote: str = "we", lengths: Sequence[float] = (), steps: int = 20,
               samples: int = 32, n: int = 1_000, alpha: float = 0.001, every: int | None = None,
               limit: int | None = None, seed: int | None = None, data_dir: Path | None = None,
               device: str | None = None, console: Console = QUIET) -> Attack:  # fmt: skip
    """Attack the smoothed classifier of a vote, and write the result to `attack/VOTE.tsv` of the run. The L2
    `lengths` are by default one to four times sigma; `samples` are the noise samples m of a gradient."""
    run = RunFolder(path)
    noise, which = noise_of(run.recipe), run.recipe.certification
    if not isinstance(noise, Gaussian):
        raise UserError(f"the attack has an L2 length; {path} was trained with {run.recipe.noise} noise")
    tried = sorted(set(lengths) or {noise.sigma * k for k in (1, 2, 3, 4)})
    is_positive = 0 < tried[0] <= tried[-1] < math.inf and min(steps, samples) >= 1
    given = f"{tried}, {steps} and {samples}"
    check(is_positive, "lengths, steps and samples of the attack must be positive", given)
    trained = TrainedRun.open(run, data_dir=data_dir, device=device)
    seed, where, test = run.recipe.seed if seed is None else seed, trained.device, trained.dataset.test
    indices = np.array(which.changed(every=every, limit=limit).inputs(len(test)))
    images, truth = test.images(indices.tolist()).to(where), test.labels[indices].to(where)
    if (truth < 0).any():
        raise UserError(f"{run.recipe.data} has no labels, without which no answer is wrong")
    classifier = classifier_of(vote, trained.members)

    def logits(x: Tensor) -> Tensor:
        scores: Tensor = classifier(x)  # those of an ensemble are confidences already
        return scores.clamp_min(TINY).log() if isinstance(classifier, Ensemble) else scores

    def attacked(rows: Sequence[int], epsilon: float) -> Tensor:
        streams = [seeds.generator(where, seed, "attack", int(indices[row])) for row in rows]
        drawn = [noise.sample((samples, *images.shape[1:]), stream) for stream in streams]
        with model_errors(images.shape[1:]):  # one without gradients, for instance
            return smoothed_pgd(logits, images[rows], truth[rows], torch.stack(drawn, 1), epsilon, steps)

    at_a_time = max(1, _NUMBERS // (samples * math.prod(trained.dataset.shape)))
    broken = np.full(len(indices), np.inf)
    with run.lock(), progress_bar(console, f"attacking {len(indices)} inputs", len(tried)) as show:
        for done, epsilon in enumerate([0.0, *tried]):
            standing = np.flatnonzero(np.isinf(broken))
            for start in range(0, len(standing), at_a_time):
                rows = standing[start : start + at_a_time].tolist()
                x = attacked(rows, epsilon) if epsilon else images[rows]
                own = indices[rows].tolist()
                answers = predict(classifier, x.cpu(), noise=noise, n=n, alpha=alpha, seed=seed, indices=own)
                is_wrong = (answers.labels != truth[rows].cpu().numpy()) & (answers.labels != ABSTAIN)
                broken[standing[start : start + at_a_time][is_wrong]] = epsilon
            show(done, f"length {epsilon:g}")
        attack = Attack(indices, truth.cpu().numpy(), broken, np.array([0.0, *tried]))
        settings = {"steps": steps, "samples": samples, "n": n, "alpha": alpha, "seed": seed}
        write_output(run.path / "attack" / f"{vote}.tsv", attack.to_tsv(settings).encode())
    return attack
