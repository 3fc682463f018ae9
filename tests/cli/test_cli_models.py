"""A user's own model, named as module:function."""

import sys
from pathlib import Path

import pytest
from cli_tools import Outcome, Shieldwall, refused, timeless

import shieldwall as sw
from shieldwall import recipes
from shieldwall.results.archive import pack

MODULE = '''
"""A linear model, and functions that are no models."""

from torch import nn

NUMBER = 3


def linear(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))


def one_class_too_many(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes + 1))


def wrong_input(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(63, num_classes))


def unflattened(num_classes):
    return nn.Linear(8, num_classes)


def no_module(num_classes):
    return "a network"
'''


@pytest.fixture
def own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own_models.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "own_models", raising=False)


def train(shieldwall: Shieldwall, model: str) -> Outcome:
    return shieldwall(
        "train", "smoke", "--out", "out", "--set", "schedule.epochs=1", "--set", f"model={model}"
    )


@pytest.mark.usefixtures("own_models")
def test_a_function_in_the_working_directory_is_trained_and_certified(shieldwall: Shieldwall):
    path = list(sys.path)
    assert train(shieldwall, "own_models:linear").code == 0
    assert shieldwall("certify", "out", "--n", 20, "--limit", 2).code == 0
    assert len(timeless(Path("out"))["we"]) == 3
    assert sys.path == path


@pytest.mark.usefixtures("own_models")
@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nowhere_models:linear", "cannot import 'nowhere_models'"),
        ("own_models:linaer", "'own_models' has no function 'linaer'"),
        ("own_models:NUMBER", "'own_models' has no function 'NUMBER'"),
        ("own_models:one_class_too_many", "returns (2, 11) for 2 images of 10 classes"),
        ("own_models:unflattened", "returns (2, 1, 8, 10) for 2 images"),
        ("own_models:wrong_input", "does not accept images of shape (1, 8, 8)"),
        ("own_models:no_module", "a model must be a module or a function"),
    ],
)
def test_what_is_no_model_is_refused(model: str, said: str, shieldwall: Shieldwall):
    refused(train(shieldwall, model), f"model '{model}'", said)
    assert not Path("out").exists()


@pytest.mark.usefixtures("own_models")
def test_certifying_without_the_module_says_so(shieldwall: Shieldwall, monkeypatch: pytest.MonkeyPatch):
    assert train(shieldwall, "own_models:linear").code == 0
    Path("own_models.py").unlink()
    monkeypatch.delitem(sys.modules, "own_models")
    refused(shieldwall("certify", "out"), "cannot import 'own_models'")
    assert not Path("out/certificates").exists()


@pytest.fixture
def stranger(own_models: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code leaves a mark when it runs, and nobody has trusted it."""
    Path("own_models.py").write_text(f"open('ran', 'w').close()\n{MODULE}")


@pytest.mark.usefixtures("stranger")
def test_code_that_a_recipe_names_runs_only_if_it_is_trusted(
    shieldwall: Shieldwall, monkeypatch: pytest.MonkeyPatch
):
    recipe = recipes.override(recipes.get("smoke"), ["model=own_models:linear", "schedule.epochs=1"])
    Path("recipe.yaml").write_text(recipe.to_yaml())
    refused(
        shieldwall("train", "recipe.yaml", "--out", "out"), "names code, 'own_models:linear'", "--trust-code"
    )
    assert not Path("ran").exists()
    assert shieldwall("train", "recipe.yaml", "--out", "out", "--trust-code").code == 0
    monkeypatch.setenv("SHIELDWALL_TRUST_CODE", "")
    assert shieldwall("certify", "out", "--n", 20, "--limit", 2).code == 0  # known by its SHA-256
    Path("own_models.py").write_text(f"{Path('own_models.py').read_text()}# changed\n")
    Path("ran").unlink()
    for command in (["certify"], ["predict", "--index", "0"], ["verify", "--redraw", "1"]):
        monkeypatch.delitem(sys.modules, "own_models", raising=False)
        refused(shieldwall(command[0], "out", *command[1:]), "new here or has changed")
        with pytest.raises(sw.UserError, match="new here or has changed"):
            sw.load("out")
    pack(Path("out"), Path("out.tar.xz"))
    for command in (["report", "out.tar.xz"], ["report", "out"], ["verify", "out.tar.xz"]):
        assert shieldwall(*command).code == 0
    assert not Path("ran").exists()
