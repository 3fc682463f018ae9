"""Class folders: what is listed, how images are cut, and that threads change nothing."""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from shieldwall.data import folder
from shieldwall.data.folder import FolderSplit, random_crop, read_folders
from shieldwall.data.images import centre_crop
from shieldwall.distributed import ProcessGroup
from shieldwall.errors import UserError
from shieldwall.seeds import generator


def gradient(width: int, height: int, blue: int = 0) -> Image.Image:
    """Red tells the column, green the row."""
    pixels = np.full((height, width, 3), blue, dtype=np.uint8)
    pixels[:, :, 0] = np.rint(np.linspace(0, 255, width))
    pixels[:, :, 1] = np.rint(np.linspace(0, 255, height))[:, None]
    return Image.fromarray(pixels)


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """Two classes; the blue of an image numbers it."""
    number = 0
    for part, names in (("train", "abcdef"), ("val", "ab")):
        for label in ("n02", "n01"):
            place = tmp_path / part / label
            place.mkdir(parents=True)
            for name in names:
                gradient(60, 40, number).save(place / f"{name}.png")
                number += 10
    return tmp_path


def loaded(root: Path) -> tuple[FolderSplit, FolderSplit]:
    train, test, classes = read_folders(root / "train", root / "val", 224)
    assert classes == ("n01", "n02")
    return train, test


def blues(x: torch.Tensor) -> list[int]:
    return (x[:, 2, 112, 112] * 255).round().int().tolist()


def test_images_are_listed_by_class_and_name(imagenet: Path):
    train, test = loaded(imagenet)
    assert train.labels.tolist() == [0] * 6 + [1] * 6
    assert test.labels.tolist() == [0, 0, 1, 1]
    assert [Path(path).relative_to(imagenet).as_posix() for path in test.paths] == [
        *("val/n01/a.png", "val/n01/b.png", "val/n02/a.png", "val/n02/b.png")
    ]


def test_the_digest_is_of_names_sizes_and_labels_wherever_the_folder_is(imagenet: Path, tmp_path: Path):
    _, test = loaded(imagenet)
    digest = test.digest()
    moved = imagenet.rename(tmp_path.parent / f"{tmp_path.name}-moved")
    _, again = loaded(moved)
    assert again.digest() == digest
    assert again.subset([0, 1]).digest() != digest
    with (moved / "val/n01/a.png").open("ab") as file:
        file.write(b"more")
    assert again.digest() != digest
    longer = again.digest()
    (moved / "val/n01/a.png").rename(moved / "val/n01/aa.png")
    assert loaded(moved)[1].digest() not in (digest, longer)


def test_extensions_of_any_case_count_and_other_files_do_not(imagenet: Path):
    place = imagenet / "val" / "n01"
    for name in ("c.JPEG", "d.Jpg", "e.PNG"):
        (place / name).touch()
    for name in ("notes.txt", "._c.JPEG", "jpeg"):
        (place / name).touch()
    (imagenet / "val" / "README.md").touch()
    (imagenet / "val" / ".hidden").mkdir()
    names = [Path(path).name for path in loaded(imagenet)[1].paths[:5]]
    assert names == ["a.png", "b.png", "c.JPEG", "d.Jpg", "e.PNG"]


def test_images_come_in_the_order_asked_for(imagenet: Path):
    test = loaded(imagenet)[1]
    x = test.images(torch.tensor([3, 0]))
    assert x.dtype == torch.float32
    assert x.shape == (2, 3, 224, 224)
    assert blues(x) == [130, 140]
    assert test.images([]).shape == (0, 3, 224, 224)


@pytest.mark.parametrize("size", [(400, 300), (300, 400), (100, 130), (256, 256), (257, 301)])
def test_the_centre_crop_agrees_with_torchs_antialiased_resize(size):
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    cut = torch.from_numpy(np.array(centre_crop(Image.fromarray(noise), 224, 256))).permute(2, 0, 1)
    x = torch.from_numpy(noise).permute(2, 0, 1)[None].float()
    scaled = tuple(256 if side == min(size) else int(256 * side / min(size)) for side in size)
    x = F.interpolate(x, (scaled[1], scaled[0]), mode="bilinear", antialias=True)
    top, left = round((scaled[1] - 224) / 2), round((scaled[0] - 224) / 2)
    expected = x[0, :, top : top + 224, left : left + 224]
    # Pillow rounds to whole pixels after each of the two directions.
    assert (cut - expected).abs().max() < 1.6


