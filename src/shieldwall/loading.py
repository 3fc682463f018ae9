"""A trained ensemble as a module, from its name or its run folder."""

from pathlib import Path

import torch
from torch import nn

from shieldwall.data import datasets
from shieldwall.errors import UserError, describe
from shieldwall.results.run import Run
from shieldwall.runs.pretrained import packaged_run
from shieldwall.stages.common import classifier_of, trained_members


def load(what: str | Path, vote: str = "we") -> nn.Module:
    """The pretrained ensemble called `what`, or that of a trained run folder: on the CPU, in evaluation mode.

    `vote` is `we` (a WeightedEnsemble of equal weights), `mme` (a MaxMarginEnsemble) or `member-1` to
    `member-N`, that member alone. Images in [0, 1] go in, scores (B, K) come out; it is meant for images
    with the noise that its members were trained with.
    """
    run = _run(what)
    shape, classes = datasets.dataset_spec(run.recipe.data)
    return classifier_of(vote, trained_members(run, len(classes), shape, torch.device("cpu"))).eval()


def _run(what: str | Path) -> Run:
    if not isinstance(what, (str, Path)):
        raise UserError(f"give the name of a pretrained ensemble or a run folder; given: {describe(what)}")
    if Path(what).exists():
        return Run(what)
    if isinstance(what, Path) or "/" in what:
        raise UserError(f"{what} is not a run folder: it does not exist")
    return Run(packaged_run(what))
