"""A trained ensemble as a module, from its name or its run folder."""

from pathlib import Path

import torch
from torch import nn

from shieldwall import pretrained
from shieldwall.errors import UserError, unknown
from shieldwall.results.run import Run
from shieldwall.stages.common import classifier_of, trained_members

INPUTS: dict[str, tuple[int, tuple[int, int, int]]] = {
    "digits": (10, (1, 8, 8)),
    "mnist": (10, (1, 28, 28)),
    "fashion-mnist": (10, (1, 28, 28)),
    "cifar10": (10, (3, 32, 32)),
    "imagenet": (1000, (3, 224, 224)),
}
"""Classes and image shape by data set: a model is had without the images it was trained on."""


def load(what: str | Path, vote: str = "we") -> nn.Module:
    """The pretrained ensemble called `what`, or that of a trained run folder: on the CPU, in evaluation mode.

    `vote` is `we` (a WeightedEnsemble of equal weights), `mme` (a MaxMarginEnsemble) or `member-1` to
    `member-N`, that member alone. Images in [0, 1] go in, scores (B, K) come out; it is meant for images
    with the noise that its members were trained with.
    """
    run = _run(what)
    if run.recipe.data not in INPUTS:
        raise unknown("data set", run.recipe.data, INPUTS)
    return classifier_of(vote, trained_members(run, *INPUTS[run.recipe.data], torch.device("cpu"))).eval()


def _run(what: str | Path) -> Run:
    if Path(what).is_dir():
        return Run(what)
    if isinstance(what, Path) or "/" in what:
        raise UserError(f"{what} is not a run folder: it does not exist")
    return Run(pretrained.folder(what))
