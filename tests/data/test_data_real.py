"""The real sets, where SHIELDWALL_DATA names a folder that holds them."""

import os

import pytest

from shieldwall.data.datasets import KNOWN, load, locate
from shieldwall.data.files import has_sha256
from shieldwall.data.splits import Dataset
from shieldwall.errors import UserError

FOLDER = os.environ.get("SHIELDWALL_DATA")
EVEN = [1000] * 10
TEST_LABELS = {
    "mnist": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    "fashion-mnist": EVEN,
    "cifar10": EVEN,
}
TRAIN_LABELS = {
    "mnist": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "fashion-mnist": [6000] * 10,
    "cifar10": [5000] * 10,
}
# The mean pixel over the training images, channel by channel, as widely published.
MEANS = {
    "mnist": [0.1307],
    "fashion-mnist": [0.2860],
    "cifar10": [0.4914, 0.4822, 0.4465],
}


def real(name: str) -> Dataset:
    if not FOLDER:
        pytest.skip("set SHIELDWALL_DATA to a folder with the real data sets to run this")
    try:
        locate(name, FOLDER)
    except UserError as error:
        pytest.skip(str(error))
    return load(name, FOLDER)


@pytest.mark.parametrize("name", TEST_LABELS)
def test_the_real_set_is_what_was_published(name: str):
    data = real(name)
    assert data.train.labels.bincount().tolist() == TRAIN_LABELS[name]
    assert data.test.labels.bincount().tolist() == TEST_LABELS[name]
    assert data.train.images([0]).shape[1:] == data.shape
    rows = range(0, len(data.train), 5)
    assert data.train.images(rows).mean((0, 2, 3)).tolist() == pytest.approx(MEANS[name], abs=2e-3)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_real_files_have_the_published_lengths_and_checksums(name: str):
    real(name)
    folder = locate(name, FOLDER).folder
    packed = {file: known for file, known in KNOWN[name].files.items() if (folder / file).exists()}
    if not packed:
        pytest.skip(f"{name} is there only unpacked")
    for file, (size, sha256) in packed.items():
        assert (folder / file).stat().st_size == size
        assert has_sha256(folder / file, sha256)
