"""members -> weights: tune the weighted vote on images that the members have not seen."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from shieldwall.binomial import clopper_pearson_lower
from shieldwall.ensembles.votes import weighted
from shieldwall.ensembles.weights import accuracy, certified_accuracy, grid_search_weights, sween_weights
from shieldwall.errors import UserError, check, unknown_name
from shieldwall.noise.distributions import Noise
from shieldwall.recipes import Certification
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import TrainedRun, noise_of
from shieldwall.smoothing.certify import noisy_confidences

METHODS = ("sween", "grid")
DEFAULT_COPIES = {"accuracy": 10, "certified": 100}


@dataclass(frozen=True)
class TunedWeights:
    name: str  # `equal`, or that of the tuned vote
    weights: list[float]
    accuracy: float  # the share of the held-out images' noisy copies that the vote classifies correctly
    certified: float | None  # the estimate of certified accuracy at the radius; None if none was given


def tune_weights_run(path: Path | str, method: str = "sween", *, objective: str = "accuracy",
                     radius: float | None = None, copies: int | None = None, data_dir: Path | None = None,
                     device: str | None = None) -> tuple[TunedWeights, TunedWeights]:  # fmt: skip
    """Tune weights into the run folder.  -> equal weights, and the tuned ones

    Certification then adds the vote `we-sween`, `we-grid`, or `we-grid-R`. The grid search maximises accuracy
    under noise, or `certified` accuracy at the radius R: that with the recipe's n and alpha.
    """
    for what, given, known in (("tuning method", method, METHODS), ("objective", objective, DEFAULT_COPIES)):
        if given not in known:
            raise unknown_name(what, given, known)
    if objective == "certified" and method != "grid":
        raise UserError("only the grid search can maximise certified accuracy; use --method grid")
    if (objective == "certified") != (radius is not None):
        raise UserError("--objective certified and --radius go together; give both or neither")
    run = RunFolder(path)
    copies = DEFAULT_COPIES[objective] if copies is None else copies
    check(copies >= 1, "--copies must be at least 1", copies)
    noise = noise_of(run.recipe)
    score: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = accuracy
    if radius is not None:
        score = certified_accuracy(copies_needed(noise, radius, copies, run.recipe.certification))
    trained = TrainedRun.open(run, data_dir=data_dir, device=device, held_out=True)
    train, images = trained.dataset.train, trained.dataset.test
    if run.environment().get("train", {}).get("data_sha256") not in (None, train.digest()):
        what = f"{run.path} was trained on other images than those of {run.recipe.data} that are found now"
        raise UserError(f"{what}; give the folder that it was trained on with --data-dir")
    draw = partial(noisy_confidences, copies=copies, seed=run.recipe.seed, device=trained.device)
    confidences = draw(trained.members, images, noise)
    labels = images.labels.cpu()
    search = partial(grid_search_weights, score=score) if method == "grid" else sween_weights
    tuned = search(confidences, labels)
    name = method if radius is None else f"{method}-{radius:g}"
    with run.lock():
        run.save_weights(name, tuned.tolist())

    def scored(title: str, weights: torch.Tensor) -> TunedWeights:
        combined = weighted(confidences.flatten(1, 2), weights).reshape(1, *confidences.shape[1:])
        certified = None if radius is None else float(score(combined, labels))
        return TunedWeights(title, weights.tolist(), float(accuracy(combined, labels)), certified)

    return scored("equal", torch.full_like(tuned, 1 / len(tuned))), scored(f"we-{name}", tuned)


def copies_needed(noise: Noise, radius: float, copies: int, certification: Certification) -> int:
    """At how many of the copies the vote must be correct to count as certified at the radius. Certification
    needs at least k of its n samples; the copies need the same share."""
    check(np.isfinite(radius) and radius >= 0, "the radius must be 0 or a positive number", radius)
    n = certification.n
    p_lower = clopper_pearson_lower(np.arange(n + 1), n, certification.alpha)
    is_certified = (p_lower > 0.5) & (noise.radius(np.maximum(p_lower, 0.5)) >= radius)
    if not is_certified[-1]:
        largest = float(noise.radius(np.maximum(p_lower[-1:], 0.5))[0])
        why = f"no image can be certified at radius {radius:g} with {noise} and n = {n:,}"
        raise UserError(f"{why}; the largest possible radius is {largest:.3f}")
    return -(-int(is_certified.argmax()) * copies // n)  # rounded up, exactly
