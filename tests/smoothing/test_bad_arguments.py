"""The likely slips in a call of `certify` and `predict`, each told in one line."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw

X = torch.full((2, 1, 4, 4), 0.5)
NOISE = sw.Gaussian(0.25)


def flat(inputs: int = 16) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 3))


def certify(model: Any = None, x: Tensor = X, noise: Any = NOISE, n: Any = 50, **options: Any) -> object:
    return sw.certify(flat() if model is None else model, x, noise=noise, n=n, **options)


def predict(model: Any = None, x: Tensor = X, noise: Any = NOISE, n: Any = 50, **options: Any) -> object:
    return sw.predict(flat() if model is None else model, x, noise=noise, n=n, **options)


def certify_members(
    model: Any = None, x: Tensor = X, noise: Any = NOISE, n: Any = 50, **options: Any
) -> object:
    return sw.certify_members([flat() if model is None else model], x, noise=noise, n=n, **options)


each = pytest.mark.parametrize("call", [certify, predict, certify_members])
Call = Callable[..., object]


@each
@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (True, r"such as sw\.Gaussian\(True\); given: True$"),
        (None, r"such as sw\.Gaussian\(0\.25\); given: None$"),
        ("gaussian", "given: 'gaussian'$"),
        (sw.Gaussian, "given: the class Gaussian itself$"),
        (torch.tensor(0.5), "given: Tensor$"),
    ],
)
def test_noise(call: Call, noise: object, message: str) -> None:
    with pytest.raises(sw.UserError, match=f"^noise must be a distribution, .*{message}"):
        call(noise=noise)


@pytest.mark.parametrize("kind", [sw.Gaussian, sw.ExactGaussian, sw.Uniform, sw.Laplace])
@pytest.mark.parametrize("scale", ["0.25", None, [0.25]])
def test_the_scale_of_noise(kind: Callable[[Any], object], scale: object) -> None:
    with pytest.raises(sw.UserError, match=r"(sigma|lam) must be a number; given: "):
        kind(scale)


@each
def test_draws_are_whole_numbers(call: Call) -> None:
    with pytest.raises(sw.UserError, match=r"^n must be a whole number; given: 1000\.0; write 1000$"):
        call(n=1e3)
    with pytest.raises(sw.UserError, match=r"^n must be a whole number; given: '50'$"):
        call(n="50")
    assert call(n=np.int64(50))


def test_other_numbers() -> None:
    with pytest.raises(sw.UserError, match=r"^n0 must be a whole number; given: 10\.5$"):
        certify(n0=10.5)
    for call in (certify, predict):
        with pytest.raises(
            sw.UserError, match=r"^batch_size must be a whole number; given: 100\.0; write 100$"
        ):
            call(batch_size=1e2)
        with pytest.raises(sw.UserError, match=r"^alpha must be a number; given: '0\.001'$"):
            call(alpha="0.001")
        with pytest.raises(sw.UserError, match=r"^2 inputs need 2 indices; given: 3$"):
            call(indices=[0, 1, 2])


@each
@pytest.mark.parametrize("device", ["gpu", "cuda:99", 2.5])
def test_a_device_that_is_not_there(call: Call, device: object) -> None:
    with pytest.raises(sw.UserError, match=f"^device '{device}' cannot be used here: "):
        call(device=device)


@each
def test_what_is_no_model(call: Call) -> None:
    with pytest.raises(sw.UserError, match=r"not the class Flatten; pass an instance, Flatten\(\.\.\.\)"):
        call(nn.Flatten)
    with pytest.raises(sw.UserError, match=r"^a model must be a module or a function .*given: 'lenet'$"):
        call("lenet")


@pytest.mark.parametrize("members", [flat(), nn.Linear(16, 3), lambda x: x, None, nn.ModuleDict(), nn.Linear])
def test_one_model_is_no_list_of_members(members: Any) -> None:
    for use in (
        lambda: sw.certify_members(members, X, noise=NOISE, n=50),
        lambda: sw.WeightedEnsemble(members),
    ):
        with pytest.raises(sw.UserError, match=r"^members must be a list of models; given: "):
            use()


def test_lists_of_members() -> None:
    members = [flat(), flat()]
    for kind in (list, tuple, iter, nn.ModuleList):
        assert "member-2" in sw.certify_members(kind(members), X, noise=NOISE, n=50)
    with pytest.raises(sw.UserError, match="needs at least one member; none was given"):
        sw.certify_members([], X, noise=NOISE, n=50)


@each
def test_images_that_the_model_cannot_take(call: Call) -> None:
    with pytest.raises(
        sw.UserError, match=r"^the model fails at inputs of shape \(1, 4, 4\): mat1"
    ) as caught:
        call(flat(48))
    assert type(caught.value.__cause__) is RuntimeError
    assert "\n" not in str(caught.value)


def test_a_colour_image_in_the_place_of_a_batch() -> None:
    with pytest.raises(sw.UserError, match=r"shape \(4, 4\): .*for a single image pass x\[None\]$"):
        certify(flat(48), torch.zeros(3, 4, 4))
    with pytest.raises(sw.UserError, match=r"shape \(4, 4\): .*for a single image pass x\[None\]$"):
        certify(nn.Sequential(nn.Conv2d(3, 2, 4), nn.Flatten()), torch.zeros(3, 4, 4))
    assert certify(flat(48), torch.zeros(3, 4, 4)[None])
