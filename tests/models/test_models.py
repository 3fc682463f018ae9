"""Models: shapes, published sizes, seeds, and a user's own."""

from pathlib import Path

import pytest
import torch

import shieldwall as sw
from shieldwall.models.registry import factory

SHAPES = {
    "digits-cnn": (1, 8, 8),
    "lenet": (1, 28, 28),
    "resnet20": (3, 32, 32),
    "resnet110": (3, 32, 32),
    "resnet50": (3, 224, 224),
}
PARAMETERS = {"lenet": 431_080, "resnet20": 272_474, "resnet110": 1_730_714, "resnet50": 25_557_032}


@pytest.mark.parametrize("name", SHAPES)
def test_images_in_logits_out(name: str) -> None:
    classes = 1000 if name == "resnet50" else 10
    (member,) = sw.build_members(name, 1, classes, SHAPES[name], seed=0)
    assert member.eval()(torch.rand(2, *SHAPES[name])).shape == (2, classes)
    if name in PARAMETERS:
        assert sum(parameter.numel() for parameter in member.parameters()) == PARAMETERS[name]


def test_members_differ_and_seeds_repeat() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    first, second = sw.build_members("digits-cnn", 2, 10, (1, 8, 8), seed=0)
    again, _ = sw.build_members("digits-cnn", 2, 10, (1, 8, 8), seed=0)
    other, _ = sw.build_members("digits-cnn", 2, 10, (1, 8, 8), seed=1)
    x = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert first(x).equal(again(x))
    assert not first(x).equal(second(x))
    assert not first(x).equal(other(x))
    assert torch.rand(1).equal(expected), "the caller's random state is left alone"


def test_resnet50_takes_published_weights_by_name() -> None:
    (member,) = sw.build_members("resnet50", 1, 1000, (3, 224, 224), seed=0)
    names = set(member.network.state_dict())
    assert {"conv1.weight", "layer1.0.downsample.0.weight", "layer4.2.bn3.running_var", "fc.bias"} <= names
    assert len(names) == 320


def test_a_user_s_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_model.py").write_text(
        "from torch import nn\n"
        "def make(num_classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))\n"
        "def wrong(num_classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))\n"
        "def nothing(num_classes):\n    return None\n"
        "text = 'a string'\n"
        "def fails(num_classes):\n    raise KeyError('width')\n"
        "def pair(num_classes):\n    return Pair()\n"
        "class Pair(nn.Module):\n    def forward(self, x):\n        return x, x\n"
    )
    monkeypatch.chdir(tmp_path)
    (member,) = sw.build_members("own_model:make", 1, 10, (1, 8, 8), seed=0)
    assert member(torch.rand(3, 1, 8, 8)).shape == (3, 10)
    (tmp_path / "broken_model.py").write_text("def make(:\n")
    for name, message in {
        "broken_model:make": "cannot import 'broken_model': SyntaxError",
        "own_model:fails": "cannot be built: KeyError: 'width'",
        "own_model:pair": "returns tuple for 2 images",
        ":make": "cannot import ''",
        ".a:make": "cannot import '.a'",
        "own_model:wrong": r"returns \(2, 3\)",
        "own_model:nothing": "a model must be a module or a function",
        "own_model:text": "has no function 'text'",
        "own_model:missing": "has no function 'missing'",
        "no_such_module:make": "cannot import 'no_such_module'",
        "lenett": "did you mean 'lenet'",
    }.items():
        with pytest.raises(sw.UserError, match=message):
            sw.build_members(name, 1, 10, (1, 8, 8), seed=0)
    with pytest.raises(sw.UserError, match="does not accept images"):
        sw.build_members("own_model:make", 1, 10, (3, 32, 32), seed=0)


def test_the_search_path_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    before = list(sys.path)
    with pytest.raises(sw.UserError):
        factory("no_such_module:make")
    assert sys.path == before
