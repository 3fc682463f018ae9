"""`predict` on image files needs no data set."""

from pathlib import Path

import numpy as np
import pytest
from cli_tools import Shieldwall, refused
from PIL import Image

from shieldwall import recipes
from shieldwall.models.registry import build_members
from shieldwall.runs.folder import RunFolder


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    """A run on MNIST, which is not on this machine as far as the command line can see."""
    run = RunFolder.create(tmp_path / "mnist", recipes.override(recipes.get("mnist-gaussian"), ["members=2"]))
    run.save_members(build_members("lenet", 2, 10, (1, 28, 28), seed=0))
    return run.path


def test_image_files_are_classified_without_the_data(shieldwall: Shieldwall, mnist: Path):
    Image.fromarray(np.full((28, 28), 128, dtype=np.uint8)).save("grey.png")
    done = shieldwall("predict", mnist, "grey.png", "--n", "20")
    assert done.code == 0
    assert "grey.png" in done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to predict: give image files, or test inputs with --index"),
        (["nowhere.png"], "nowhere.png cannot be read: No such file or directory"),
        (["nowhere.png", "--index", "0"], "nowhere.png cannot be read: No such file or directory"),
        (["--index", "0"], "mnist was not found"),
    ],
)
def test_what_is_wrong_is_said_first(arguments: list[str], said: str, shieldwall: Shieldwall, mnist: Path):
    refused(shieldwall("predict", mnist, *arguments), said)
