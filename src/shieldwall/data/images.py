"""Image files that anyone may have made -> upright pixels of 8 bits, or a refusal; and folders of them.

    header (few enough pixels, one frame) -> decoded -> turned as its EXIF says -> on white -> grey or colour

What costs nothing to check is checked first: nothing is decoded before its size is known. 16 bits become 8,
v -> 255 v / 65535, rounded. `predict` and `serve` both read images here, so that they see the same.
"""

import csv
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from shieldwall.errors import UserError
from shieldwall.texts import read_file

MAX_PIXELS = 24_000_000
MAX_BYTES = 2**25  # of a file
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
TOO_LARGE = 413
_LONGEST = 50  # how many times as long as the other a side may be: the shorter one may be enlarged
_ORIENTATION = 0x0112
_LYING = range(5, 9)  # EXIF orientations that swap width and height
_SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif"}
BY_NUMBER = "name class folders, or labels, by the class's number"


class ImageRejected(UserError):  # noqa: N818 - it says what became of the image
    """Why an image is not taken, and the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[1])


@dataclass(frozen=True)
class Picture:
    image: Image.Image  # upright, in L or RGB; a large JPEG is decoded smaller
    size: tuple[int, int]  # width and height of the file's image, upright
    is_grey: bool  # whether the file's image has no colours


def read_picture(content: bytes, mode: str, least: tuple[int, int] = (0, 0)) -> Picture:
    """The image in `mode`, L or RGB; a JPEG may be decoded smaller, but not below `least`."""
    image = _open(content)
    try:
        # A photo of several pictures (MPO) is not animated: the first is the photo, the rest belong to it.
        if getattr(image, "is_animated", False) and image.format != "MPO":
            raise ImageRejected(415, "the image is animated; give one with a single frame")
        size = image.size[::-1] if image.getexif().get(_ORIENTATION) in _LYING else image.size
        is_grey = image.mode[0] in "1LI"
        image.draft(None, least)
        return Picture(_in_mode(ImageOps.exif_transpose(image), mode), size, is_grey)
    except ImageRejected:
        raise
    except Exception as error:  # Pillow's readers raise nearly anything on a broken file
        raise ImageRejected(415, "the image is damaged: it cannot be decoded") from error


def centre_crop(image: Image.Image, side: int, shorter: int) -> Image.Image:
    """The square in the centre of the image, once its shorter side has `shorter` pixels."""
    least = min(image.size)
    if max(image.size) > _LONGEST * least:
        raise ValueError(f"one side is more than {_LONGEST} times as long as the other")
    width, height = (shorter * length // least for length in image.size)
    left, top = round((width - side) / 2), round((height - side) / 2)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + side, top + side))


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255
        deep = np.asarray(image).astype(np.int64).clip(0, 65535)
        return Image.fromarray(((deep * 255 + 32767) // 65535).astype(np.uint8)).convert(mode)
    if image.has_transparency_data:
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image.convert("RGBA"))
    return image.convert(mode)


def _open(content: bytes) -> Image.Image:
    try:
        with warnings.catch_warnings(action="ignore", category=Image.DecompressionBombWarning):
            image = Image.open(io.BytesIO(content), formats=FORMATS)
        is_small = image.width * image.height <= MAX_PIXELS
    except Image.DecompressionBombError:
        is_small = False
    except Exception as error:
        message = "this is not an image that can be read; give a PNG, JPEG, WebP, BMP or GIF file"
        raise ImageRejected(415, message) from error
    if not is_small:
        limit = f"the image has more than {MAX_PIXELS // 10**6} million pixels; choose a smaller one"
        raise ImageRejected(TOO_LARGE, limit)
    return image


def read_image_files(folder: Path, *, labels: Path | None = None, size: int | None = None,
                     classes: Sequence[str] = ()) -> tuple[Tensor, Tensor, tuple[str, ...]]:  # fmt: skip
    """The images (M, C, H, W) of a folder, in the order of their names, labels (M,), and the classes' names.

    Images are in colour unless all are grey. Labels are those of the table `labels` or of labels.csv in the
    folder, else the names of the class folders; where there are none, all are -1. `classes` are the names
    that labels have, by default those found, in order. `size` is as for `Split.from_folder`.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder of images: it does not exist")

    def images(pattern: str) -> list[Path]:
        return sorted(path for path in folder.glob(pattern) if path.suffix.lower() in _SUFFIXES)

    alone, table = images("*"), labels or folder / "labels.csv"
    files = alone or images("*/*")
    if not files:
        raise UserError(f"{folder} has no images ({' '.join(sorted(_SUFFIXES))}) and no class folders")
    labelled: list[str] = []
    if labels is not None or table.is_file():
        by_name = _read_labels(table)
        try:
            labelled = [by_name[path.relative_to(folder).as_posix()] for path in files]
        except KeyError as missing:
            raise UserError(f"{table} has no label for {missing.args[0]}") from None
    elif not alone:
        labelled = [path.parent.name for path in files]
    known = tuple(classes) or _classes(labelled)
    numbers = {name: number for number, name in enumerate(known)}
    if unknown := [name for name in labelled if name not in numbers]:
        what = f"{unknown[0]!r} is not one of the {len(known)} classes {', '.join(known[:5])}, ..."
        raise UserError(f"{what}; {BY_NUMBER}")
    made = [numbers[name] for name in labelled] or [-1] * len(files)
    return torch.from_numpy(_pixels(files, size)), torch.tensor(made), known


def _classes(names: Sequence[str]) -> tuple[str, ...]:
    """The names in order; numbers mean the classes of these numbers, of which some may not occur."""
    if names and all(map(str.isdecimal, names)):
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
    is_grey, first = all(picture.is_grey for picture in pictures), pictures[0].image
    for file, picture in zip(files, pictures, strict=True):
        if picture.image.size != first.size:
            have, others = ("{} x {}".format(*image.size) for image in (picture.image, first))
            raise UserError(f"{file} is {have} pixels and {files[0].name} {others}; give a size for all")
    stacked = np.stack([np.asarray(picture.image.convert("L" if is_grey else "RGB")) for picture in pictures])
    return stacked[:, None] if is_grey else stacked.transpose(0, 3, 1, 2).copy()


def _read(file: Path, size: int | None) -> Picture:
    try:
        picture = read_picture(read_file(file), "RGB", least=(size or 10**6,) * 2)
        if size is None or picture.image.size == (size, size):
            return picture
        return replace(picture, image=centre_crop(picture.image, size, size))
    except ValueError as error:  # a UserError, or ImageRejected
        raise UserError(f"{file} is not a readable image: {error}") from None
