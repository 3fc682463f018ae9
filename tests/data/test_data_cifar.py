"""Both versions of CIFAR-10's files, and pickles that mean harm."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_sets import PER_BATCH, cifar_arrays, cifar_binary, python2_pickle

from shieldwall.data.cifar import read
from shieldwall.errors import UserError

PIXELS, LABELS = cifar_arrays()["data_batch_1"]
REMEDY = "; delete it and run `shieldwall data fetch cifar10`$"


def python3_pickle(pixels: np.ndarray, labels: list[int]) -> bytes:
    batch = {b"data": pixels, b"labels": labels, b"filenames": [b"cat_s_000001.png"] * len(labels)}
    return pickle.dumps(batch, protocol=2)


def old_numpy_pickle(pixels: np.ndarray, labels: list[int]) -> bytes:
    return python3_pickle(pixels, labels).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def text_keys_pickle(pixels: np.ndarray, labels: list[int]) -> bytes:
    return pickle.dumps({"data": pixels, "labels": labels}, protocol=4)


WRITERS = {
    "data_batch_1.bin": cifar_binary,
    "by_python_2": python2_pickle,
    "by_python_3": python3_pickle,
    "by_old_numpy": old_numpy_pickle,
    "with_text_keys": text_keys_pickle,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_batch_is_read_as_written(tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_bytes(WRITERS[name](PIXELS, LABELS))
    pixels, labels = read([path])
    assert pixels.dtype == torch.uint8
    assert pixels.shape == (PER_BATCH, 3, 32, 32)
    for channel in range(3):
        for row in range(32):
            start = 1024 * channel + 32 * row
            assert np.array_equal(pixels[:, channel, row].numpy(), PIXELS[:, start : start + 32])
    assert labels.dtype == torch.int64
    assert labels.tolist() == LABELS


def test_the_old_module_name_is_really_tried():
    assert b"numpy._core" in python3_pickle(PIXELS, LABELS)
    assert b"numpy._core" not in old_numpy_pickle(PIXELS, LABELS)
    assert b"_codecs" in python3_pickle(PIXELS, LABELS)


def test_batches_are_joined_in_order(tmp_path: Path):
    paths = []
    for name, batch in cifar_arrays().items():
        paths.append(tmp_path / f"{name}.bin")
        paths[-1].write_bytes(cifar_binary(*batch))
    _, labels = read(paths)
    assert labels.tolist() == [label for _, held in cifar_arrays().values() for label in held]


@pytest.mark.parametrize("kept", [0, 1, 3072, 3 * 3073 + 100])
def test_a_truncated_binary_batch_is_named(tmp_path: Path, kept: int):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(cifar_binary(PIXELS, LABELS)[:kept])
    expected = r"a multiple of 3,073 bytes expected \(the official file has 30,730,000\)"
    with pytest.raises(UserError, match=f"^{path} is truncated: {expected}, {kept:,} found{REMEDY}"):
        read([path])


@pytest.mark.parametrize("writer", [python2_pickle, python3_pickle])
@pytest.mark.parametrize("kept", [0, 1, 40, 5000, -1])
def test_a_truncated_pickle_is_named(tmp_path: Path, writer, kept: int):
    path = tmp_path / "data_batch_1"
    path.write_bytes(writer(PIXELS, LABELS)[:kept])
    with pytest.raises(UserError, match=f"^{path} is not a CIFAR-10 batch: .*{REMEDY}"):
        read([path])


class Harm:
    """Makes a file when it is unpickled carelessly."""

    def __init__(self, call, *arguments) -> None:
        self.made = (call, arguments)

    def __reduce__(self):
        return self.made


def harmful(mark: Path, how: str) -> object:
    match how:
        case "shell":
            return Harm(os.system, f"touch '{mark}'")
        case "eval":
            return Harm(eval, f"open({str(mark)!r}, 'w').close()")
        case "mkdir":
            return Harm(os.mkdir, str(mark))
        case _:
            return Harm(np.ndarray.tofile, PIXELS, str(mark))


@pytest.mark.parametrize("how", ["shell", "eval", "mkdir", "tofile"])
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_malicious_pickle_runs_nothing(tmp_path: Path, how: str, protocol: int):
    mark, path = tmp_path / "mark", tmp_path / "data_batch_1"
    batch = {"data": PIXELS.tolist(), "labels": LABELS, "more": harmful(mark, how)}
    path.write_bytes(pickle.dumps(batch, protocol=protocol))
    with pytest.raises(UserError, match=f"^{path} is not a CIFAR-10 batch: it asks for .*{REMEDY}"):
        read([path])
    assert not mark.exists()
    pickle.loads(path.read_bytes())
    assert mark.exists()  # the same file does harm where it is trusted


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps([1, 2]),
        pickle.dumps({"data": PIXELS}, protocol=2),
        pickle.dumps({"labels": LABELS}, protocol=2),
        pickle.dumps({"data": PIXELS, "labels": LABELS[:-1]}, protocol=2),
        pickle.dumps({"data": PIXELS[:, :-1], "labels": LABELS}, protocol=2),
        pickle.dumps({"data": PIXELS.astype(np.float32), "labels": LABELS}, protocol=2),
        pickle.dumps({"data": PIXELS, "labels": ["cat"] * PER_BATCH}, protocol=2),
        pickle.dumps({"data": PIXELS[:0], "labels": []}, protocol=2),
        pickle.dumps({"data": b"abc".decode("latin1"), "labels": LABELS}, protocol=2),
        b"c_codecs\nencode\n(Vabc\nVrot13\ntR.",
        b"cnumpy\nload\n.",
        b"<html>",
    ],
)
def test_a_pickle_of_something_else_is_named(tmp_path: Path, content: bytes):
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"^{path} is not a CIFAR-10 batch: .*{REMEDY}"):
        read([path])


def test_what_is_not_a_file_is_named(tmp_path: Path):
    with pytest.raises(UserError, match=f"^{tmp_path} cannot be read: Is a directory"):
        read([tmp_path])
