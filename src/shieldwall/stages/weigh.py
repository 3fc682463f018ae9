"""members -> weights: tune the weighted vote on images that the members have not seen."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from shieldwall import data
from shieldwall.devices import resolve_device
from shieldwall.ensembles.votes import weighted
from shieldwall.ensembles.weights import cache_confidences, grid_search_weights, sween_weights
from shieldwall.errors import unknown_name
from shieldwall.results.run import Run
from shieldwall.stages.common import held_out_part, load_members, noise_of

METHODS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"sween": sween_weights, "grid": grid_search_weights}


def weigh_run(
    path: Path | str,
    method: str,
    *,
    copies: int = 10,
    data_dir: Path | None = None,
    device: str | None = None,
) -> dict[str, tuple[list[float], float]]:
    """Tune weights by `method`, keep them in the run folder, and compare them with equal ones.

    Returns weights and held-out accuracy under noise, for `equal` and for `method`. Certification then
    adds the vote `we-METHOD`.
    """
    if method not in METHODS:
        raise unknown_name("method of weighing", method, METHODS)
    run = Run(path)
    run.check_trained()
    where = resolve_device(device)
    dataset = data.load(run.recipe.data, data_dir)
    images = held_out_part(run.recipe, dataset)
    members = load_members(run, dataset, where)
    cached = cache_confidences(
        members, images, None, noise_of(run.recipe), copies=copies, seed=run.recipe.seed, device=where
    )
    tuned = METHODS[method](*cached)
    with run.lock():
        run.save_weights(method, tuned.tolist())
    equal = torch.full_like(tuned, 1 / len(tuned))
    found = {"equal": equal, method: tuned}
    return {
        name: (
            weights.tolist(),
            float((weighted(cached.confidences, weights).argmax(-1) == cached.labels).double().mean()),
        )
        for name, weights in found.items()
    }
