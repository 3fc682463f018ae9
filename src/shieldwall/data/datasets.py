"""The known data sets by name: what each one is, where it is stored, how it is downloaded and loaded.

Torch-free until a set is loaded.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode

from shieldwall.errors import UserError, checked, unknown_name

if TYPE_CHECKING:
    from shieldwall.data.splits import Dataset


OWN = "folder:"
"""What the name of a folder of your own images starts with."""


class DatasetSpec(NamedTuple):
    """The shape (C, H, W) of a data set's images, and the names of the classes."""

    shape: tuple[int, int, int]
    classes: tuple[str, ...]


class Status(NamedTuple):
    """The folder of a data set, if it is complete, and a description."""

    name: str
    place: Path | Literal["built in"] | None
    description: str


@dataclass(frozen=True)
class Location:
    """The folder of a data set and the path of each of its files."""

    folder: Path
    members: Mapping[str, Path]


@dataclass(frozen=True)
class _Known:
    """A data set: the folders below a root that may hold it, the files each must contain, and its source."""

    description: str
    spec: DatasetSpec
    folders: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ("",)
    url: str = ""
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)  # bytes and SHA-256
    advice: str = ""
    unpacked: tuple[str, ...] = ()
    """SHA-256 of each member, where `files` is an archive of them."""


_DIGITS = tuple("0123456789")
_GARMENTS = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
_THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_IDX = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
_IMAGENET = (
    "ImageNet must be obtained from its owners; lay it out as imagenet/train/<class>/*.JPEG and "
    "imagenet/val/<class>/*.JPEG in a data folder, and give that folder or name it in $SHIELDWALL_DATA"
)
_CIFAR_SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
_CIFAR_BATCHES = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
)


def _idx_set(
    description: str, classes: tuple[str, ...], folders: tuple[str, ...], url: str, *files: tuple[int, str]
) -> _Known:
    """A data set in MNIST's format; `files` are the sizes and checksums of `_IDX`."""
    published = {f"{member}.gz": file for member, file in zip(_IDX, files, strict=True)}
    return _Known(description, DatasetSpec((1, 28, 28), classes), folders, _IDX, (".gz", ""), url, published)


