"""The known data sets by name: where each is, how it is downloaded and loaded; torch-free until then."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode

from rich.console import Console

from shieldwall.console import QUIET
from shieldwall.errors import UserError, checked, unknown_name
from shieldwall.texts import read_yaml

if TYPE_CHECKING:
    from shieldwall.data.splits import Dataset

Place = Path | Literal["built in"] | None
OWN = "folder:"  # what the name of a folder of your own images starts with


class DatasetSpec(NamedTuple):
    """The shape (C, H, W) of a data set's images, and the names of the classes."""

    shape: tuple[int, int, int]
    classes: tuple[str, ...]


class Location(NamedTuple):
    folder: Path
    members: Mapping[str, Path]


@dataclass(frozen=True)
class _Known:
    description: str
    shape: tuple[int, int, int]
    classes: Sequence[str] | int  # the names, or how many there are, which are then named by number
    sizes: tuple[int, int]
    folders: Sequence[str] = ()
    members: Sequence[str] = ()
    suffixes: Sequence[str] = ("",)
    url: str = ""
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    advice: str = ""
    unpacked: Sequence[str] = ()  # SHA-256 of each member, where `files` is an archive of them


_SETS = read_yaml(Path(__file__).with_name("sets.yaml"))[0]
KNOWN = {name: _Known(**content) for name, content in _SETS.items()}
NAMES = tuple(KNOWN)


def own_name(folder: Path | str, options: Mapping[str, str]) -> str:
    """The name of a folder of images as a data set: folder:PATH?labels=FILE&size=224&classes=10."""
    return f"{OWN}{folder}" + (f"?{urlencode(options)}" if options else "")


def _load_own(name: str) -> "Dataset":
    """The images of a folder: those of train/ and of test/ or val/, or all of them for tests."""
    from shieldwall.data.images import BY_NUMBER, read_image_files
    from shieldwall.data.splits import Dataset, TensorSplit

    folder, _, query = name.removeprefix(OWN).partition("?")
    options = dict(parse_qsl(query))
    if unknown := set(options) - {"labels", "size", "classes"}:
        raise unknown_name("option of a folder", unknown.pop(), ("labels", "size", "classes"))
    size = int(options["size"]) if options.get("size", "").isdecimal() else None
    part, labels = Path(folder), Path(options["labels"]) if "labels" in options else None
    if (part / "train").is_dir():
        *train, trained = read_image_files(part / "train", size=size)
        part /= "test" if (part / "test").is_dir() else "val"
        *test, classes = read_image_files(part, labels=labels, size=size, classes=trained)
        if train[0].shape[1:] != test[0].shape[1:]:
            raise UserError(f"images in {folder}/train and {part} differ in size or colours; add ?size=N")
    else:
        *test, classes = read_image_files(part, labels=labels, size=size)
        train = [tensor[:0] for tensor in test]
        numbers = tuple(map(str, range(int(options.get("classes", 0)))))
        if 0 < len(numbers) != len(classes):
            if not {*classes} <= {*numbers}:
                raise UserError(f"{part} has {len(classes)} classes, the model {len(numbers)}; {BY_NUMBER}")
            classes = numbers
    _, channels, height, width = test[0].shape
    splits = TensorSplit(train[0], train[1]), TensorSplit(test[0], test[1])
    return Dataset(name, *splits, classes, (channels, height, width))


@checked
def dataset_spec(name: str) -> DatasetSpec:
    """The shape (C, H, W) and the class names of the data set `name`, without its files; ImageNet's classes
    are named by numbers here, and by its folders once it is loaded."""
    if name.startswith(OWN):
        own = _load_own(name)
        return DatasetSpec(own.shape, own.classes)
    known = _known(name)
    names = map(str, range(known.classes)) if isinstance(known.classes, int) else known.classes
    return DatasetSpec((known.shape[0], known.shape[1], known.shape[2]), tuple(names))


