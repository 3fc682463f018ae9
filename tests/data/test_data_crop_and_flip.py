"""`crop_and_flip` against every crop there is, made one by one."""

from collections import Counter

import pytest
import torch
from torch import Tensor

from shieldwall.data.splits import crop_and_flip
from shieldwall.seeds import generator


def every_crop(image: Tensor, padding: int) -> dict[tuple[int, int, bool], Tensor]:
    channels, height, width = image.shape
    padded = torch.zeros(channels, height + 2 * padding, width + 2 * padding)
    padded[:, padding : padding + height, padding : padding + width] = image
    crops = {}
    for top in range(2 * padding + 1):
        for left in range(2 * padding + 1):
            crop = padded[:, top : top + height, left : left + width]
            crops[top, left, False] = crop
            crops[top, left, True] = torch.stack([crop[:, :, width - 1 - i] for i in range(width)], dim=2)
    return crops


def which_crop(image: Tensor, changed: Tensor, padding: int) -> tuple[int, int, bool]:
    (match,) = [key for key, crop in every_crop(image, padding).items() if torch.equal(crop, changed)]
    return match


def test_each_image_is_one_of_its_own_crops_and_all_are_as_likely():
    x = torch.rand(600, 2, 6, 7, generator=generator("cpu", 0, "images"))
    changed = crop_and_flip(x, generator("cpu", 1), padding=2)
    assert changed.shape == x.shape
    found = [which_crop(image, result, 2) for image, result in zip(x, changed, strict=True)]
    for choice, options in ((0, 5), (1, 5), (2, 2)):
        counts = Counter(key[choice] for key in found)
        expected = len(found) / options
        # 600 draws: five standard deviations at most.
        assert len(counts) == options
        assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())
    assert len(set(found)) == 50  # offsets and mirroring are drawn apart, for each image apart


def test_the_usual_padding_is_four():
    x = torch.rand(24, 3, 32, 32, generator=generator("cpu", 0))
    changed = crop_and_flip(x, generator("cpu", 2))
    offsets = {which_crop(*pair, padding=4)[:2] for pair in zip(x, changed, strict=True)}
    assert max(max(pair) for pair in offsets) == 8
    assert min(min(pair) for pair in offsets) == 0


def test_the_generator_decides():
    x = torch.rand(16, 3, 32, 32, generator=generator("cpu", 0))
    first, again, other = (crop_and_flip(x, generator("cpu", seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_batch_given_is_left_alone():
    x = torch.rand(4, 1, 8, 8, generator=generator("cpu", 0))
    before = x.clone()
    crop_and_flip(x, generator("cpu", 1))
    assert torch.equal(x, before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cpu_generator_gives_the_same_crops_on_cuda():
    x = torch.rand(16, 3, 32, 32, generator=generator("cpu", 0))
    on_cuda = crop_and_flip(x.cuda(), generator("cpu", 1))
    assert on_cuda.is_cuda
    assert torch.equal(on_cuda.cpu(), crop_and_flip(x, generator("cpu", 1)))