def seen_part(image: Image.Image) -> tuple[float, float, bool]:
    """How much of a gradient's width and height is in view, and whether it is mirrored."""
    x = np.array(image).astype(float)
    across, down = x[112, -1, 0] - x[112, 0, 0], x[-1, 112, 1] - x[0, 112, 1]
    return abs(across) / 255, down / 255, across < 0


def test_random_crops_keep_to_the_usual_areas_and_shapes():
    width, height = 500, 400
    parts = [seen_part(random_crop(gradient(width, height), key, 224)) for key in range(300)]
    areas = [w * h for w, h, _ in parts]
    ratios = [w * width / (h * height) for w, h, _ in parts]
    assert min(areas) > 0.07
    assert max(areas) <= 1
    assert min(areas) < 0.15
    assert max(areas) > 0.85
    assert all(0.72 < ratio < 1.39 for ratio in ratios)
    assert min(ratios) < 0.8
    assert max(ratios) > 1.25
    assert 100 < sum(mirrored for _, _, mirrored in parts) < 200
    assert abs(math.fsum(areas) / 300 - 0.5) < 0.08


def test_a_very_long_image_is_cut_in_its_middle():
    wide, _, _ = seen_part(random_crop(gradient(4000, 30), 1, 224))
    assert wide == pytest.approx(40 / 4000, abs=0.01)
    assert random_crop(gradient(1, 900), 1, 224).size == (224, 224)


