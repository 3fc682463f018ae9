"""members -> answers: what the smoothed ensemble says about test inputs or image files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shieldwall import data
from shieldwall.devices import resolve_device
from shieldwall.errors import UserError
from shieldwall.results.run import Run
from shieldwall.smoothing.certify import predict
from shieldwall.stages.common import classifier_of, noise_of, trained_members
from shieldwall.vocabulary import ABSTAIN


@dataclass(frozen=True)
class Answer:
    source: str
    label: str | None
    """The class's name; None if the smoothed classifier abstains."""
    truth: str | None
    votes: list[tuple[str, int]]
    """The leading classes with the draws each of them won."""
    p_value: float


def predict_run(
    path: Path | str,
    images: Sequence[Path] = (),
    *,
    indices: Sequence[int] = (),
    vote: str = "we",
    n: int = 1_000,
    alpha: float = 0.001,
    seed: int | None = None,
    precision: str = "float32",
    exact_noise: bool = False,
    data_dir: Path | None = None,
    device: str | None = None,
) -> list[Answer]:
    """The smoothed classifier's answers at image files and at test inputs given by index.

    `seed` names the draws; by default the recipe's. `precision` and `exact_noise` are to be those of the
    certificates that the answers rely on.
    """
    if not images and not indices:
        raise UserError("nothing to predict: give image files, or test inputs with --index")
    run = Run(path)
    where = resolve_device(device)
    shape, classes = data.outline(run.recipe.data)
    x = [read_image(image, shape) for image in images]
    truths: list[str | None] = [None] * len(images)
    if indices:
        dataset = data.load(run.recipe.data, data_dir)
        x += _test_images(dataset.test, indices)
        classes = dataset.classes
        truths += [classes[int(dataset.test.labels[idx])] for idx in indices]
    sources = [*map(str, images), *(f"test input {idx}" for idx in indices)]
    classifier = classifier_of(vote, trained_members(run, len(classes), shape, where))
    found = predict(
        classifier, torch.stack(x), noise=noise_of(run.recipe, exact=exact_noise), n=n, alpha=alpha,
        seed=run.recipe.seed if seed is None else seed, indices=[*range(len(images)), *indices],
        precision=precision, device=where,
    )  # fmt: skip
    answers = []
    for k, source in enumerate(sources):
        label = int(found.labels[k])
        leading = (-found.counts[k]).argsort(kind="stable")[:3].tolist()
        answers.append(
            Answer(
                source=source,
                label=None if label == ABSTAIN else classes[label],
                truth=truths[k],
                votes=[(classes[c], int(found.counts[k, c])) for c in leading if found.counts[k, c]],
                p_value=float(found.p_values[k]),
            )
        )
    return answers


def _test_images(test: data.Split, indices: Sequence[int]) -> Sequence[Tensor]:
    for idx in indices:
        if not 0 <= idx < len(test):
            raise UserError(f"there is no test input {idx}: they go from 0 to {len(test) - 1}")
    return test.images(list(indices)).unbind()


def read_image(path: Path, shape: tuple[int, int, int]) -> Tensor:
    """An image file as (C, H, W) in [0, 1]; its size must be the model's."""
    from PIL import Image, UnidentifiedImageError

    channels, height, width = shape
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"), dtype=np.float32)
    except FileNotFoundError as error:
        raise UserError(f"{path} is not a readable image: it does not exist") from error
    except (OSError, UnidentifiedImageError) as error:
        raise UserError(f"{path} is not a readable image: {error}") from error
    if pixels.shape[:2] != (height, width):
        raise UserError(
            f"{path} is {pixels.shape[1]}x{pixels.shape[0]} pixels; "
            f"the model takes {width}x{height}: resize it first"
        )
    return torch.from_numpy(pixels / np.float32(255)).reshape(height, width, channels).permute(2, 0, 1)
