"""What a data set is: two splits of images in [0, 1] with their labels."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from shieldwall.data.checks import checked_images, checked_labels

Device = torch.device | str
Rows = Sequence[int] | Tensor
Batches = Iterator[tuple[Tensor, Tensor]]
Augmentation = Callable[[Tensor, Generator], Tensor]


class Split(ABC):
    """One split: images given by index, and labels (M,) int64 on the split's device."""

    labels: Tensor

    @staticmethod
    def from_tensors(images: Tensor, labels: Tensor, *, augment: Augmentation | None = None) -> "Split":
        """Your own images in memory, for `sw.train`.

        Args:
            images: (M, C, H, W), uint8 from 0 to 255 or floats in [0, 1].
            labels: (M,), the class of each image, counted from 0.
            augment: changes each batch of training, (images, generator) -> images: crops and flips.
        """
        pixels = checked_images(images)
        return ResidentSplit(pixels, checked_labels(labels, pixels), augment)

    def __len__(self) -> int:
        return self.labels.shape[0]

    @property
    def device(self) -> torch.device:
        return self.labels.device

    @abstractmethod
    def images(self, indices: Rows) -> Tensor:
        """These images unaugmented: float32 in [0, 1], (B, C, H, W), on the split's device."""

    @abstractmethod
    def to(self, device: Device) -> "Split":
        """The same split on another device."""

    @abstractmethod
    def subset(self, rows: Sequence[int]) -> "Split":
        """These images alone, in this order."""

    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of what the split holds: it differs where labels or images do."""

    @abstractmethod
    def batches(self, batch_size: int, generator: Generator, device: Device) -> Batches:
        """One shuffled epoch of (x, y) on `device`, augmented where the split is, drawn from a CPU
        generator; the last batch may be smaller."""


class ResidentSplit(Split):
    """A split held whole in memory as uint8 or as float32 in [0, 1], (M, C, H, W)."""

    def __init__(self, pixels: Tensor, labels: Tensor, augment: Augmentation | None = None) -> None:
        self.pixels = pixels
        self.labels = labels
        self.augment = augment

    def images(self, indices: Rows) -> Tensor:
        rows = torch.as_tensor(indices, dtype=torch.int64, device=self.device)
        return to_unit(self.pixels[rows])

    def to(self, device: Device) -> "ResidentSplit":
        return ResidentSplit(self.pixels.to(device), self.labels.to(device), self.augment)

    def subset(self, rows: Sequence[int]) -> "ResidentSplit":
        chosen = torch.as_tensor(rows, dtype=torch.int64, device=self.device)
        return ResidentSplit(self.pixels[chosen], self.labels[chosen], self.augment)

    def digest(self) -> str:
        """Over the shape and type of the pixels, the labels, and the pixels."""
        sha = hashlib.sha256(f"{self.pixels.dtype} {tuple(self.pixels.shape)} ".encode())
        for part in (self.labels, self.pixels):
            sha.update(part.cpu().contiguous().numpy().data)
        return sha.hexdigest()

    def batches(self, batch_size: int, generator: Generator, device: Device) -> Batches:
        order = torch.randperm(len(self), generator=generator).to(self.device)
        for rows in torch.split(order, batch_size):
            x = to_unit(self.pixels[rows].to(device))
            if self.augment is not None:
                x = self.augment(x, generator)
            yield x, self.labels[rows].to(device)


@dataclass(frozen=True)
class Dataset:
    """A named data set, its class names and the shape (C, H, W) of its images."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    shape: tuple[int, int, int]


def to_unit(pixels: Tensor) -> Tensor:
    """uint8 0..255 as float32 0..1, with the same bits on every device; float32 as it is."""
    if pixels.is_floating_point():
        return pixels
    # Dividing by a Python number on CUDA multiplies by its reciprocal, which rounds differently.
    return pixels.float() / torch.full((), 255.0, device=pixels.device)