def epoch(split: FolderSplit, seed: int, batch_size: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(split.batches(batch_size, generator("cpu", seed), "cpu"))


def test_an_epoch_gives_every_image_once_with_its_label(imagenet: Path):
    train, _ = loaded(imagenet)
    batches = epoch(train, 1)
    assert [len(y) for _, y in batches] == [5, 5, 2]
    shown = [blue for x, _ in batches for blue in blues(x)]
    assert sorted(shown) == list(range(0, 120, 10))
    # The second class was written first.
    assert [y for _, labels in batches for y in labels.tolist()] == [int(blue < 60) for blue in shown]


def test_only_training_batches_are_cut_at_random(imagenet: Path):
    train, test = loaded(imagenet)
    x = torch.cat([x for x, _ in epoch(test, 1)])
    plain = test.images(range(4))
    assert torch.equal(x[np.argsort(blues(x))], plain[np.argsort(blues(plain))])
    assert not torch.equal(epoch(train, 1)[0][0], train.images([0, 1, 2, 3, 4]))
    assert train.to("cpu").augmented


def test_a_batch_depends_on_the_generator_alone(imagenet: Path, monkeypatch: pytest.MonkeyPatch):
    train, _ = loaded(imagenet)
    expected, other = epoch(train, 1), epoch(train, 2)
    image, delays = FolderSplit._image, iter([0.02, 0, 0.01, 0.03, 0, 0.01] * 2)

    def late(*arguments):
        time.sleep(next(delays))
        return image(*arguments)

    monkeypatch.setattr(FolderSplit, "_image", late)
    monkeypatch.setattr(folder, "_THREADS", 3)
    for (x, y), (x_late, y_late) in zip(expected, epoch(train, 1), strict=True):
        assert torch.equal(x, x_late)
        assert torch.equal(y, y_late)
    assert not torch.equal(expected[0][0], other[0][0])


def test_crops_do_not_depend_on_the_batch_size(imagenet: Path):
    train, _ = loaded(imagenet)
    small, large = (torch.cat([x for x, _ in epoch(train, 1, size)]) for size in (2, 12))
    assert torch.equal(small, large)


def test_one_batch_is_decoded_ahead(imagenet: Path, monkeypatch: pytest.MonkeyPatch):
    train, _ = loaded(imagenet)
    started: list[int] = []

    class Counting(ThreadPoolExecutor):
        def map(self, function, rows, keys):
            started.extend(rows)
            return super().map(function, rows, keys)

    monkeypatch.setattr(folder, "ThreadPoolExecutor", Counting)
    batches = train.batches(3, generator("cpu", 1), "cpu")
    next(batches)
    assert len(started) == 6
    next(batches)
    assert len(started) == 9
    batches.close()
    assert len(started) == 9


def test_an_unreadable_image_is_named_when_it_is_asked_for(imagenet: Path):
    broken = imagenet / "val" / "n01" / "b.png"
    broken.write_bytes(broken.read_bytes()[:100])
    _, test = loaded(imagenet)
    assert len(test.images([0, 2])) == 2
    with pytest.raises(UserError, match=f"^{broken} cannot be read as an image: "):
        test.images([0, 1])
    with pytest.raises(UserError, match=f"^{broken} cannot be read as an image: "):
        epoch(test, 1)
    broken.unlink()
    with pytest.raises(UserError, match=f"^{broken} cannot be read as an image: .*No such file"):
        test.images([1])


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1"])
def test_images_of_any_mode_become_colour(tmp_path: Path, mode: str):
    path = tmp_path / ("image.jpg" if mode == "CMYK" else "image.png")
    gradient(30, 30).convert(mode).save(path)
    assert FolderSplit([str(path)], torch.tensor([0]), 224).images([0]).shape == (1, 3, 224, 224)


def test_empty_folders_are_named(imagenet: Path, tmp_path: Path):
    for path in (imagenet / "val" / "n02").iterdir():
        path.unlink()
    with pytest.raises(UserError, match=f"^{imagenet}/val/n02 is empty: images"):
        loaded(imagenet)
    (tmp_path / "none").mkdir()
    with pytest.raises(UserError, match=f"^{tmp_path}/none is empty: a folder of images for each class"):
        read_folders(tmp_path / "none", imagenet / "val", 224)


def test_both_splits_must_have_the_same_classes(imagenet: Path):
    (imagenet / "val" / "n03").mkdir()
    with pytest.raises(UserError, match="must hold the same class folders; n03 is in only one"):
        loaded(imagenet)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the images that are decoded from now on."""
    paths: list[str] = []
    image = FolderSplit._image

    def noted(self: FolderSplit, row: int, key: int | None = None) -> torch.Tensor:
        paths.append(self.paths[row])
        return image(self, row, key)

    monkeypatch.setattr(FolderSplit, "_image", noted)
    return paths


def test_a_process_decodes_its_own_share_alone(imagenet: Path, opened: list[str]):
    train, _ = loaded(imagenet)
    whole = epoch(train, 1)
    opened.clear()
    decoded = []
    for rank in range(2):
        world = ProcessGroup(rank, 2)
        for (x, y), (ours, labels) in zip(
            whole, train.batches(5, generator("cpu", 1), "cpu", world=world), strict=True
        ):
            rows = world.share(len(y)).rows
            assert torch.equal(labels, y)
            assert ours.shape == x.shape
            assert torch.equal(ours[rows], x[rows])
        decoded.append(len(opened))
    assert decoded == [3 + 3 + 1, 12]
    assert len(set(opened)) == 12


def test_batches_before_the_first_are_not_decoded(imagenet: Path, opened: list[str]):
    train, _ = loaded(imagenet)
    whole = epoch(train, 1)
    opened.clear()
    rest = list(train.batches(5, generator("cpu", 1), "cpu", first=1))
    assert len(opened) == 7
    assert [len(y) for _, y in rest] == [5, 2]
    for (x, y), (expected, labels) in zip(rest, whole[1:], strict=True):
        assert torch.equal(x, expected)
        assert torch.equal(y, labels)
    assert not list(train.batches(5, generator("cpu", 1), "cpu", first=3))


def test_images_of_another_size(imagenet: Path):
    train, test = (split for split in read_folders(imagenet / "train", imagenet / "val", 64)[:2])
    assert next(iter(epoch(train, 1)))[0].shape == (5, 3, 64, 64)
    x = test.images([3, 0])
    assert (x[:, 2, 32, 32] * 255).round().int().tolist() == [130, 140]
