"""Where on this machine a data set lies."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shieldwall.errors import UserError

NAMES = ("digits", "mnist", "fashion-mnist", "cifar10", "imagenet")
IMAGENET_ADVICE = (
    "ImageNet must be obtained from its owners; lay it out as imagenet/train/<class>/*.JPEG and "
    "imagenet/val/<class>/*.JPEG in a data folder, and give that folder or name it in $SHIELDWALL_DATA"
)


@dataclass(frozen=True)
class Layout:
    """Folders below a root that may hold a set, and what each must then contain."""

    folders: tuple[str, ...]
    members: tuple[str, ...]
    suffixes: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Found:
    """A set's folder and the path of each of its members."""

    name: str
    folder: Path
    members: Mapping[str, Path]


_IDX = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
_BINARY, _PICKLED = "cifar-10-batches-bin", "cifar-10-batches-py"

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "mnist": (Layout(("mnist", "MNIST/raw"), _IDX, (".gz", "")),),
    "fashion-mnist": (Layout(("fashion-mnist", "FashionMNIST/raw"), _IDX, (".gz", "")),),
    "cifar10": (
        Layout((_BINARY, f"cifar10/{_BINARY}"), _BATCHES, (".bin",)),
        Layout((_PICKLED, f"cifar10/{_PICKLED}"), _BATCHES),
    ),
    "imagenet": (Layout(("imagenet",), ("train", "val")),),
}


def roots(data_dir: Path | str | None = None) -> list[Path]:
    """The folders to search, in this order."""
    places: list[Path] = []
    if data_dir is not None:
        places.append(Path(data_dir).expanduser())
        if not places[0].is_dir():
            raise UserError(f"the data folder {data_dir} does not exist, or is not a folder")
    if named := os.environ.get("SHIELDWALL_DATA"):
        places.append(Path(named).expanduser())
    cache = os.environ.get("XDG_CACHE_HOME")
    places.append((Path(cache) if cache else Path.home() / ".cache") / "shieldwall")
    return list(dict.fromkeys(places))


def locate(name: str, data_dir: Path | str | None = None) -> Found:
    """The first complete copy of the set `name`; else what is missing, or every place looked in."""
    looked: list[Path] = []
    partial: UserError | None = None
    for root in roots(data_dir):
        for layout in LAYOUTS[name]:
            for folder in (root / below for below in layout.folders):
                looked.append(folder)
                members = _members(folder, layout)
                missing = [member for member in layout.members if member not in members]
                if not missing:
                    return Found(name, folder, members)
                if members and partial is None:
                    first = missing[0] + layout.suffixes[0]
                    partial = UserError(
                        f"{name} in {folder} is incomplete: {first} is missing; {_advice(name)}"
                    )
    raise partial or UserError(
        f"{name} was not found; looked in {', '.join(map(str, looked))}; {_advice(name)}"
    )


def _members(folder: Path, layout: Layout) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for member in layout.members:
        for path in (folder / (member + suffix) for suffix in layout.suffixes):
            if path.exists():
                found.setdefault(member, path)
    return found


def _advice(name: str) -> str:
    return IMAGENET_ADVICE if name == "imagenet" else f"run `shieldwall data fetch {name}`"
