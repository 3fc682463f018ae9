"""A data set: two splits of images in [0, 1] with labels; and checks of a user's tensors."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from shieldwall.data.images import read_image_files
from shieldwall.distributed import SINGLE, ProcessGroup
from shieldwall.errors import UserError, check

Device = torch.device | str
Rows = Sequence[int] | Tensor
Batches = Iterator[tuple[Tensor, Tensor]]
Augmentation = Callable[[Tensor, Generator], Tensor]


class Split(ABC):
    """One split: images given by index, and labels (M,) int64 on the split's device."""

    labels: Tensor

    @staticmethod
    def from_tensors(images: Tensor, labels: Tensor, *, augment: Augmentation | None = None) -> "Split":
        """Your own images in memory, for `sw.train`: (M, C, H, W), uint8 from 0 to 255 or floats in [0, 1].

        Args:
            labels: (M,), the class of each image, counted from 0.
            augment: changes each batch of training, (images, generator) -> images: crops and flips.
        """
        pixels = _checked_images(images)
        return TensorSplit(pixels, _checked_labels(labels, pixels), augment)

    @staticmethod
    def from_folder(path: str | Path, *, labels: str | Path | None = None, size: int | None = None,
                    augment: Augmentation | None = None) -> "Split":  # fmt: skip
        """Image files, one folder for each class, read into memory.

        Args:
            labels: a CSV file with the columns `file` and `label` instead of class folders; labels.csv in the
                folder is found by itself. Without labels all are -1.
            size: the side of the square that images are resized and cut to; by default all have one size.
            augment: as for `from_tensors`.
        """
        table = None if labels is None else Path(labels)
        pixels, numbers, _ = read_image_files(Path(path), labels=table, size=size)
        return TensorSplit(pixels, numbers, augment)

    def __len__(self) -> int:
        return self.labels.shape[0]

    @property
    def device(self) -> torch.device:
        return self.labels.device

    @abstractmethod
    def images(self, indices: Rows) -> Tensor:
        """These images unaugmented: float32 in [0, 1], (B, C, H, W), on the split's device."""

    @abstractmethod
    def to(self, device: Device) -> "Split": ...

    @abstractmethod
    def subset(self, rows: Sequence[int]) -> "Split": ...  # these images alone, in this order

    @abstractmethod
    def batches(self, batch_size: int, generator: Generator, device: Device, first: int = 0,
                world: ProcessGroup = SINGLE) -> Batches:  # fmt: skip
        """One shuffled epoch of (x, y) on `device`, augmented where the split is, drawn from a CPU
        generator. The batches before the `first` are left out, with the same draws. Of x only this
        process's share has to be right."""

    def digest(self) -> str:
        """SHA-256 of the images' shape, the labels and every pixel; all images are read once."""
        rows, step = range(len(self)), 256
        chunks = (self.images(rows[start : start + step]) for start in rows[::step])
        return _digest((len(rows), *self.images(rows[:1]).shape[1:]), self.labels, torch.float32, chunks)


class TensorSplit(Split):
    """A split in memory, as uint8 or as float32 in [0, 1], (M, C, H, W)."""

    def __init__(self, pixels: Tensor, labels: Tensor, augment: Augmentation | None = None) -> None:
        self.pixels, self.labels, self.augment = pixels, labels, augment

    def images(self, indices: Rows) -> Tensor:
        rows = torch.as_tensor(indices, dtype=torch.int64, device=self.device)
        return to_float(self.pixels[rows])

    def to(self, device: Device) -> "TensorSplit":
        return TensorSplit(self.pixels.to(device), self.labels.to(device), self.augment)

    def subset(self, rows: Sequence[int]) -> "TensorSplit":
        indices = torch.as_tensor(rows, dtype=torch.int64, device=self.device)
        return TensorSplit(self.pixels[indices], self.labels[indices], self.augment)

    def batches(self, batch_size: int, generator: Generator, device: Device, first: int = 0,
                world: ProcessGroup = SINGLE) -> Batches:  # fmt: skip
        order = torch.randperm(len(self), generator=generator).to(self.device)
        for number, rows in enumerate(torch.split(order, batch_size)):
            x = to_float(self.pixels[rows].to(device))
            if self.augment is not None:
                x = self.augment(x, generator)
            if number >= first:
                yield x, self.labels[rows].to(device)

    def digest(self) -> str:
        return _digest(tuple(self.pixels.shape), self.labels, self.pixels.dtype, [self.pixels])


