"""A folder of image files: one folder for each class, or files with a table of labels, or files alone."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shieldwall.data.images import Picture, centre_crop, read_picture
from shieldwall.errors import UserError
from shieldwall.texts import read_file

_SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif"}


def read_image_files(
    folder: Path, *, labels: Path | None = None, size: int | None = None, classes: Sequence[str] = ()
) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """The images (M, C, H, W) of a folder, in the order of their names, labels (M,), and the classes' names.

    Images are in colour unless all are grey. Where nothing says their labels, all labels are -1.

    Args:
        labels: a CSV file with the columns `file` and `label`; by default labels.csv in the folder, if there
            is one, and else the names of the class folders.
        size: the side of the square that images are resized and cut to; by default all must have one size.
        classes: the names that labels have; by default those found, in order.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder of images: it does not exist")
    alone, inside = (
        sorted(path for path in folder.glob(pattern) if path.suffix.lower() in _SUFFIXES)
        for pattern in ("*", "*/*")
    )
    files, table = alone or inside, labels or folder / "labels.csv"
    if not files:
        raise UserError(f"{folder} has no images ({' '.join(sorted(_SUFFIXES))}) and no class folders")
    labelled: list[str] = []
    if labels is not None or table.is_file():
        by_name = _read_labels(table)
        names = [path.relative_to(folder).as_posix() for path in files]
        if missing := [name for name in names if name not in by_name]:
            raise UserError(f"{table} has no label for {missing[0]}")
        labelled = [by_name[name] for name in names]
    elif not alone:
        labelled = [path.parent.name for path in files]
    known = tuple(classes) or _classes(labelled)
    numbers = {name: number for number, name in enumerate(known)}
    if unknown := [name for name in labelled if name not in numbers]:
        raise UserError(
            f"{unknown[0]!r} is not one of the {len(known)} classes {', '.join(known[:5])}, ...; name class "
            "folders, or labels, by the class's number"
        )
    made = [numbers[name] for name in labelled] or [-1] * len(files)
    return torch.from_numpy(_pixels(files, size)), torch.tensor(made), known


def _classes(names: Sequence[str]) -> tuple[str, ...]:
    """The names in order; numbers mean the classes of these numbers, of which some may not occur."""
    if names and all(name.isdecimal() for name in names):
        return tuple(map(str, range(max(map(int, names)) + 1)))
    return tuple(sorted(set(names)))


def _read_labels(table: Path) -> dict[str, str]:
    try:
        lines = io.StringIO(read_file(table).decode("utf-8-sig"), newline="")
        return {row["file"]: row["label"].strip() for row in csv.DictReader(lines)}
    except (UserError, KeyError, AttributeError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{table} is no table of labels: it needs the columns file,label ({error})") from None


def _pixels(files: Sequence[Path], size: int | None) -> NDArray[np.uint8]:
    pictures = [_read(file, size) for file in files]
    is_grey = all(picture.is_grey for picture in pictures)
    images = [picture.image for picture in pictures]
    for file, image in zip(files, images, strict=True):
        if image.size != images[0].size:
            have, first = ("{} x {}".format(*each.size) for each in (image, images[0]))
            raise UserError(f"{file} is {have} pixels and {files[0].name} {first}; give a size for all")
    stacked = np.stack([np.asarray(image.convert("L" if is_grey else "RGB")) for image in images])
    return stacked[:, None] if is_grey else stacked.transpose(0, 3, 1, 2).copy()


def _read(file: Path, size: int | None) -> Picture:
    """The picture, as a square of this size where one is given."""
    try:
        picture = read_picture(read_file(file), "RGB", least=(size or 10**6,) * 2)
        if size is None or picture.image.size == (size, size):
            return picture
        return replace(picture, image=centre_crop(picture.image, size, size))
    except ValueError as error:  # a UserError, or ImageRejected
        raise UserError(f"{file} is not a readable image: {error}") from None
