"""Where sets are looked for, in which order, and what is said when they are not there."""

from pathlib import Path

import pytest
from tiny_sets import write_cifar_binary, write_mnist

from shieldwall.data.datasets import locate, roots
from shieldwall.errors import UserError


@pytest.fixture
def places(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The explicit folder, the one the environment names and the cache."""
    found = [tmp_path / "given", tmp_path / "named", cache]
    found[0].mkdir()
    monkeypatch.setenv("SHIELDWALL_DATA", str(found[1]))
    return found


def test_the_order_is_given_then_named_then_cache(places: list[Path]):
    assert roots(places[0]) == places
    assert roots(str(places[0])) == places
    assert roots() == places[1:]
    for place in reversed(places):
        write_mnist(place / "mnist")
        assert locate("mnist", places[0]).folder == place / "mnist"
    assert locate("mnist").folder == places[1] / "mnist"


def test_the_cache_is_below_home_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert roots() == [tmp_path / ".cache" / "shieldwall"]
    assert roots("~") == [tmp_path, tmp_path / ".cache" / "shieldwall"]


@pytest.mark.parametrize("kind", ["absent", "file"])
def test_a_given_folder_must_exist(tmp_path: Path, kind: str):
    (tmp_path / "file").touch()
    with pytest.raises(
        UserError, match=f"^the data folder {tmp_path / kind} does not exist, or is not a folder"
    ):
        locate("mnist", tmp_path / kind)


@pytest.mark.parametrize(
    ("name", "below"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_idx_sets_are_found_in_both_layouts(tmp_path: Path, name: str, below: str, packed: bool):
    held = write_mnist(tmp_path / below, packed)
    found = locate(name, tmp_path)
    assert found.folder == tmp_path / below
    suffix = ".gz" if packed else ""
    assert found.members == {member: tmp_path / below / (member + suffix) for member in held}


@pytest.mark.parametrize("below", ["cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"])
def test_cifar_is_found_in_both_places(tmp_path: Path, below: str):
    folder = tmp_path / below
    write_cifar_binary(folder)
    location = locate("cifar10", tmp_path)
    assert location.folder == folder
    assert list(location.members) == [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    assert all(path.parent == folder and path.is_file() for path in location.members.values())


def test_the_python_version_of_cifar_is_said_not_to_be_read(tmp_path: Path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(UserError, match=r"not found; .*the python version is not read"):
        locate("cifar10", tmp_path)


def test_a_missing_set_is_said_in_one_line_with_every_place(places: list[Path]):
    with pytest.raises(UserError) as caught:
        locate("mnist", places[0])
    looked = ", ".join(f"{place}/{below}" for place in places for below in ("mnist", "MNIST/raw"))
    expected = f"mnist was not found; looked in {looked}; run `shieldwall data fetch mnist`"
    assert str(caught.value) == expected


def test_a_missing_imagenet_says_how_to_lay_it_out(tmp_path: Path):
    with pytest.raises(UserError) as caught:
        locate("imagenet", tmp_path)
    message = str(caught.value)
    assert f"looked in {tmp_path}/imagenet, " in message
    assert "must be obtained" in message
    assert "imagenet/train/<class>/*.JPEG" in message
    assert "imagenet/val/<class>/*.JPEG" in message
    assert "fetch" not in message
    assert "\n" not in message


def test_an_incomplete_set_names_the_missing_file(tmp_path: Path):
    write_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").rename(
        tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz.part"
    )
    expected = (
        f"^mnist in {tmp_path}/mnist is incomplete: t10k-labels-idx1-ubyte.gz is missing; run `shieldwall"
    )
    with pytest.raises(UserError, match=expected):
        locate("mnist", tmp_path)


def test_an_incomplete_batch_or_split_is_named_too(tmp_path: Path):
    write_cifar_binary(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with pytest.raises(UserError, match=r"incomplete: data_batch_3\.bin is missing"):
        locate("cifar10", tmp_path)
    (tmp_path / "imagenet" / "train").mkdir(parents=True)
    with pytest.raises(UserError, match="incomplete: val is missing"):
        locate("imagenet", tmp_path)


def test_a_complete_copy_further_on_is_used(places: list[Path]):
    write_mnist(places[0] / "mnist")
    (places[0] / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    write_mnist(places[2] / "MNIST" / "raw")
    assert locate("mnist", places[0]).folder == places[2] / "MNIST" / "raw"