@dataclass(frozen=True)
class Dataset:
    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    shape: tuple[int, int, int]  # of an image, (C, H, W)


def to_float(pixels: Tensor) -> Tensor:
    """uint8 0..255 as float32 0..1, with the same bits on every device; float32 as it is."""
    if pixels.is_floating_point():
        return pixels
    # Dividing by a Python number on CUDA multiplies by its reciprocal, which rounds differently.
    return pixels.float() / torch.full((), 255.0, device=pixels.device)


def crop_and_flip(x: Tensor, generator: Generator, padding: int = 4) -> Tensor:
    """Each image (B, C, H, W) cut out at random from its zero-padded self and, half the time, mirrored."""
    count, channels, height, width = x.shape

    def draw(below: int) -> Tensor:  # on the generator's device, so that every device sees the same draws
        return torch.randint(below, (count, 1), generator=generator, device=generator.device).to(x.device)

    top, left, mirrored = draw(2 * padding + 1), draw(2 * padding + 1), draw(2)
    rows = top + torch.arange(height, device=x.device)
    across = torch.arange(width, device=x.device)
    columns = left + torch.where(mirrored == 1, across.flip(0), across)
    padded = F.pad(x, (padding, padding, padding, padding))
    places = rows[:, :, None] * padded.shape[3] + columns[:, None, :]
    # One gather over flat pixels: indexing each axis is several times slower on a CPU.
    return padded.flatten(2).gather(2, places.view(count, 1, -1).expand(-1, channels, -1)).view_as(x)


def check_split(source: str, pixels: Tensor, labels: Tensor, shape: tuple[int, ...], classes: int) -> None:
    """Check that images are of `shape`, and that each has a label in 0..`classes`-1."""
    size, numbers = tuple(pixels.shape[1:]), tuple(labels.shape)
    check(size == shape, f"{source}: images must be {shape}", size)
    is_one_each = numbers == (len(pixels),) != (0,)
    check(is_one_each, f"{source}: labels must be one for each of {len(pixels):,} images", numbers)
    low, high = int(labels.min()), int(labels.max())
    check(0 <= low <= high < classes, f"{source}: labels must be 0 to {classes - 1}", f"{low} to {high}")


def _checked_images(images: Tensor) -> Tensor:
    check(isinstance(images, Tensor), "images must be a torch tensor (M, C, H, W)", type(images).__name__)
    if images.ndim != 4 or not images.numel():
        given = f"{tuple(images.shape)}{'; for grey images pass images[:, None]' * (images.ndim == 3)}"
        raise UserError(f"images must be a batch (M, C, H, W) of at least one; given shape: {given}")
    if images.dtype == torch.uint8:
        return images
    given = (
        f"{str(images.dtype).removeprefix('torch.')}; for pixels from 0 to 255 call .to(torch.uint8) first"
    )
    check(images.is_floating_point(), "images must be uint8, or floats in [0, 1]", given)
    images = images.detach().float()
    low, high = (float(end) for end in images.aminmax())
    check(not images.isnan().any(), "images must not contain NaN; repair or remove those that do", "NaN")
    given = f"[{low:g}, {high:g}]; divide pixels by 255, and normalise inside the model (sw.Normalize)"
    check(low >= 0 and high <= 1, "images that are floats must lie in [0, 1]", given)
    return images


def _checked_labels(labels: Tensor, images: Tensor) -> Tensor:
    check(isinstance(labels, Tensor), "labels must be a torch tensor (M,)", type(labels).__name__)
    if labels.shape != images.shape[:1]:
        given = f"{tuple(labels.shape)}{'; of one-hot labels pass labels.argmax(1)' * (labels.ndim == 2)}"
        raise UserError(f"labels must be one for each of {len(images):,} images; given shape: {given}")
    is_whole = not (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool)
    kind = str(labels.dtype).removeprefix("torch.")
    check(is_whole, "labels must be whole numbers, such as int64", f"{kind}; call .long() first")
    labels = labels.to(images.device, torch.int64)
    check(int(labels.min()) >= 0, "labels must be classes, counted from 0", int(labels.min()))
    return labels


def _digest(shape: tuple[int, ...], labels: Tensor, dtype: torch.dtype, chunks: Iterable[Tensor]) -> str:
    digest = hashlib.sha256(f"{dtype} {shape} ".encode())
    for values in chain([labels], chunks):
        digest.update(values.cpu().contiguous().numpy().data)
    return digest.hexdigest()
