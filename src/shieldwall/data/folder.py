"""Images in class folders, as ImageNet is laid out, decoded when they are asked for."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Generator, Tensor

from shieldwall.data.crops import SIDE, centre_crop, random_crop
from shieldwall.data.dataset import Batches, Device, Rows, Split, to_unit
from shieldwall.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

_EXTENSIONS = (".jpeg", ".jpg", ".png")
_THREADS = 8


class FolderSplit(Split):
    """A split of image files; decoded in a few threads, one batch ahead of the caller."""

    def __init__(self, paths: Sequence[str], labels: Tensor, augmented: bool = False) -> None:
        self.paths = paths
        self.labels = labels
        self.augmented = augmented

    def images(self, indices: Rows) -> Tensor:
        rows = torch.as_tensor(indices, dtype=torch.int64).tolist()
        with ThreadPoolExecutor(_THREADS) as pool:
            return _collate(pool.map(self._centre, rows), self.device)

    def subset(self, rows: Sequence[int]) -> "FolderSplit":
        chosen = torch.as_tensor(rows, dtype=torch.int64, device=self.device)
        return FolderSplit([self.paths[row] for row in rows], self.labels[chosen], self.augmented)

    def to(self, device: Device) -> "FolderSplit":
        return FolderSplit(self.paths, self.labels.to(device), self.augmented)

    def digest(self) -> str:
        """Over labels and each file's class folder, name and size; no file is read, as there may be many."""
        sha = hashlib.sha256()
        for path, label in zip(self.paths, self.labels.tolist(), strict=True):
            file = Path(path)
            sha.update(f"{label} {file.parent.name}/{file.name} {file.stat().st_size}\n".encode())
        return sha.hexdigest()

    def batches(self, batch_size: int, generator: Generator, device: Device) -> Batches:
        order = torch.randperm(len(self), generator=generator)
        # A key for each image, drawn ahead: no crop depends on which thread comes first.
        keys = torch.randint(1 << 62, (len(self),), generator=generator)
        pool = ThreadPoolExecutor(_THREADS)

        def started() -> Iterator[tuple[Tensor, Iterator[Tensor]]]:
            for rows, chosen in zip(
                torch.split(order, batch_size), torch.split(keys, batch_size), strict=True
            ):
                if self.augmented:
                    yield rows, pool.map(self._random, rows.tolist(), chosen.tolist())
                else:
                    yield rows, pool.map(self._centre, rows.tolist())

        try:
            coming = started()
            current = next(coming, None)
            while current is not None:
                following = next(coming, None)
                rows, decoded = current
                yield _collate(decoded, device), self.labels[rows.to(self.device)].to(device)
                current = following
        finally:
            pool.shutdown(cancel_futures=True)

    def _centre(self, row: int) -> Tensor:
        return _decode(self.paths[row], centre_crop)

    def _random(self, row: int, key: int) -> Tensor:
        return _decode(self.paths[row], lambda image: random_crop(image, key))


def read(train: Path, test: Path) -> tuple[FolderSplit, FolderSplit, tuple[str, ...]]:
    """Both splits and the class names, which are the sorted folder names; no image is opened."""
    classes = _class_names(train)
    odd = sorted(set(classes) ^ set(_class_names(test)))
    if odd:
        raise UserError(f"{train} and {test} must hold the same class folders; {odd[0]} is in only one")
    return _split(train, classes, augmented=True), _split(test, classes), classes


def _class_names(folder: Path) -> tuple[str, ...]:
    names = sorted(entry.name for entry in _entries(folder) if entry.is_dir())
    if not names:
        raise UserError(f"{folder} is empty: a folder of images for each class was expected in it")
    return tuple(names)


def _split(folder: Path, classes: Sequence[str], augmented: bool = False) -> FolderSplit:
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        entries = _entries(folder / name)
        found = sorted(entry.path for entry in entries if entry.name.lower().endswith(_EXTENSIONS))
        if not found:
            raise UserError(f"{folder / name} is empty: images ({' '.join(_EXTENSIONS)}) were expected in it")
        paths += found
        labels += [label] * len(found)
    return FolderSplit(paths, torch.tensor(labels), augmented)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise UserError(f"{folder} cannot be read as a folder: {error.strerror}") from error


def _decode(path: str, crop: "Callable[[Image], Image]") -> Tensor:
    from PIL import Image

    try:
        with Image.open(path) as image:
            cropped = crop(image.convert("RGB"))
    # Pillow's decoders raise nearly anything on a broken file.
    except Exception as error:
        raise UserError(f"{path} cannot be read as an image: {error}") from error
    return torch.from_numpy(np.array(cropped)).permute(2, 0, 1)[None]


def _collate(decoded: Iterable[Tensor], device: Device) -> Tensor:
    none = torch.empty((0, 3, SIDE, SIDE), dtype=torch.uint8)
    return to_unit(torch.cat([none, *decoded]).to(device))
