"""The idx reader on sound and on damaged files."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from tiny_sets import idx_bytes

from shieldwall.data.files import read_idx
from shieldwall.errors import UserError

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
LABELS = np.array([3, 200], dtype=np.uint8)
REMEDY = "; delete it and run `shieldwall data fetch mnist`$"


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """A sound file of labels, beside the images that a test is about."""
    path = tmp_path / "labels"
    path.write_bytes(idx_bytes(LABELS))
    return path


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_images_and_labels_are_read_as_written(tmp_path: Path, suffix: str):
    def written(array: np.ndarray) -> Path:
        path = tmp_path / f"file-{array.ndim}{suffix}"
        path.write_bytes(gzip.compress(idx_bytes(array)) if suffix else idx_bytes(array))
        return path

    pixels, labels = read_idx("mnist", written(IMAGES), written(LABELS))
    assert pixels.dtype == np.uint8
    assert pixels.shape == (2, 1, 3, 4)
    assert np.array_equal(pixels[:, 0], IMAGES)
    assert labels.dtype == np.int64
    assert labels.tolist() == [3, 200]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (idx_bytes(IMAGES)[:-5], "is truncated: 40 bytes expected, 35 found"),
        (idx_bytes(IMAGES)[:12], "is truncated: over 16 bytes expected, 12 found"),
        (b"", "is truncated: over 16 bytes expected, 0 found"),
        (idx_bytes(IMAGES) + b"?", "is too long: 40 bytes expected, 41 found"),
        (
            idx_bytes(LABELS),
            "is not an idx file of 3 dimensions: it starts with 0x00000801, expected 0x00000803",
        ),
        (b"<html>", "is not an idx file"),
        (idx_bytes(IMAGES[:0]), "is empty"),
        (bytes.fromhex("00000803 0000ea60 0000001c 0000001c"), "is truncated: 47,040,016 bytes expected, 16"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_wrong_content_is_named(tmp_path: Path, labels: Path, suffix: str, content: bytes, message: str):
    path = tmp_path / f"images{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    with pytest.raises(UserError, match=f"^{path} {message}.*{REMEDY}"):
        read_idx("mnist", path, labels)


def test_every_truncation_of_a_gzip_file_is_noticed(tmp_path: Path, labels: Path):
    packed = gzip.compress(idx_bytes(IMAGES))
    path = tmp_path / "images.gz"
    for kept in range(len(packed)):
        path.write_bytes(packed[:kept])
        with pytest.raises(UserError, match=f"is (truncated|not a valid gzip file).*{REMEDY}"):
            read_idx("mnist", path, labels)


def test_every_corrupt_byte_of_gzipped_data_is_noticed(tmp_path: Path, labels: Path):
    packed = gzip.compress(idx_bytes(IMAGES))
    path = tmp_path / "images.gz"
    for place in (0, 1, *range(10, len(packed))):  # 2..9 hold the method, flags, time and system
        changed = bytearray(packed)
        changed[place] ^= 0x55
        path.write_bytes(changed)
        with pytest.raises(UserError, match=REMEDY):
            read_idx("mnist", path, labels)


def test_what_is_not_a_file_is_named(tmp_path: Path, labels: Path):
    with pytest.raises(UserError, match=f"^{tmp_path} cannot be read: Is a directory"):
        read_idx("mnist", tmp_path, labels)
