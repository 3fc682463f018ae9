"""A trained run: its recipe, data and members, and the plan and votes of its certification."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shieldwall.data import datasets
from shieldwall.data.datasets import DatasetSpec
from shieldwall.data.splits import Dataset, Split
from shieldwall.devices import resolve_device
from shieldwall.ensembles.votes import MaxMarginEnsemble, VoteSet, WeightedEnsemble, default_votes, vote_set
from shieldwall.errors import UserError, checked, describe, unknown_name
from shieldwall.files import load_tensors
from shieldwall.models.classifier import count_members
from shieldwall.models.members import to_device
from shieldwall.models.registry import build_members, check_trusted
from shieldwall.noise.distributions import TRAINED_NOISE, ExactGaussian, Noise, noise_by_name
from shieldwall.recipes import Certification, Recipe
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.pretrained import packaged_run
from shieldwall.smoothing.certificates import Plan
from shieldwall.smoothing.sampler import Sampler
from shieldwall.vocabulary import MME, WE


@dataclass(frozen=True)
class TrainedRun:
    folder: RunFolder
    dataset: Dataset
    members: list[nn.Module]
    device: torch.device

    @classmethod
    def open(cls, folder: RunFolder, *, data_dir: Path | str | None = None, device: str | None = None,
             held_out: bool = False) -> "TrainedRun":  # fmt: skip
        """With `held_out`, the training images that no member has seen are its test images."""
        chosen_device = resolve_device(device)
        dataset = datasets.load(folder.recipe.data, data_dir)
        if held_out:
            dataset = replace(dataset, test=held_out_part(folder.recipe, dataset))
        return cls(folder, dataset, load_members(folder, dataset, chosen_device), chosen_device)

    @property
    def recipe(self) -> Recipe:
        return self.folder.recipe

    def plan(self, which: Certification, seed: int | None = None, correct_only: bool = False) -> Plan:
        noise, size = noise_of(self.recipe, exact=which.exact_noise), math.prod(self.dataset.shape)
        return Plan(noise, size, which, self.recipe.seed if seed is None else seed, correct_only=correct_only)

    def votes(self, names: Sequence[str] | None = None) -> VoteSet:
        """The votes with these names; by default all, including those with tuned weights."""
        return vote_set(names, count_members(self.members), self.folder.tuned_weights())

    def sampler(self, plan: Plan, votes: VoteSet, **how: Any) -> Sampler:
        """`how` is the batch size, and whether to compile and to prepare the members."""
        return Sampler(
            self.members, votes.counted, plan.noise, plan.certification.n0, plan.stopping, seed=plan.seed,
            precision=plan.certification.precision, shape=self.dataset.shape, device=self.device, **how,
            example=self.image(plan.noise, 0), truth=self.dataset.test.labels if plan.correct_only else None,
        )  # fmt: skip

    def image(self, noise: Noise, index: int) -> Tensor:
        images = self.dataset.test.images([index])
        noise.validate(images)
        return images[0]


@checked
def load(what: str | Path, vote: str = "we") -> nn.Module:
    """Load the pretrained ensemble named `what`, or the ensemble of a trained run folder.

    The module is on the CPU, in evaluation mode, and in the precision that its weights are stored in; in
    float32 where they are stored in float16, which saves space and is slow on a CPU. `vote`
    is `we` (a WeightedEnsemble of equal weights), `mme` (a MaxMarginEnsemble), or `member-1` to `member-N`
    for a single member. The module takes images in [0, 1], (B, ...), and returns scores (B, K). Its members
    were trained on images with noise, its `trained_noise`: to certify it with other noise gives a warning.
    """
    if not isinstance(what, (str, Path)):
        raise UserError(f"give the name of a pretrained ensemble or a run folder; given: {describe(what)}")
    exists = os.path.exists(what)  # noqa: PTH110 - a name too long for a file is no file
    if not exists and (isinstance(what, Path) or "/" in what):
        raise UserError(f"{what} is not a run folder: it does not exist")
    folder = RunFolder(what if exists else packaged_run(str(what)))
    members = load_members(folder, datasets.dataset_spec(folder.recipe.data), torch.device("cpu"))
    stored = load_tensors(folder.member_paths()[0])[0].values()
    dtype = next(tensor.dtype for tensor in stored if tensor.is_floating_point())
    if dtype != torch.float16:
        members = [member.to(dtype) for member in members]
    module = classifier_of(vote, members).eval()
    for part in (module, *members):
        setattr(part, TRAINED_NOISE, noise_of(folder.recipe))
    return module


def noise_of(recipe: Recipe, *, exact: bool = False) -> Noise:
    """The noise that the recipe's members are trained with, or its exact form."""
    if not exact:
        return noise_by_name(recipe.noise, recipe.sigma)
    if recipe.noise != "gaussian":
        raise UserError(f"--exact-noise is Gaussian; the run was trained with {recipe.noise} noise")
    return ExactGaussian(recipe.sigma)


def load_members(run: RunFolder, images: Dataset | DatasetSpec, device: torch.device) -> list[nn.Module]:
    recipe = run.recipe
    check_trusted(recipe.model)
    members = build_members(recipe.model, recipe.members, len(images.classes), images.shape, recipe.seed)
    run.load_members(members)
    return [to_device(member, device).eval() for member in members]


def training_part(recipe: Recipe, dataset: Dataset) -> Split:
    if not len(dataset.train):
        what = "it needs the folders train/ and test/ (or val/), each with a folder for each class"
        raise UserError(f"{dataset.name} has no images to train on: {what}")
    if not recipe.holdout_every:
        return dataset.train
    return dataset.train.subset([row for row in range(len(dataset.train)) if row % recipe.holdout_every])


def held_out_part(recipe: Recipe, dataset: Dataset) -> Split:
    """The training images that no member has seen."""
    if not recipe.holdout_every:
        raise UserError("the run has no held-out images; train a run with --set holdout_every=10")
    return dataset.train.subset(range(0, len(dataset.train), recipe.holdout_every))


def classifier_of(vote: str, members: list[nn.Module]) -> nn.Module:
    """The module whose argmax is this vote."""
    if vote in (WE, MME):
        return (WeightedEnsemble if vote == WE else MaxMarginEnsemble)(members)
    names = [vote.name for vote in default_votes(len(members))]
    if vote not in names:
        raise unknown_name("vote", vote, names)
    return members[names.index(vote)]