def split_sizes(name: str, data_dir: Path | str | None = None) -> tuple[int, int]:
    """The numbers of training and test images: of the files on this machine, or else as published."""
    if name.startswith(OWN):
        own = _load_own(name)
        return len(own.train), len(own.test)
    train, test = _known(name).sizes
    if place(name, data_dir) in (None, "built in"):
        return train, test
    paths = list(locate(name, data_dir).members.values())
    if name == "cifar10":
        *batches, test = (path.stat().st_size // 3073 for path in paths)
        return sum(batches), test
    if name.startswith("imagenet"):
        train, test = (sum(1 for _ in path.glob("*/*")) for path in paths)
    else:
        train, test = map(_idx_length, paths[1::2])
    return train, test


def _idx_length(labels: Path) -> int:
    """How many labels there are, after 8 bytes; a gzip file ends with its unpacked size."""
    is_packed = labels.suffix == ".gz"
    size = int.from_bytes(labels.read_bytes()[-4:], "little") if is_packed else labels.stat().st_size
    return size - 8


@checked
def load(name: str, data_dir: Path | str | None = None) -> "Dataset":
    """The data set `name` from the first folder that holds it, or the images of folder:PATH."""
    if name.startswith(OWN):
        return _load_own(name)
    import torch

    from shieldwall.data import files
    from shieldwall.data.folder import read_folders
    from shieldwall.data.splits import Dataset, TensorSplit, check_split, crop_and_flip

    shape, classes = dataset_spec(name)
    location = locate(name, data_dir)
    paths = list(location.members.values())
    if name.startswith("imagenet"):
        train_split, test_split, classes = read_folders(paths[0], paths[1], shape[-1])
        return Dataset(name, train_split, test_split, classes, shape)
    if name == "digits":
        train, test = files.read_digits()
    elif name == "cifar10":
        train, test = files.read_cifar(paths[:-1]), files.read_cifar(paths[-1:])
    else:
        train, test = files.read_idx(name, *paths[:2]), files.read_idx(name, *paths[2:])
    splits = []
    for part, arrays in (("training", train), ("test", test)):
        pixels, labels = map(torch.from_numpy, arrays)
        check_split(f"the {part} split of {location.folder}", pixels, labels, shape, len(classes))
        is_augmented = name == "cifar10" and part == "training"
        splits.append(TensorSplit(pixels, labels, crop_and_flip if is_augmented else None))
    return Dataset(name, splits[0], splits[1], classes, shape)


def fetch(name: str, destination: Path | None = None, base_url: str | None = None,
          console: Console = QUIET) -> Path:  # fmt: skip
    """Download the missing files of a data set, by default into the first root, and return its folder."""
    from shieldwall.data.files import download, has_sha256, unpack

    known = _known(name)
    if not known.files:
        raise UserError(f"{name} cannot be fetched: {known.advice}")
    root = destination or roots()[0]
    folder = root / known.folders[0]
    members = (folder / f"{member}{known.suffixes[0]}" for member in known.members)
    if known.unpacked and all(map(has_sha256, members, known.unpacked)):
        return folder
    url = (base_url or known.url).rstrip("/") + "/"
    for file, (size, sha256) in known.files.items():
        target = (root if known.unpacked else folder) / file
        download(url + file, target, size, sha256, console)
        if known.unpacked:
            unpack(target, folder)
    return folder


def status(data_dir: Path | str | None = None) -> list[tuple[str, Place, str]]:
    return [(name, place(name, data_dir), known.description) for name, known in KNOWN.items()]


def place(name: str, data_dir: Path | str | None = None) -> Place:
    """The folder of a data set, None where it is not here; a data folder that is not there is an error."""
    roots(data_dir)
    try:
        return "built in" if name == "digits" else locate(name, data_dir).folder
    except UserError:
        return None


def roots(data_dir: Path | str | None = None) -> list[Path]:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    named = [data_dir, os.environ.get("SHIELDWALL_DATA"), f"{cache}/shieldwall"]
    # Path.expanduser fails where there is no home, as an unknown user has none.
    places = [Path(os.path.expanduser(place)) for place in named if place]  # noqa: PTH111
    if data_dir is not None and not places[0].is_dir():
        raise UserError(f"the data folder {data_dir} does not exist, or is not a folder")
    if not (places := [place for place in places if place.parts[:1] != ("~",)]):
        raise UserError("there is no home folder; name a data folder with --data-dir or $SHIELDWALL_DATA")
    return list(dict.fromkeys(places))


def locate(name: str, data_dir: Path | str | None = None) -> Location:
    """The first complete copy of the data set `name`; the error says what is missing or where it looked."""
    known = _known(name)
    if not known.members:
        return Location(Path(name), {})
    folders = [root / below for root in roots(data_dir) for below in known.folders]
    reasons = []
    for folder in folders:
        members: dict[str, Path] = {}
        for member in known.members:  # with the first suffix that exists
            paths = (folder / (member + suffix) for suffix in known.suffixes)
            if path := next(filter(Path.exists, paths), None):
                members[member] = path
        if len(members) == len(known.members):
            return Location(folder, members)
        if members:
            missing = next(member for member in known.members if member not in members) + known.suffixes[0]
            reasons.append(f"{name} in {folder} is incomplete: {missing} is missing")
    reasons.append(f"{name} was not found; looked in {', '.join(map(str, folders))}")
    raise UserError(f"{reasons[0]}; {known.advice or f'run `shieldwall data fetch {name}`'}")


def _known(name: str) -> _Known:
    if name not in KNOWN:
        raise unknown_name("data set", name, NAMES)
    return KNOWN[name]
