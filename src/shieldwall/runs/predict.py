"""members -> answers: the smoothed ensemble's predictions for test inputs or image files."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shieldwall.data import datasets
from shieldwall.data.images import MAX_BYTES, ImageRejected, read_picture
from shieldwall.data.splits import to_float
from shieldwall.devices import resolve_device
from shieldwall.errors import UserError
from shieldwall.results.certificates import Certificates
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import classifier_of, load_members, noise_of
from shieldwall.smoothing.certify import certify, predict
from shieldwall.texts import read_file
from shieldwall.vocabulary import ABSTAIN


@dataclass(frozen=True)
class Answer:
    source: str  # the file, or `test input 7`
    label: str | None  # the class's name; None if the smoothed classifier abstains
    truth: str | None  # the true class's name, of a test input
    votes: list[tuple[str, int]]  # up to three classes that won most noise samples, and how many each won


def predict_run(path: Path | str, images: Sequence[Path] = (), *, indices: Sequence[int] = (),
                vote: str = "we", n: int = 1_000, alpha: float = 0.001, seed: int | None = None,
                precision: str | None = None, exact_noise: bool | None = None, data_dir: Path | None = None,
                device: str | None = None) -> list[Answer]:  # fmt: skip
    """Classify image files, and test inputs given by index, with the smoothed classifier of a run.

    Each answer is wrong about the smoothed classifier with probability `alpha` at most. `precision` and
    `exact_noise` are by default the recipe's, and the noise's `seed` a fresh secret one.
    """
    if not images and not indices:
        raise UserError("nothing to predict: give image files, or test inputs with --index")
    run, chosen_device = RunFolder(path), resolve_device(device)
    spec = datasets.dataset_spec(run.recipe.data)
    inputs = [read_image(image, spec.shape) for image in images]
    truths: list[str | None] = [None] * len(images)
    if indices:
        dataset = datasets.load(run.recipe.data, data_dir)
        test, spec = dataset.test, spec._replace(classes=dataset.classes)
        for index in indices:
            if not 0 <= index < len(test):
                raise UserError(f"no test input {index}; they are numbered from 0 to {len(test) - 1}")
        inputs += test.images(list(indices)).unbind()
        truths += [spec.classes[int(test.labels[index])] for index in indices]
    which = run.recipe.certification.changed(precision=precision, exact_noise=exact_noise)
    predictions = predict(
        classifier_of(vote, load_members(run, spec, chosen_device)), torch.stack(inputs),
        noise=noise_of(run.recipe, exact=which.exact_noise), n=n, alpha=alpha, seed=seed,
        indices=[*range(len(images)), *indices], device=chosen_device, precision=which.precision,
    )  # fmt: skip
    sources = [*map(str, images), *(f"test input {index}" for index in indices)]
    answers = []
    rows = zip(sources, truths, predictions.labels, predictions.counts, strict=True)
    for source, truth, label, counts in rows:
        leading = (-counts).argsort(kind="stable")[:3].tolist()
        votes = [(spec.classes[c], int(counts[c])) for c in leading if counts[c]]
        answers.append(Answer(source, None if label == ABSTAIN else spec.classes[label], truth, votes))
    return answers


def certify_files(path: Path | str, images: Sequence[Path], *, vote: str = "we", seed: int | None = None,
                  device: str | None = None,
                  **changes: Any) -> tuple[Certificates, tuple[str, ...]]:  # fmt: skip
    """Certificates of image files by one vote of a run, and the classes' names; `changes` are fields of the
    recipe's certification, where they are not None."""
    run, chosen_device = RunFolder(path), resolve_device(device)
    spec = datasets.dataset_spec(run.recipe.data)
    how = run.recipe.certification.changed(**changes)
    certificates = certify(
        classifier_of(vote, load_members(run, spec, chosen_device)),
        torch.stack([read_image(image, spec.shape) for image in images]),
        noise=noise_of(run.recipe, exact=how.exact_noise), n0=how.n0, n=how.n, alpha=how.alpha,
        bound=how.bound, radii=how.radii or None, norm=how.norm, precision=how.precision,
        seed=secrets.randbits(63) if seed is None else seed, device=chosen_device,
    )  # fmt: skip
    return certificates, spec.classes


def read_image(path: Path, shape: tuple[int, int, int]) -> Tensor:
    """An image file as (C, H, W) in [0, 1], multiples of 1/255; its size must be the model's."""
    channels, height, width = shape
    try:
        content = read_file(path, MAX_BYTES)
        picture = read_picture(content, "L" if channels == 1 else "RGB", least=(width, height))
    except ImageRejected as error:
        raise UserError(f"{path}: {error}") from error
    if picture.size != (width, height):
        own = "{}x{}".format(*picture.size)
        raise UserError(f"{path} is {own} pixels; the model takes {width}x{height}: resize it first")
    pixels = torch.from_numpy(np.array(picture.image)).reshape(height, width, channels)
    return to_float(pixels.permute(2, 0, 1))
