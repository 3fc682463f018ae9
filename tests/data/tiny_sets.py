"""The official formats, written from their descriptions with a handful of images."""

import gzip
import struct
from pathlib import Path

import numpy as np

IDX_NAMES = {"train": 6, "t10k": 3}
CIFAR_NAMES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
PER_BATCH = 4


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder: Path, packed: bool = True, extra: int = 0) -> dict[str, np.ndarray]:
    """A set with 6 + `extra` training and 3 test images; returns what each file holds."""
    random = np.random.default_rng(extra)
    folder.mkdir(parents=True, exist_ok=True)
    held = {}
    for part, count in IDX_NAMES.items():
        count += extra if part == "train" else 0
        held[f"{part}-images-idx3-ubyte"] = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        held[f"{part}-labels-idx1-ubyte"] = random.integers(0, 10, count, dtype=np.uint8)
    for name, array in held.items():
        content = idx_bytes(array)
        path = folder / (name + ".gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)
    return held


def cifar_arrays(seed: int = 0) -> dict[str, tuple[np.ndarray, list[int]]]:
    """For each batch, images (4, 3072) in CIFAR's own order (all red, all green, all blue) and labels."""
    random = np.random.default_rng(seed)
    return {
        name: (
            random.integers(0, 256, (PER_BATCH, 3072), dtype=np.uint8),
            random.integers(0, 10, PER_BATCH).tolist(),
        )
        for name in CIFAR_NAMES
    }


def cifar_binary(pixels: np.ndarray, labels: list[int]) -> bytes:
    return b"".join(bytes([label]) + image.tobytes() for image, label in zip(pixels, labels, strict=True))


def write_cifar_binary(folder: Path, seed: int = 0) -> dict[str, tuple[np.ndarray, list[int]]]:
    arrays = cifar_arrays(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, batch in arrays.items():
        (folder / f"{name}.bin").write_bytes(cifar_binary(*batch))
    return arrays
