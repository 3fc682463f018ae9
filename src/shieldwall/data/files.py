"""Files of data sets as arrays, torch-free, and downloads: pixels uint8 (M, C, H, W), labels int64 (M,)."""

import gzip
import hashlib
import math
import ssl
import struct
import tarfile
import zlib
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib import request
from urllib.error import HTTPError

import numpy as np
from rich.console import Console

from shieldwall.console import progress_bar
from shieldwall.errors import UserError
from shieldwall.files import atomic_file, disk_errors, write_atomic

Array = np.ndarray[Any, Any]
Pair = tuple[Array, Array]

_CHUNK, _TIMEOUT_S = 1 << 20, 30.0
_UNSIGNED_BYTES = 0x800
_CIFAR_SHAPE = (3, 32, 32)
_CIFAR_RECORD = 1 + math.prod(_CIFAR_SHAPE)
_MOST_BYTES = 2**28  # of an unpacked file; the largest that is published has 47 MB

# None of these speaks plain http, so that no redirect can lead there.
HANDLERS: tuple[type[request.BaseHandler], ...] = (
    request.ProxyHandler, request.UnknownHandler, request.HTTPSHandler,
    request.HTTPDefaultErrorHandler, request.HTTPRedirectHandler, request.HTTPErrorProcessor,
)  # fmt: skip


def corrupt_file(path: Path, name: str, what: str) -> UserError:
    return UserError(f"{path} {what}; delete it and run `shieldwall data fetch {name}`")


def read_idx(name: str, images: Path, labels: Path) -> Pair:
    """A split of MNIST or Fashion-MNIST from its two files, gzipped or plain."""
    pixels = _idx_array(images, name, dimensions=3)[:, None]
    return pixels, _idx_array(labels, name, dimensions=1).astype(np.int64)


def read_cifar(paths: Iterable[Path]) -> Pair:
    """CIFAR-10's batch files of the binary version, in this order."""
    batches = []
    for path in paths:
        content, _ = _content(path, "cifar10")
        if not content or len(content) % _CIFAR_RECORD:
            what = f"is truncated: a multiple of {_CIFAR_RECORD:,} bytes expected, {len(content):,} found"
            raise corrupt_file(path, "cifar10", what)
        batches.append(np.frombuffer(content, np.uint8).reshape(-1, _CIFAR_RECORD))
    records = np.concatenate(batches)
    return records[:, 1:].reshape(-1, *_CIFAR_SHAPE), records[:, 0].astype(np.int64)


def read_digits() -> tuple[Pair, Pair]:
    """The packaged digits: every fifth image is for testing, the others are for training."""
    with np.load(Path(__file__).with_name("digits.npz"), allow_pickle=False) as archive:
        images, labels = archive["images"], archive["labels"].astype(np.int64)
    pixels = np.rint(images * (255 / 16)).astype(np.uint8)[:, None]  # full ink is 16
    test = np.arange(len(labels)) % 5 == 0
    return (pixels[~test], labels[~test]), (pixels[test], labels[test])


def _idx_array(path: Path, name: str, dimensions: int) -> Array:
    content, is_cut = _content(path, name)
    magic, header = struct.pack(">I", _UNSIGNED_BYTES + dimensions), 4 + 4 * dimensions
    if not magic.startswith(content[:4]):
        start = f"starts with 0x{content[:4].hex()}, expected 0x{magic.hex()}"
        raise corrupt_file(path, name, f"is not an idx file of {dimensions} dimensions: it {start}")
    if len(content) < header:
        raise corrupt_file(path, name, f"is truncated: over {header} bytes expected, {len(content):,} found")
    shape = struct.unpack_from(f">{dimensions}I", content, offset=4)
    size = header + math.prod(shape)
    if len(content) != size:
        fault = "is truncated" if len(content) < size else "is too long"
        raise corrupt_file(path, name, f"{fault}: {size:,} bytes expected, {len(content):,} found")
    if is_cut or size == header:
        fault = "is truncated: its checksum is missing" if is_cut else "is empty: it has a header alone"
        raise corrupt_file(path, name, fault)
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _content(path: Path, name: str) -> tuple[bytearray, bool]:
    """The bytes, unpacked as far as possible, and whether a gzip stream was cut short."""
    content = bytearray()
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while len(content) <= _MOST_BYTES and (chunk := file.read1(_CHUNK)):
                content += chunk
    except EOFError:
        return content, True
    except (gzip.BadGzipFile, zlib.error) as error:
        raise corrupt_file(path, name, f"is not a valid gzip file: {error}") from error
    except OSError as error:
        raise corrupt_file(path, name, f"cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise corrupt_file(path, name, f"has more than {_MOST_BYTES:,} bytes")
    return content, False


def download(url: str, target: Path, size: int, sha256: str, console: Console) -> None:
    """Download the https address `url` to `target` and check its length and checksum, unless it is there."""
    if has_sha256(target, sha256):
        return
    digest, received = hashlib.sha256(), 0
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with _open(url) as reply, atomic_file(target) as file, progress_bar(console, target.name, size) as show:
        try:
            while chunk := reply.read(min(_CHUNK, size + 1 - received)):
                received += file.write(chunk)
                digest.update(chunk)
                show(min(received, size), f"{received / 2**20:.0f} of {size / 2**20:.0f} MB")
        except (TimeoutError, ConnectionError, ssl.SSLError, HTTPException) as error:
            raise _not_fetched(url, str(error)) from error
        if received < size:
            raise _not_fetched(url, f"the connection closed after {received:,} of {size:,} bytes")
        if received > size or digest.hexdigest() != sha256:
            raise UserError(f"{url} is not the published file ({size:,} bytes, SHA-256 {sha256}); not kept")


def has_sha256(path: Path, sha256: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256


def _open(url: str) -> IO[bytes]:
    if not url.startswith("https://"):
        raise UserError(f"{url} is not an https address; give one with --from-url https://...")
    opener = request.OpenerDirector()
    for handler in HANDLERS:
        opener.add_handler(handler())
    try:
        reply: IO[bytes] = opener.open(url, timeout=_TIMEOUT_S)
    except HTTPError as error:
        error.close()
        raise UserError(f"{url} answered {error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise _not_fetched(url, str(getattr(error, "reason", error))) from error
    return reply


def _not_fetched(url: str, reason: str) -> UserError:
    return UserError(f"could not fetch {url}: {reason}; run the same command to try again")


def unpack(archive: Path, folder: Path) -> None:
    """Copy the archive's files into `folder`, each in one step, and remove the archive."""
    try:
        folder.mkdir(exist_ok=True)
        with tarfile.open(archive) as tar:
            for entry in tar:
                # Plain files by their last name alone: nothing in an archive can point outside the folder.
                if entry.isfile() and (source := tar.extractfile(entry)) is not None:
                    write_atomic(folder / Path(entry.name).name, source.read())
        archive.unlink()
    except (OSError, tarfile.TarError) as error:
        raise UserError(f"cannot unpack {archive}: {error}; run the same command to try again") from error