KNOWN = {
    "digits": _Known(
        "1,797 handwritten digits of 8 x 8 pixels, part of this package",
        DatasetSpec((1, 8, 8), _DIGITS),
    ),
    "mnist": _idx_set(
        "70,000 handwritten digits of 28 x 28 pixels",
        _DIGITS,
        ("mnist", "MNIST/raw"),
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
    "fashion-mnist": _idx_set(
        "70,000 garments of 28 x 28 pixels, ten classes",
        _GARMENTS,
        ("fashion-mnist", "FashionMNIST/raw"),
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        (26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        (4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
    "cifar10": _Known(
        "60,000 colour images of 32 x 32 pixels, ten classes",
        DatasetSpec((3, 32, 32), _THINGS),
        ("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"),
        (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"),
        (".bin",),
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-10-binary.tar.gz": (170_052_171, _CIFAR_SHA256)},
        "run `shieldwall data fetch cifar10` (the binary version; the python version is not read)",
        _CIFAR_BATCHES,
    ),
    **{
        name: _Known(
            f"class folders of colour images, cut to {side} x {side} pixels",
            DatasetSpec((3, side, side), tuple(map(str, range(1000)))),
            ("imagenet",),
            ("train", "val"),
            advice=_IMAGENET,
        )
        for name, side in (("imagenet", 224), ("imagenet-64", 64))
    },
}
NAMES = tuple(KNOWN)
_PUBLISHED_SIZES = {
    "digits": (1_437, 360), "mnist": (60_000, 10_000), "fashion-mnist": (60_000, 10_000),
    "cifar10": (50_000, 10_000), "imagenet": (1_281_167, 50_000), "imagenet-64": (1_281_167, 50_000),
}  # fmt: skip


def own_name(folder: Path | str, options: Mapping[str, str]) -> str:
    """The name of a folder of images as a data set: folder:PATH?labels=FILE&size=224&classes=10."""
    return f"{OWN}{folder}" + (f"?{urlencode(options)}" if options else "")


def _load_own(name: str) -> "Dataset":
    """The images of a folder: those of train/ and of test/ or val/, or all of them for tests."""
    import torch

    from shieldwall.data.image_files import read_image_files
    from shieldwall.data.splits import Dataset, TensorSplit

    folder, _, query = name.removeprefix(OWN).partition("?")
    options = dict(parse_qsl(query))
    if unknown := set(options) - {"labels", "size", "classes"}:
        raise unknown_name("option of a folder", unknown.pop(), ("labels", "size", "classes"))
    size = int(options["size"]) if options.get("size", "").isdecimal() else None
    labels = Path(options["labels"]) if "labels" in options else None
    given = tuple(map(str, range(int(options.get("classes", 0)))))
    part, train = Path(folder), None
    if (part / "train").is_dir():
        train = read_image_files(part / "train", size=size)
        part, given = part / ("test" if (part / "test").is_dir() else "val"), train.classes
    test = read_image_files(part, labels=labels, size=size, classes=() if train is None else given)
    if train is None and len(test.classes) < len(given) and not set(test.classes) <= set(given):
        raise UserError(
            f"{part} has {len(test.classes)} classes and the model {len(given)}; name class folders, or "
            "labels, by the class's number"
        )
    if len(test.classes) > len(given) > 0:
        raise UserError(f"{part} has {len(test.classes)} classes, and the model only {len(given)}")
    classes = test.classes if len(test.classes) == len(given) or not given else given
    everything = TensorSplit(torch.from_numpy(test.pixels), torch.from_numpy(test.labels))
    first = (
        everything.subset([])
        if train is None
        else TensorSplit(torch.from_numpy(train.pixels), torch.from_numpy(train.labels))
    )
    _, channels, height, width = test.pixels.shape
    if train is not None and train.pixels.shape[1:] != test.pixels.shape[1:]:
        raise UserError(f"the images in {folder}/train and in {part} differ in size or colours; add ?size=N")
    return Dataset(name, first, everything, classes, (channels, height, width))


@checked
def dataset_spec(name: str) -> DatasetSpec:
    """The shape (C, H, W) and the class names of the data set `name`, without its files.

    ImageNet's class names are those of its folders; here they are the numbers 0 to 999. Those of a folder of
    your own are read.
    """
    if name.startswith(OWN):
        own = _load_own(name)
        return DatasetSpec(own.shape, own.classes)
    return _known(name).spec


def split_sizes(name: str, data_dir: Path | str | None = None) -> tuple[int, int]:
    """The numbers of training and test images: of the files on this machine, or else as published."""
    if name.startswith(OWN):
        own = _load_own(name)
        return len(own.train), len(own.test)
    try:
        paths = list(locate(name, data_dir).members.values()) if KNOWN[name].folders else []
    except UserError:
        paths = []
    if not paths:
        return _PUBLISHED_SIZES[name]
    if name.startswith("imagenet"):
        train, test = (sum(1 for _ in path.glob("*/*")) for path in paths)
        return train, test
    if name == "cifar10":
        *train_sizes, size = (path.stat().st_size // 3073 for path in paths)
        return sum(train_sizes), size
    return _idx_length(paths[1]), _idx_length(paths[3])


def _idx_length(labels: Path) -> int:
    """How many labels there are, after 8 bytes; a gzip file ends with its unpacked size."""
    is_packed = labels.suffix == ".gz"
    size = int.from_bytes(labels.read_bytes()[-4:], "little") if is_packed else labels.stat().st_size
    return size - 8


@checked
def load(name: str, data_dir: Path | str | None = None) -> "Dataset":
    """Load the data set `name` from the first folder that holds it, or the images of folder:PATH."""
    if name.startswith(OWN):
        return _load_own(name)
    import torch

    from shieldwall.data import files
    from shieldwall.data.folder import read_folders
    from shieldwall.data.splits import Dataset, TensorSplit, check_split, crop_and_flip

    shape, classes = dataset_spec(name)
    location = Location(Path(name), {}) if name == "digits" else locate(name, data_dir)
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
    for part, (pixels, labels) in (("training", train), ("test", test)):
        tensors = torch.from_numpy(pixels), torch.from_numpy(labels)
        check_split(f"the {part} split of {location.folder}", *tensors, shape, len(classes))
        is_augmented = name == "cifar10" and part == "training"
        splits.append(TensorSplit(*tensors, crop_and_flip if is_augmented else None))
    return Dataset(name, splits[0], splits[1], classes, shape)


def fetch(
    name: str,
    destination: Path | None = None,
    base_url: str | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Download the missing files of the data set `name` into `destination`, and return the set's folder.

    `destination` is by default the first root that is searched. `base_url` replaces the official source.
    `on_progress` is called with a file's name, the bytes received and the total bytes.
    """
    from shieldwall.data.files import download, has_sha256, unpack

    known = _known(name)
    if not known.files:
        if name == "digits":
            raise UserError("digits is part of this package: there is nothing to fetch")
        raise UserError(f"{name} cannot be fetched: {known.advice}")
    root = roots()[0] if destination is None else destination
    folder = root / known.folders[0]
    members = (folder / f"{member}{known.suffixes[0]}" for member in known.members)
    if known.unpacked and all(map(has_sha256, members, known.unpacked)):
        return folder
    url = (base_url or known.url).rstrip("/") + "/"
    for file, (size, sha256) in known.files.items():
        target = (root if name == "cifar10" else folder) / file
        download(url + file, target, size, sha256, on_progress)
        if name == "cifar10":
            unpack(target, folder)
    return folder


def status(data_dir: Path | str | None = None) -> list[Status]:
    """For every data set its folder and a description."""
    roots(data_dir)  # a data folder that does not exist is an error, not a missing data set
    return [Status(name, _place(name, data_dir), known.description) for name, known in KNOWN.items()]


def roots(data_dir: Path | str | None = None) -> list[Path]:
    """The folders to search, in this order."""
    places: list[Path] = []
    if data_dir is not None:
        places.append(_expanded(data_dir))
        if not places[0].is_dir():
            raise UserError(f"the data folder {data_dir} does not exist, or is not a folder")
    if named := os.environ.get("SHIELDWALL_DATA"):
        places.append(_expanded(named))
    cache = _expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    if cache.parts[:1] != ("~",):  # an unknown user has no home
        places.append(cache / "shieldwall")
    if not places:
        raise UserError("there is no home folder; name a data folder with --data-dir or $SHIELDWALL_DATA")
    return list(dict.fromkeys(places))


def _expanded(path: Path | str) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser fails where there is no home


def locate(name: str, data_dir: Path | str | None = None) -> Location:
    """The first complete copy of the data set `name`; the error says what is missing or where it looked."""
    known = _known(name)
    advice = known.advice or f"run `shieldwall data fetch {name}`"
    folders = [root / below for root in roots(data_dir) for below in known.folders]
    incomplete: UserError | None = None
    for folder in folders:
        members = _members(folder, known)
        missing = [member + known.suffixes[0] for member in known.members if member not in members]
        if not missing:
            return Location(folder, members)
        if members and incomplete is None:
            incomplete = UserError(f"{name} in {folder} is incomplete: {missing[0]} is missing; {advice}")
    searched = ", ".join(map(str, folders))
    raise incomplete or UserError(f"{name} was not found; looked in {searched}; {advice}")


def _known(name: str) -> _Known:
    if name not in KNOWN:
        raise unknown_name("data set", name, NAMES)
    return KNOWN[name]


def _place(name: str, data_dir: Path | str | None) -> Path | Literal["built in"] | None:
    if name == "digits":
        return "built in"
    try:
        return locate(name, data_dir).folder
    except UserError:
        return None


def _members(folder: Path, known: _Known) -> dict[str, Path]:
    """The files that exist, in order, each with the first suffix that exists."""
    members: dict[str, Path] = {}
    for member in known.members:
        for path in (folder / (member + suffix) for suffix in known.suffixes):
            if path.exists():
                members.setdefault(member, path)
    return members
