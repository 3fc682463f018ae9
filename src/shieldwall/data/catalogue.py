"""The data sets by name: what each one is, and how its splits are made."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from torch import Tensor

from shieldwall.data import cifar, digits, folder, idx
from shieldwall.data.augment import crop_and_flip
from shieldwall.data.checks import check_split
from shieldwall.data.crops import SIDE
from shieldwall.data.dataset import Augmentation, Dataset, ResidentSplit
from shieldwall.data.locate import NAMES, Found, locate, roots
from shieldwall.errors import UserError, unknown_name

Raw = tuple[Tensor, Tensor]


class Status(NamedTuple):
    """Where a set lies, if it is there whole, and what it is."""

    name: str
    place: Path | Literal["built in"] | None
    description: str


class Outline(NamedTuple):
    """What a set's images are like: the shape (C, H, W), and the names of the classes."""

    shape: tuple[int, int, int]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class _Resident:
    """How a set small enough for memory is read."""

    read: Callable[[Found], tuple[Raw, Raw]]
    augment: Augmentation | None = None


def outline(name: str) -> Outline:
    """What the data set `name` is like, without its files.

    ImageNet's class names are those of its folders; here they are the numbers 0 to 999.
    """
    if name not in _OUTLINES:
        raise unknown_name("data set", name, _OUTLINES)
    return _OUTLINES[name]


def load(name: str, data_dir: Path | str | None = None) -> Dataset:
    """The data set `name`, from the first place that holds it."""
    if name not in NAMES:
        raise unknown_name("data set", name, NAMES)
    if name == "digits":
        return _resident(Found(name, Path("digits"), {}))
    found = locate(name, data_dir)
    if name == "imagenet":
        train, test, classes = folder.read(found.members["train"], found.members["val"])
        return Dataset(name, train, test, classes, outline(name).shape)
    return _resident(found)


def status(data_dir: Path | str | None = None) -> list[Status]:
    """For every set, where it was found, and a line about it."""
    roots(data_dir)  # a data folder that does not exist is an error, not a set that is missing
    return [Status(name, _place(name, data_dir), line) for name, line in _DESCRIPTIONS.items()]


def _place(name: str, data_dir: Path | str | None) -> Path | Literal["built in"] | None:
    if name == "digits":
        return "built in"
    try:
        return locate(name, data_dir).folder
    except UserError:
        return None


def _resident(found: Found) -> Dataset:
    kind, (shape, classes) = _RESIDENT[found.name], outline(found.name)
    train, test = kind.read(found)
    for part, (pixels, labels) in (("training", train), ("test", test)):
        check_split(f"the {part} split of {found.folder}", pixels, labels, shape, len(classes))
    return Dataset(found.name, ResidentSplit(*train, kind.augment), ResidentSplit(*test), classes, shape)


def _read_idx(found: Found) -> tuple[Raw, Raw]:
    def part(prefix: str) -> Raw:
        images, labels = (found.members[f"{prefix}-{kind}-ubyte"] for kind in ("images-idx3", "labels-idx1"))
        return idx.read_images(images, found.name), idx.read_labels(labels, found.name)

    return part("train"), part("t10k")


def _read_cifar(found: Found) -> tuple[Raw, Raw]:
    *train, test = found.members.values()
    return cifar.read(train), cifar.read([test])


_DIGITS = tuple("0123456789")
_GARMENTS = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
_THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_OUTLINES = {
    "digits": Outline((1, 8, 8), _DIGITS),
    "mnist": Outline((1, 28, 28), _DIGITS),
    "fashion-mnist": Outline((1, 28, 28), _GARMENTS),
    "cifar10": Outline((3, 32, 32), _THINGS),
    "imagenet": Outline((3, SIDE, SIDE), tuple(str(label) for label in range(1000))),
}

_RESIDENT = {
    "digits": _Resident(lambda _: digits.read()),
    "mnist": _Resident(_read_idx),
    "fashion-mnist": _Resident(_read_idx),
    "cifar10": _Resident(_read_cifar, crop_and_flip),
}

_DESCRIPTIONS = {
    "digits": "1,797 handwritten digits of 8 x 8 pixels, part of scikit-learn",
    "mnist": "70,000 handwritten digits of 28 x 28 pixels",
    "fashion-mnist": "70,000 garments of 28 x 28 pixels, ten classes",
    "cifar10": "60,000 colour images of 32 x 32 pixels, ten classes",
    "imagenet": f"class folders of colour images, cut to {SIDE} x {SIDE} pixels",
}
