"""The likely slips in a call of `train`, each told in one line."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import shieldwall as sw

X, Y = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3
SPLIT = sw.Split.from_tensors(X, Y)
OBJECTIVE = sw.GaussianAugmentation(sw.Gaussian(0.25))
SCHEDULE = sw.Schedule(epochs=1)


def flat(inputs: int = 16) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 3))


def refused(message: str, **changes: Any) -> None:
    call = {"members": [flat()], "data": SPLIT, "objective": OBJECTIVE, "schedule": SCHEDULE, **changes}
    with pytest.raises(sw.UserError, match=message) as caught:
        sw.train(**call)
    assert "\n" not in str(caught.value)


def test_members() -> None:
    net = flat()
    refused("members must be a list of models; given: Sequential; write", members=net)
    refused("members 1 and 3 are the same module", members=[net, flat(), net])
    refused(r"not the class Linear; pass an instance, Linear\(\.\.\.\)", members=[nn.Linear])
    refused("training takes torch modules; member 2 is: function", members=[flat(), lambda x: x])
    refused("at least one member", members=[])
    refused(r"^the model fails at inputs of shape \(1, 4, 4\): mat1", members=[flat(48)])
    assert len(sw.train((net, flat()), SPLIT, OBJECTIVE, schedule=SCHEDULE)) == 1


def test_data() -> None:
    refused(r"given: tuple; pass sw\.Split\.from_tensors\(images, labels\)", data=(X, Y))
    refused(r"given: Dataset; pass its \.train", data=sw.load_data("digits"))


def test_objective() -> None:
    refused("given: the class GaussianAugmentation itself", objective=sw.GaussianAugmentation)
    refused("objective must be a training method, such as .*; given: 'drt'", objective="drt")


def test_schedule_and_device() -> None:
    refused(r"such as sw\.Schedule\(epochs=10\); given: 10", schedule=10)
    refused("^device 'gpu' cannot be used here: ", device="gpu")


@pytest.mark.parametrize(
    "kind", [sw.GaussianAugmentation, sw.SmoothAdv, sw.MACER, sw.Stability, sw.Consistency, sw.ADP, sw.GAL]
)
def test_noise_of_a_method(kind: Callable[..., object]) -> None:
    with pytest.raises(sw.UserError, match=r"noise must be .*sw\.Gaussian\(0\.5\); given: 0\.5"):
        kind(0.5)
    with pytest.raises(sw.UserError, match=r"num_noise .* must be a whole number; given: 2\.0; write 2"):
        kind(sw.Gaussian(0.5), num_noise=2.0)


def test_base_of_drt() -> None:
    with pytest.raises(sw.UserError, match="DRT cannot wrap the class GaussianAugmentation itself"):
        sw.DRT(sw.GaussianAugmentation, rho_gd=1, rho_cm=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 1e1}, r"schedule\.epochs must be a whole number; given: 10\.0; write 10"),
        ({"batch_size": "64"}, r"schedule\.batch_size must be a whole number; given: '64'"),
        ({"lr": "0.1"}, r"schedule\.lr must be a number; given: '0\.1'"),
        ({"momentum": None}, r"schedule\.momentum must be a number; given: None"),
    ],
)
def test_numbers_of_a_schedule(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sw.UserError, match=message):
        sw.Schedule(**options)
