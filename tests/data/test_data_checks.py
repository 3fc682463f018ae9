"""Which tensors are images and labels, and which are refused, in words."""

import pytest
import torch
from torch import Tensor

import shieldwall as sw
from shieldwall.data.splits import check_split
from shieldwall.errors import UserError

GOOD = (torch.zeros(3, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 9, 4]))


@pytest.mark.parametrize(
    ("pixels", "labels", "message"),
    [
        (GOOD[0][:, :, 1:], GOOD[1], r"images must be \(1, 8, 8\); given: \(1, 7, 8\)"),
        (GOOD[0], GOOD[1][:2], r"labels must be one for each of 3 images; given: \(2,\)"),
        (GOOD[0][:0], GOOD[1][:0], "0 images"),
        (GOOD[0], torch.tensor([0, 10, 4]), "labels must be 0 to 9; given: 0 to 10"),
        (GOOD[0], torch.tensor([0, 1, -1]), "labels must be 0 to 9; given: -1 to 1"),
    ],
)
def test_a_wrong_split_is_refused(pixels, labels, message):
    check_split("here", *GOOD, (1, 8, 8), 10)
    with pytest.raises(UserError, match=f"^here: .*{message}"):
        check_split("here", pixels, labels, (1, 8, 8), 10)


PIXELS = torch.arange(24, dtype=torch.uint8).reshape(3, 2, 2, 2) * 11
LABELS = torch.tensor([2, 0, 7])
FLOATS = (torch.float32, torch.float64, torch.float16)


def test_uint8_and_floats_give_the_same_images() -> None:
    whole = sw.Split.from_tensors(PIXELS, LABELS)
    parts = [sw.Split.from_tensors(whole.images(range(3)).to(kind), LABELS) for kind in FLOATS]
    for split in (whole, *parts):
        assert split.labels.tolist() == [2, 0, 7]
        assert split.images([0]).dtype == torch.float32
        assert split.subset([2]).images([0]).shape == (1, 2, 2, 2)
    assert all(torch.equal(part.images(range(3)), whole.images(range(3))) for part in parts[:2])
    assert torch.allclose(parts[2].images(range(3)), whole.images(range(3)), atol=2**-11)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16])
def test_labels_may_be_any_whole_numbers(kind: torch.dtype) -> None:
    labels = sw.Split.from_tensors(PIXELS, LABELS.to(kind)).labels
    assert labels.dtype == torch.int64
    assert torch.equal(labels, LABELS)


def test_images_that_were_differentiated_are_no_part_of_a_graph() -> None:
    split = sw.Split.from_tensors(torch.rand(3, 1, 2, 2, requires_grad=True), LABELS)
    assert not split.images([0]).requires_grad


UNIT = PIXELS / 255
LAST = torch.tensor([2])


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (UNIT.numpy(), LABELS, r"images must be a torch tensor \(M, C, H, W\); given: ndarray"),
        (PIXELS[:, 0], LABELS, r"given shape: \(3, 2, 2\); for grey images pass images\[:, None\]"),
        (PIXELS[0, 0], LABELS, r"given shape: \(2, 2\)$"),
        (PIXELS[:0], LABELS[:0], r"at least one; given shape: \(0, 2, 2, 2\)"),
        (PIXELS.long(), LABELS, r"given: int64; for pixels from 0 to 255 call .to\(torch.uint8\) first"),
        (PIXELS.bool(), LABELS, "given: bool"),
        (PIXELS.float(), LABELS, r"must lie in \[0, 1\]; given: \[0, 253\]; divide pixels by 255"),
        (UNIT - 0.5, LABELS, r"given: \[-0.5, 0.492157\]"),
        (UNIT / 0, LABELS, "images must not contain NaN; repair or remove"),
        (UNIT.index_fill(0, LAST, torch.nan), LABELS, "must not contain NaN"),
        (UNIT.index_fill(0, LAST, torch.inf), LABELS, r"given: \[0, inf\]"),
        (PIXELS, [2, 0, 7], r"labels must be a torch tensor \(M,\); given: list"),
        (PIXELS, LABELS[:2], r"one for each of 3 images; given shape: \(2,\)"),
        (PIXELS, torch.eye(3), r"given shape: \(3, 3\); of one-hot labels pass labels.argmax\(1\)"),
        (PIXELS, LABELS.float(), r"whole numbers, such as int64; given: float32; call .long\(\) first"),
        (PIXELS, LABELS.bool(), "given: bool"),
        (PIXELS, -LABELS, "counted from 0; given: -7"),
    ],
)
def test_what_is_no_data_is_refused_in_a_line(images: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        sw.Split.from_tensors(images, labels)
    assert "\n" not in str(caught.value)


def test_training_takes_it_and_floats_train_to_the_same_bits() -> None:
    digits = sw.load_data("digits").train
    x, y = digits.images(range(200)), digits.labels[:200]

    def flipped(images: Tensor, generator: torch.Generator) -> Tensor:
        return images.flip(-1) if torch.rand((), generator=generator) < 0.5 else images

    def losses(images: Tensor) -> list[float]:
        records = sw.train(
            sw.build_members("digits-cnn", 2, 10, (1, 8, 8), seed=0),
            sw.Split.from_tensors(images, y, augment=flipped),
            sw.GaussianAugmentation(sw.Gaussian(0.25)),
            schedule=sw.Schedule(epochs=2, batch_size=50, lr=0.1),
        )
        return [record["loss"] for record in records]

    assert losses(x) == losses((x * 255).round().byte())
