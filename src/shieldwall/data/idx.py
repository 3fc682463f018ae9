"""The idx format of MNIST and Fashion-MNIST, gzipped or plain."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from shieldwall.data.damage import damaged

_CHUNK = 1 << 20
_UNSIGNED_BYTES = 0x800


def read_images(path: Path, name: str) -> Tensor:
    """Images of the set `name` as uint8 (M, 1, H, W)."""
    return _read(path, name, dimensions=3).unsqueeze(1)


def read_labels(path: Path, name: str) -> Tensor:
    """Labels of the set `name` as int64 (M,)."""
    return _read(path, name, dimensions=1).long()


def _read(path: Path, name: str, dimensions: int) -> Tensor:
    content, cut = _content(path, name)
    magic = struct.pack(">I", _UNSIGNED_BYTES + dimensions)
    if not magic.startswith(content[:4]):
        given = f"starts with 0x{content[:4].hex()}, expected 0x{magic.hex()}"
        raise damaged(path, name, f"is not an idx file of {dimensions} dimensions: it {given}")
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise damaged(path, name, f"is truncated: over {header} bytes expected, {len(content):,} found")
    shape = struct.unpack_from(f">{dimensions}I", content, offset=4)
    size = header + math.prod(shape)
    if len(content) != size:
        fault = "is truncated" if len(content) < size else "is too long"
        raise damaged(path, name, f"{fault}: {size:,} bytes expected, {len(content):,} found")
    if cut:
        raise damaged(path, name, "is truncated: the checksum at its end is missing")
    if size == header:
        raise damaged(path, name, "is empty: its header says that it holds nothing")
    return torch.frombuffer(content, dtype=torch.uint8, offset=header).reshape(shape)


def _content(path: Path, name: str) -> tuple[bytearray, bool]:
    """The unpacked bytes, as many as there are, and whether the gzip stream was cut short."""
    content = bytearray()
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while chunk := file.read1(_CHUNK):
                content += chunk
    except EOFError:
        return content, True
    except (gzip.BadGzipFile, zlib.error) as error:
        raise damaged(path, name, f"is not a sound gzip file: {error}") from error
    except OSError as error:
        raise damaged(path, name, f"cannot be read: {error.strerror}") from error
    return content, False
