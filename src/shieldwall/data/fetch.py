"""Getting the official files of a data set."""

import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shieldwall.data.download import Progress, download
from shieldwall.data.locate import IMAGENET_ADVICE, LAYOUTS, NAMES, roots
from shieldwall.errors import UserError, unknown_name


@dataclass(frozen=True)
class Source:
    """An address and the published MD5 of each file below it."""

    url: str
    md5: Mapping[str, str]


SOURCES = {
    "mnist": Source(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "fashion-mnist": Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
    ),
}


def fetch(
    name: str,
    destination: Path | None = None,
    base_url: str | None = None,
    on_progress: Progress | None = None,
) -> Path:
    """Fetch what is lacking of the set `name` below `destination`, and return the set's folder.

    `destination` is by default the first root that is searched; `base_url` stands in for the official
    source. `on_progress` is given a file's name, the bytes there and the bytes in all (0: unknown).
    """
    if name not in NAMES:
        raise unknown_name("data set", name, NAMES)
    if name == "digits":
        raise UserError("digits comes with scikit-learn: there is nothing to fetch")
    if name == "imagenet":
        raise UserError(f"imagenet cannot be fetched: {IMAGENET_ADVICE}")
    root = roots()[0] if destination is None else destination
    layout = LAYOUTS[name][0]
    folder = root / layout.folders[0]
    source = SOURCES[name]
    url = (base_url or source.url).rstrip("/") + "/"
    if name != "cifar10":
        for file, md5 in source.md5.items():
            download(url + file, folder / file, md5, on_progress)
    elif not all((folder / (member + layout.suffixes[0])).is_file() for member in layout.members):
        for file, md5 in source.md5.items():
            download(url + file, root / file, md5, on_progress)
            _unpack(root / file, folder)
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    """Copy the archive's files into `folder`, each once it is whole, and remove the archive."""
    try:
        folder.mkdir(exist_ok=True)
        with tarfile.open(archive) as tar:
            for entry in tar:
                # Plain files by their last name alone: nothing in an archive can point outside the folder.
                if entry.isfile() and (source := tar.extractfile(entry)) is not None:
                    part = folder / f".{Path(entry.name).name}.part"
                    part.write_bytes(source.read())
                    part.replace(folder / Path(entry.name).name)
        archive.unlink()
    except (OSError, tarfile.TarError) as error:
        raise UserError(f"cannot unpack {archive}: {error}; once mended, run it again") from error
