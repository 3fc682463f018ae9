"""Images in class folders, in ImageNet's layout, decoded when they are needed, by a thread for each core.

Of several processes each decodes its own share of a batch. In memory are two batches, and the paths.
"""

import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, repeat
from pathlib import Path
from random import Random

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor

from shieldwall.data.images import centre_crop
from shieldwall.data.splits import Batches, Device, Rows, Split, to_float
from shieldwall.distributed import SINGLE, ProcessGroup
from shieldwall.errors import UserError

_EXTENSIONS = (".jpeg", ".jpg", ".png")
_THREADS = max(2, os.cpu_count() or 1)
_MARGIN = 256 / 224  # the shorter side of a test image by that of its centre, which is seen
_AREA, _RATIO, _ATTEMPTS = (0.08, 1.0), (3 / 4, 4 / 3), 10  # of a random crop
_MAX_PIXELS = 80_000_000


class FolderSplit(Split):
    """A split of image files, cut to squares; decoded one batch ahead of the caller."""

    def __init__(self, paths: Sequence[str], labels: Tensor, side: int = 224, augmented: bool = False):
        self.paths, self.labels, self.side, self.augmented = paths, labels, side, augmented

    def images(self, indices: Rows) -> Tensor:
        rows = torch.as_tensor(indices, dtype=torch.int64).tolist()
        with ThreadPoolExecutor(_THREADS) as pool:
            return self._collate(pool.map(self._image, rows), self.device)

    def subset(self, rows: Sequence[int]) -> "FolderSplit":
        chosen = torch.as_tensor(rows, dtype=torch.int64, device=self.device)
        return FolderSplit([self.paths[row] for row in rows], self.labels[chosen], self.side, self.augmented)

    def to(self, device: Device) -> "FolderSplit":
        return FolderSplit(self.paths, self.labels.to(device), self.side, self.augmented)

    def digest(self) -> str:
        """SHA-256 of labels and of each file's class folder, name and size; no file is read."""
        sha = hashlib.sha256()
        for path, label in zip(self.paths, self.labels.tolist(), strict=True):
            file = Path(path)
            sha.update(f"{label} {file.parent.name}/{file.name} {file.stat().st_size}\n".encode())
        return sha.hexdigest()

    def batches(self, batch_size: int, generator: Generator, device: Device, first: int = 0,
                world: ProcessGroup = SINGLE) -> Batches:  # fmt: skip
        order = torch.randperm(len(self), generator=generator)
        # A key for each image, drawn ahead: no crop depends on which thread comes first.
        keys = torch.randint(1 << 62, (len(self),), generator=generator)
        pool = ThreadPoolExecutor(_THREADS)

        def started() -> Iterator[tuple[Tensor, slice, Iterator[Tensor]]]:
            batches = zip(torch.split(order, batch_size), torch.split(keys, batch_size), strict=True)
            for rows, chosen in islice(batches, first, None):
                own = world.share(len(rows)).rows
                own_keys = chosen[own].tolist() if self.augmented else repeat(None)
                yield rows, own, pool.map(self._image, rows[own].tolist(), own_keys)

        try:
            coming = started()
            current = next(coming, None)
            while current is not None:
                (rows, own, decoded), current = current, next(coming, None)
                x = self._collate(decoded, device)
                if len(x) < len(rows):  # nobody looks at the other processes' rows
                    x, share = x.new_zeros((len(rows), *x.shape[1:])), x
                    x[own] = share
                yield x, self.labels[rows.to(self.device)].to(device)
        finally:
            pool.shutdown(cancel_futures=True)

    def _image(self, row: int, key: int | None = None) -> Tensor:
        """The centre of an image, or the random crop that a key names."""
        path, side = self.paths[row], self.side
        try:
            with Image.open(path, formats=("JPEG", "PNG")) as image:
                if image.width * image.height > _MAX_PIXELS:
                    raise ValueError(f"it has more than {_MAX_PIXELS:,} pixels")
                seen, shorter = image.convert("RGB"), round(side * _MARGIN)
                cut = random_crop(seen, key, side) if key is not None else centre_crop(seen, side, shorter)
        except Exception as error:  # Pillow's decoders raise nearly anything on a broken file
            raise UserError(f"{path} cannot be read as an image: {error}") from error
        return torch.from_numpy(np.array(cut)).permute(2, 0, 1)[None]

    def _collate(self, decoded: Iterable[Tensor], device: Device) -> Tensor:
        none = torch.empty((0, 3, self.side, self.side), dtype=torch.uint8)
        return to_float(torch.cat([none, *decoded]).to(device))


def read_folders(train: Path, test: Path, side: int) -> tuple[FolderSplit, FolderSplit, tuple[str, ...]]:
    """Both splits and the class names, which are the sorted folder names; no image is opened."""
    classes, others = (sorted(e.name for e in _entries(folder) if e.is_dir()) for folder in (train, test))
    if empty := train if not classes else test if not others else None:
        raise UserError(f"{empty} is empty: a folder of images for each class was expected in it")
    if odd := sorted({*classes} ^ {*others}):
        raise UserError(f"{train} and {test} must hold the same class folders; {odd[0]} is in only one")
    return _split(train, classes, side, augmented=True), _split(test, classes, side), tuple(classes)


def _split(folder: Path, classes: Sequence[str], side: int, augmented: bool = False) -> FolderSplit:
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        entries = _entries(folder / name)
        images = sorted(entry.path for entry in entries if entry.name.lower().endswith(_EXTENSIONS))
        if not images:
            raise UserError(f"{folder / name} is empty: images ({' '.join(_EXTENSIONS)}) were expected in it")
        paths += images
        labels += [label] * len(images)
    return FolderSplit(paths, torch.tensor(labels), side, augmented)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise UserError(f"{folder} cannot be read as a folder: {error.strerror}") from error


def random_crop(image: Image.Image, key: int, side: int) -> Image.Image:
    """A part of random area and shape, stretched to the square and, half the time, mirrored."""
    random = Random(key)
    left, top, width, height = _random_box(*image.size, random)
    box = (left, top, left + width, top + height)
    part = image.crop(box).resize((side, side), Image.Resampling.BILINEAR)
    return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else part


def _random_box(width: int, height: int, random: Random) -> tuple[int, int, int, int]:
    for _ in range(_ATTEMPTS):
        area = width * height * random.uniform(*_AREA)
        ratio = math.exp(random.uniform(*map(math.log, _RATIO)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        left, top = random.random(), random.random()
        if 0 < w <= width and 0 < h <= height:
            return int(left * (width - w + 1)), int(top * (height - h + 1)), w, h
    # A very long image: as much of its middle as the allowed shapes can cover.
    w, h = min(width, round(height * _RATIO[1])), min(height, round(width / _RATIO[0]))
    return (width - w) // 2, (height - h) // 2, w, h
