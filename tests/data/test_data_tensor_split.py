"""Splits held in memory: exact pixels, seeded shuffling."""

import numpy as np
import pytest
import torch
from torch import Tensor

from shieldwall.data.splits import TensorSplit
from shieldwall.seeds import generator


def numbered_split(count: int = 10, augment=None) -> TensorSplit:
    """Image i is all i, and its label is i % 3."""
    pixels = torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 2, 3, 4).contiguous()
    return TensorSplit(pixels, torch.arange(count) % 3, augment)


def epoch(split: TensorSplit, seed: int, batch_size: int = 4) -> list[tuple[Tensor, Tensor]]:
    return list(split.batches(batch_size, generator("cpu", seed, "epoch"), "cpu"))


def test_every_pixel_value_is_divided_by_255_and_correctly_rounded():
    values = torch.arange(256, dtype=torch.uint8)
    split = TensorSplit(values.view(256, 1, 1, 1), torch.zeros(256, dtype=torch.int64))
    x = split.images(range(256))
    assert x.dtype == torch.float32
    assert x.shape == (256, 1, 1, 1)
    assert np.array_equal(x.flatten().numpy(), (np.arange(256) / 255).astype(np.float32))


@pytest.mark.parametrize("indices", [[7, 2, 2], (7, 2, 2), torch.tensor([7, 2, 2])])
def test_images_come_in_the_order_asked_for(indices):
    x = numbered_split().images(indices)
    assert torch.equal(x[:, 0, 0, 0] * 255, torch.tensor([7.0, 2.0, 2.0]))


def test_no_indices_give_no_images():
    assert numbered_split().images([]).shape == (0, 2, 3, 4)


def test_an_epoch_gives_every_image_once_with_its_label():
    batches = epoch(numbered_split(), seed=1)
    assert [len(y) for _, y in batches] == [4, 4, 2]
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    shown = (x[:, 0, 0, 0] * 255).round().long()
    assert sorted(shown.tolist()) == list(range(10))
    assert torch.equal(y, shown % 3)
    assert y.dtype == torch.int64


def test_the_order_is_the_generators():
    first, again, other = (torch.cat([x for x, _ in epoch(numbered_split(50), seed)]) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_epochs_from_one_generator_differ():
    split, draws = numbered_split(50), generator("cpu", 0)
    first, second = (torch.cat([y for _, y in split.batches(8, draws, "cpu")]) for _ in range(2))
    assert not torch.equal(first, second)


def test_only_batches_are_augmented_and_with_the_same_generator():
    def noisy(x: Tensor, draws: torch.Generator) -> Tensor:
        return x + torch.rand(x.shape, generator=draws)

    split = numbered_split(augment=noisy)
    assert torch.equal(split.images([3]), numbered_split().images([3]))
    assert torch.equal(epoch(split, 1)[-1][0], epoch(split, 1)[-1][0])
    assert not torch.equal(epoch(split, 1)[-1][0], epoch(numbered_split(), 1)[-1][0])
    assert torch.equal(epoch(split.to("cpu"), 1)[-1][0], epoch(split, 1)[-1][0])


def test_moving_a_split_moves_pixels_and_labels():
    moved = numbered_split().to("meta")
    assert moved.device.type == moved.pixels.device.type == "meta"
    assert len(moved) == 10


def test_the_digest_tells_pixels_labels_and_shapes_apart():
    split = numbered_split()
    pixels, labels = split.pixels, split.labels
    assert split.digest() == numbered_split().digest()
    other_pixel, other_label = pixels.clone(), labels.clone()
    other_pixel[4, 0, 0, 0] += 1
    other_label[4] += 1
    others = [
        *(TensorSplit(other_pixel, labels), TensorSplit(pixels, other_label), split.subset(range(9))),
        *(TensorSplit(pixels.view(10, 2, 4, 3), labels), TensorSplit(pixels.view(torch.int8), labels)),
    ]
    assert len({split.digest(), *(other.digest() for other in others)}) == 6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_gives_the_same_bits():
    split = numbered_split(250)
    moved = split.to("cuda")
    assert moved.images([0]).is_cuda
    assert torch.equal(moved.images(range(250)).cpu(), split.images(range(250)))
    for source in (split, moved):
        batches = source.batches(100, generator("cpu", 1, "epoch"), "cuda")
        for (x, y), (x_cpu, y_cpu) in zip(batches, epoch(split, 1, 100), strict=True):
            assert x.is_cuda
            assert torch.equal(x.cpu(), x_cpu)
            assert torch.equal(y.cpu(), y_cpu)
