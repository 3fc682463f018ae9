"""A folder of image files: one folder for each class, or files with a table of labels, or files alone."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shieldwall.data.images import ImageRejected, Picture, read_picture
from shieldwall.errors import UserError
from shieldwall.texts import read_file

_SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif"}
UNKNOWN = -1
"""The label of an image whose class is not known."""


class ImageFiles(NamedTuple):
    pixels: NDArray[np.uint8]
    """(M, C, H, W); one channel if all images are grey."""
    labels: NDArray[np.int64]
    """(M,); UNKNOWN for all where nothing says them."""
    classes: tuple[str, ...]
    """The names of the classes, in the order of their numbers."""
    names: tuple[str, ...]
    """The files, inside the folder."""


def read_image_files(
    folder: Path, *, labels: Path | None = None, size: int | None = None, classes: Sequence[str] = ()
) -> ImageFiles:
    """Read all images of a folder, in the order of their names.

    Args:
        labels: a CSV file with the columns `file` and `label`; by default labels.csv in the folder, if there
            is one, and else the names of the class folders.
        size: the side of the square that images are resized and cut to; by default all must have one size.
        classes: the names that labels have; by default those found, in order.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder of images: it does not exist")
    files = sorted(path for path in folder.glob("*") if path.suffix.lower() in _SUFFIXES)
    inside = sorted(path for path in folder.glob("*/*") if path.suffix.lower() in _SUFFIXES)
    if not files and not inside:
        raise UserError(f"{folder} has no images ({' '.join(sorted(_SUFFIXES))}) and no class folders")
    table = labels or (folder / "labels.csv")
    if labels is not None or table.is_file():
        by_name = _read_labels(table)
        files = files or inside
        names = [path.relative_to(folder).as_posix() for path in files]
        if missing := [name for name in names if name not in by_name]:
            raise UserError(f"{table} has no label for {missing[0]}")
        labelled = [by_name[name] for name in names]
    elif files:
        names, labelled = [path.name for path in files], []
    else:
        files = inside
        names = [path.relative_to(folder).as_posix() for path in files]
        labelled = [path.parent.name for path in files]
    known = tuple(classes) or _classes(labelled)
    numbers = {name: number for number, name in enumerate(known)}
    if unknown := [name for name in labelled if name not in numbers]:
        raise UserError(
            f"{unknown[0]!r} is not one of the {len(known)} classes {', '.join(known[:5])}, ...; name class "
            "folders, or labels, by the class's number"
        )
    pixels = _pixels(files, size)
    made = np.array([numbers[name] for name in labelled] or [UNKNOWN] * len(files), dtype=np.int64)
    return ImageFiles(pixels, made, known, tuple(names))


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
    images = [_square(picture.image, size) for picture in pictures]
    for file, image in zip(files, images, strict=True):
        if image.size != images[0].size:
            have, first = ("{} x {}".format(*one.size) for one in (image, images[0]))
            raise UserError(f"{file} is {have} pixels and {files[0].name} {first}; give a size for all")
    stacked = np.stack([np.asarray(image.convert("L" if is_grey else "RGB")) for image in images])
    return stacked[:, None] if is_grey else stacked.transpose(0, 3, 1, 2).copy()


def _read(file: Path, size: int | None) -> Picture:
    try:
        return read_picture(read_file(file), "RGB", least=(size or 10**6,) * 2)
    except (UserError, ImageRejected) as error:
        raise UserError(f"{file} is not a readable image: {error}") from None


def _square(image: Image.Image, size: int | None) -> Image.Image:
    """The centre of the image once its shorter side has this size."""
    if size is None or image.size == (size, size):
        return image
    shorter = min(image.size)
    width, height = (max(size, round(size * side / shorter)) for side in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + size, top + size))
