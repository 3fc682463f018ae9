"""What tells two splits apart: `Split.digest`."""

import hashlib
from pathlib import Path

import pytest
import torch
from PIL import Image

from shieldwall.data.datasets import load
from shieldwall.data.folder import FolderSplit
from shieldwall.data.splits import Split, TensorSplit

PIXELS = torch.arange(24, dtype=torch.uint8).reshape(3, 2, 2, 2) * 10
LABELS = torch.tensor([2, 0, 7])


def test_it_is_the_hash_of_shape_labels_and_pixels():
    written = (
        b"torch.uint8 (3, 2, 2, 2) "
        + b"".join(label.to_bytes(8, "little") for label in (2, 0, 7))
        + bytes(range(0, 240, 10))
    )
    assert TensorSplit(PIXELS, LABELS).digest() == hashlib.sha256(written).hexdigest()


@pytest.mark.parametrize(
    ("pixels", "labels"),
    [
        (PIXELS.index_fill(0, torch.tensor([1]), 1), LABELS),
        (PIXELS, torch.tensor([2, 0, 6])),
        (PIXELS.reshape(3, 1, 2, 4), LABELS),
        (PIXELS.flip(0), LABELS),
        (PIXELS / 255, LABELS),
    ],
)
def test_another_pixel_label_shape_order_or_kind_is_another_digest(pixels, labels):
    assert TensorSplit(pixels, labels).digest() != TensorSplit(PIXELS, LABELS).digest()


def test_it_does_not_depend_on_how_the_split_is_kept():
    digest = TensorSplit(PIXELS, LABELS).digest()
    turned = PIXELS.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert TensorSplit(turned, LABELS).digest() == digest
    assert TensorSplit(PIXELS, LABELS, augment=lambda x, _: x).digest() == digest
    assert TensorSplit(PIXELS, LABELS).subset([0, 1, 2]).digest() == digest
    assert TensorSplit(PIXELS, LABELS).subset([0, 1]).digest() != digest


class Halves(TensorSplit):
    """A split of a user's own: only the four methods, no way to hash of its own."""

    digest = Split.digest


@pytest.mark.parametrize("count", [1, 256, 600])
def test_any_split_is_hashed_by_its_images(count: int):
    images, labels = torch.rand(count, 1, 3, 2), torch.arange(count)
    split = Halves(images, labels)
    last = images.clone()
    last[-1, 0, 0, 0] = 0
    assert split.digest() == Halves(images.clone(), labels).digest()
    assert split.digest() != Halves(last, labels).digest()
    assert split.digest() == TensorSplit(images, labels).digest()


def test_class_folders_are_told_apart_without_opening_an_image(tmp_path: Path):
    def folder(name: str, file: str = "a.png", size: tuple[int, int] = (9, 9), label: int = 0) -> FolderSplit:
        place = tmp_path / name / "n01"
        place.mkdir(parents=True)
        Image.new("RGB", size).save(place / file)
        return FolderSplit([str(place / file)], torch.tensor([label]))

    first = folder("first")
    others = [folder("named", "b.png"), folder("sized", size=(90, 90)), folder("labelled", label=1)]
    size = Path(first.paths[0]).stat().st_size
    assert first.digest() == hashlib.sha256(f"0 n01/a.png {size}\n".encode()).hexdigest()
    assert first.digest() == folder("elsewhere").digest()
    assert len({first.digest(), *(other.digest() for other in others)}) == 4


def test_the_packaged_digits_stay_the_same():
    data = load("digits")
    assert data.train.digest() == "a85a9e3d998dff00d088d8fbd1291336c00ccc9cb4944d0e69d1e95c50302a84"
    assert data.test.digest() == "b88dd7dbd89be7acbd33d6b3270eb27f583b732906a92cf6c7b85c9831ada8ad"
