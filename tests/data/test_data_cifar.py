"""CIFAR-10's binary batch files."""

from pathlib import Path

import numpy as np
import pytest
from tiny_sets import PER_BATCH, cifar_arrays, cifar_binary

from shieldwall.data.files import read_cifar
from shieldwall.errors import UserError

PIXELS, LABELS = cifar_arrays()["data_batch_1"]
REMEDY = "; delete it and run `shieldwall data fetch cifar10`$"


def test_a_batch_is_read_as_written(tmp_path: Path):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(cifar_binary(PIXELS, LABELS))
    pixels, labels = read_cifar([path])
    assert pixels.dtype == np.uint8
    assert pixels.shape == (PER_BATCH, 3, 32, 32)
    for channel in range(3):
        for row in range(32):
            start = 1024 * channel + 32 * row
            assert np.array_equal(pixels[:, channel, row], PIXELS[:, start : start + 32])
    assert labels.dtype == np.int64
    assert labels.tolist() == LABELS


def test_batches_are_joined_in_order(tmp_path: Path):
    paths = []
    for name, batch in cifar_arrays().items():
        paths.append(tmp_path / f"{name}.bin")
        paths[-1].write_bytes(cifar_binary(*batch))
    _, labels = read_cifar(paths)
    assert labels.tolist() == [label for _, held in cifar_arrays().values() for label in held]


@pytest.mark.parametrize("kept", [0, 1, 3072, 3 * 3073 + 100])
def test_a_truncated_batch_is_named(tmp_path: Path, kept: int):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(cifar_binary(PIXELS, LABELS)[:kept])
    expected = "a multiple of 3,073 bytes expected"
    with pytest.raises(UserError, match=f"^{path} is truncated: {expected}, {kept:,} found{REMEDY}"):
        read_cifar([path])


def test_what_is_not_a_file_is_named(tmp_path: Path):
    with pytest.raises(UserError, match=f"^{tmp_path} cannot be read: Is a directory"):
        read_cifar([tmp_path])
