"""Normalize: each channel by its own numbers, and nothing that would be spread over others in silence."""

from typing import Any

import numpy as np
import pytest
import torch

import shieldwall as sw


def test_each_channel_has_its_own_mean_and_std() -> None:
    layer = sw.Normalize([0.5, 0.0], [0.25, 1.0])
    x = torch.tensor([0.75, 0.75]).view(1, 2, 1, 1)
    assert layer(x).flatten().tolist() == [1.0, 0.75]


@pytest.mark.parametrize("kind", [tuple, np.array, torch.tensor])
def test_numbers_may_come_in_any_row(kind: Any) -> None:
    layer = sw.Normalize(kind([1, 2]), kind([1, 4]))
    assert layer.std.flatten().tolist() == [1.0, 4.0]
    assert (layer.mean.dtype, layer.std.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        (0.5, [1.0], "mean must be a list of one finite number per channel; given: 0.5"),
        ([0.5], 1.0, "std must be a list of one finite number per channel; given: 1.0"),
        ("0.5", [1.0], "mean must be a list"),
        ([], [], "mean must be a list of one finite number per channel"),
        ([float("nan")], [1.0], "mean must be a list of one finite number"),
        ([0.0, 0.0], [1.0], "a mean and a std for each channel; given: 2 and 1"),
        ([0.0, 0.0], [1.0, 0.0], r"std, which must be positive; given: \[1.0, 0.0\]"),
        ([0.0], [-1.0], "must be positive"),
    ],
)
def test_what_is_no_mean_or_std(mean: Any, std: Any, message: str) -> None:
    with pytest.raises(sw.UserError, match=message):
        sw.Normalize(mean, std)


@pytest.mark.parametrize("shape", [(2, 1, 4, 4), (2, 4, 4, 3), (4, 4), (3,)])
def test_images_of_other_channels_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(sw.UserError, match=r"made for images \(B, 3, H, W\); given shape: \("):
        sw.Normalize([0.0] * 3, [1.0] * 3)(torch.zeros(shape))


def test_a_single_image_in_the_place_of_a_batch_is_refused() -> None:
    model = torch.nn.Sequential(sw.Normalize([0.0], [1.0]), torch.nn.Flatten(), torch.nn.Linear(16, 2))
    x = torch.zeros(3, 1, 4, 4)
    with pytest.raises(sw.UserError, match=r"for a single image pass x\[None\]"):
        sw.certify(model, x[0], noise=sw.Gaussian(0.5), n=50)
    assert len(sw.certify(model, x[0][None], noise=sw.Gaussian(0.5), n=50)) == 1


def test_it_runs_image_by_image() -> None:
    layer, x = sw.Normalize([0.1, 0.2], [0.5, 0.25]), torch.rand(3, 2, 4, 4)
    assert torch.vmap(layer)(x).equal(layer(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
def test_its_check_breaks_no_graph() -> None:
    layer, x = sw.Normalize([0.1, 0.2], [0.5, 0.25]), torch.rand(3, 2, 4, 4)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    assert compiled(x).equal(layer(x))
