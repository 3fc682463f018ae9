"""CIFAR-10's batch files, in the binary and in the pickled ("python") version."""

import io
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shieldwall.data.damage import damaged

_NAME = "cifar10"
_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_RECORD = 1 + _PIXELS


def read(paths: Iterable[Path]) -> tuple[Tensor, Tensor]:
    """Pixels uint8 (M, 3, 32, 32) and labels int64 (M,) of these batch files, in this order."""
    batches = [_binary(path) if path.suffix == ".bin" else _pickled(path) for path in paths]
    pixels, labels = zip(*batches, strict=True)
    return torch.cat(pixels), torch.cat(labels)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise damaged(path, _NAME, f"cannot be read: {error.strerror}") from error


def _binary(path: Path) -> tuple[Tensor, Tensor]:
    content = bytearray(_content(path))
    if not content or len(content) % _RECORD:
        expected = f"a multiple of {_RECORD:,} bytes expected (the official file has {10_000 * _RECORD:,})"
        raise damaged(path, _NAME, f"is truncated: {expected}, {len(content):,} found")
    records = torch.frombuffer(content, dtype=torch.uint8).view(-1, _RECORD)
    return records[:, 1:].reshape(-1, *_SHAPE), records[:, 0].long()


def _pickled(path: Path) -> tuple[Tensor, Tensor]:
    content = _content(path)
    try:
        batch = _unpickle(content)
        pixels, labels = batch.get("data"), np.asarray(batch.get("labels"))
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or labels.dtype.kind != "i":
            raise pickle.UnpicklingError("it lacks uint8 `data` or whole-number `labels`")
        if not labels.size or pixels.shape != (labels.size, _PIXELS):
            raise pickle.UnpicklingError(f"it has {labels.size:,} labels for data of shape {pixels.shape}")
    # A damaged pickle can raise nearly anything; none of it is the program's own failure.
    except Exception as error:
        raise damaged(path, _NAME, f"is not a CIFAR-10 batch: {error}") from error
    return torch.from_numpy(pixels.copy()).view(-1, *_SHAPE), torch.from_numpy(labels).long()


def _unpickle(content: bytes) -> dict[str, Any]:
    batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    # Keys are bytes where Python 2 wrote the file, as it did the official one.
    return {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}


class _Unpickler(pickle.Unpickler):
    """Builds plain values and numpy arrays, and refuses everything else, so that a file runs nothing."""

    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case (("numpy.core.multiarray" | "numpy._core.multiarray"), "_reconstruct"):
                return _reconstruct
            case "numpy", "ndarray":
                return np.ndarray
            case "numpy", "dtype":
                return _dtype
            case "_codecs", "encode":
                return _encode
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which such a batch has no use for")


def _reconstruct(_kind: object, _shape: object, _code: object) -> np.ndarray[Any, Any]:
    """The empty array that an array's pickled state then fills."""
    return np.ndarray((0,), np.int8)


def _dtype(code: Any, align: int, copy: int) -> Any:
    # Python 2 wrote the flags as 0 and 1, which numpy 2.4.0 to 2.4.4 warn about.
    return np.dtype(code, bool(align), bool(copy))


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes in the older pickle protocols."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the encoding {encoding!r}, expected 'latin1'")
    return text.encode(encoding)
