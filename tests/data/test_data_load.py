"""`load` and `status`, from name to data set."""

from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from tiny_sets import write_cifar_binary, write_mnist

from shieldwall.data.datasets import NAMES, dataset_spec, load, status
from shieldwall.data.splits import crop_and_flip
from shieldwall.errors import UserError
from shieldwall.seeds import generator


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("packed", [True, False])
def test_idx_sets_are_loaded_as_written(tmp_path: Path, name: str, packed: bool):
    held = write_mnist(tmp_path / name, packed)
    data = load(name, tmp_path)
    assert (data.name, data.shape, len(data.classes)) == (name, (1, 28, 28), 10)
    for split, part in ((data.train, "train"), (data.test, "t10k")):
        images, labels = held[f"{part}-images-idx3-ubyte"], held[f"{part}-labels-idx1-ubyte"]
        x = split.images(range(len(split)))
        assert np.array_equal(x[:, 0].numpy(), (images / 255).astype(np.float32))
        assert split.labels.tolist() == labels.tolist()


def test_cifar_is_loaded_as_written_and_only_its_training_batches_are_augmented(tmp_path: Path):
    held = write_cifar_binary(tmp_path / "cifar-10-batches-bin")
    data = load("cifar10", tmp_path)
    assert (data.shape, data.classes[0], data.classes[9]) == ((3, 32, 32), "airplane", "truck")
    pixels, labels = held["test_batch"]
    assert np.array_equal(data.test.images(range(4)).flatten(1).numpy(), (pixels / 255).astype(np.float32))
    assert data.test.labels.tolist() == labels
    assert data.train.labels.tolist() == [label for batch in list(held.values())[:5] for label in batch[1]]

    draws = generator("cpu", 3)
    order = torch.randperm(20, generator=draws)
    expected = crop_and_flip(data.train.images(order), draws)
    ((x, _),) = data.train.batches(20, generator("cpu", 3), "cpu")
    assert torch.equal(x, expected)
    ((x, _),) = data.test.batches(4, generator("cpu", 3), "cpu")
    assert torch.equal(x, data.test.images(torch.randperm(4, generator=generator("cpu", 3))))


def test_digits_are_those_of_scikit_learn_split_by_index():
    data = load("digits")
    original = load_digits()
    assert (data.shape, len(data.train), len(data.test)) == ((1, 8, 8), 1437, 360)
    x = torch.cat([data.train.images(range(1437)), data.test.images(range(360))])
    order = np.concatenate([np.flatnonzero(np.arange(1797) % 5), np.arange(0, 1797, 5)])
    assert x.max() == 1
    assert np.array_equal((x[:, 0] * 255).round().numpy(), np.rint(original.images[order] * 255 / 16))
    assert torch.cat([data.train.labels, data.test.labels]).tolist() == original.target[order].tolist()


def test_the_packaged_digits_carry_their_licence():
    folder = resources.files("shieldwall.data")
    note = (folder / "digits.txt").read_text()
    assert "CC BY 4.0" in note
    with resources.as_file(folder / "digits.npz") as path, np.load(path) as archive:
        assert archive["licence"].item() == note


def test_imagenet_is_listed_and_not_decoded(tmp_path: Path):
    for part in ("train", "val"):
        for label in ("n01", "n02"):
            (tmp_path / "imagenet" / part / label).mkdir(parents=True)
            (tmp_path / "imagenet" / part / label / "a.JPEG").write_bytes(b"no image at all")
    data = load("imagenet", tmp_path)
    assert (data.classes, data.shape) == (("n01", "n02"), (3, 224, 224))
    assert data.test.labels.tolist() == [0, 1]
    assert data.test.images([]).shape[1:] == data.shape
    with pytest.raises(UserError, match=r"imagenet/val/n02/a\.JPEG cannot be read as an image"):
        data.test.images([1])


def test_a_set_that_contradicts_itself_is_named(tmp_path: Path):
    write_mnist(tmp_path / "mnist")
    write_mnist(tmp_path / "other", extra=2)
    name = "train-labels-idx1-ubyte.gz"
    (tmp_path / "other" / name).replace(tmp_path / "mnist" / name)
    with pytest.raises(UserError, match=rf"^the training split of {tmp_path}/mnist: labels must be .*\(8,\)"):
        load("mnist", tmp_path)


def test_an_unknown_name_is_named_with_the_nearest():
    with pytest.raises(UserError, match="unknown data set 'cifar'; did you mean 'cifar10'"):
        load("cifar")


def test_a_spec_is_that_of_the_set_and_needs_no_files(tmp_path: Path):
    write_mnist(tmp_path / "mnist")
    write_mnist(tmp_path / "fashion-mnist")
    write_cifar_binary(tmp_path / "cifar-10-batches-bin")
    for name in ("digits", "mnist", "fashion-mnist", "cifar10"):
        data = load(name, tmp_path)
        assert dataset_spec(name) == (data.shape, data.classes)
    assert (dataset_spec("imagenet").shape, len(dataset_spec("imagenet").classes)) == ((3, 224, 224), 1000)
    assert all(dataset_spec(name).shape for name in NAMES)
    with pytest.raises(UserError, match="unknown data set 'minst'; did you mean 'mnist'"):
        dataset_spec("minst")


def test_status_says_where_each_set_lies(tmp_path: Path):
    write_mnist(tmp_path / "MNIST" / "raw")
    write_cifar_binary(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    lines = status(tmp_path)
    assert [name for name, _, _ in lines] == list(NAMES)
    assert {name: place for name, place, _ in lines} == {
        "digits": "built in",
        "mnist": tmp_path / "MNIST" / "raw",
        "fashion-mnist": None,
        "cifar10": None,
        "imagenet": None,
        "imagenet-64": None,
    }
    assert all(text and "\n" not in text for _, _, text in lines)


def test_status_refuses_a_folder_that_does_not_exist(tmp_path: Path):
    with pytest.raises(UserError, match="does not exist"):
        status(tmp_path / "absent")
