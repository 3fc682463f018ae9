"""Tuned weights: held-out images, one more vote, equal weights beside it."""

from pathlib import Path

import pytest
import yaml
from cli_tools import Shieldwall, refused

from shieldwall import load_data, recipes
from shieldwall.stages.common import held_out_part, training_part


@pytest.fixture
def held_out_run(shieldwall: Shieldwall, tmp_path: Path) -> Path:
    folder = tmp_path / "held-out"
    done = shieldwall("train", "smoke", "--set", "hold_out=5", "--set", "schedule.epochs=1", "--out", folder)
    assert done.code == 0, done.err
    return folder


def test_held_out_images_are_those_that_training_does_not_see() -> None:
    recipe = recipes.override(recipes.get("smoke"), ["hold_out=5"])
    dataset = load_data("digits")
    seen, unseen = training_part(recipe, dataset), held_out_part(recipe, dataset)
    assert len(seen) + len(unseen) == len(dataset.train)
    assert unseen.images([1]).equal(dataset.train.images([5]))
    assert seen.images([4]).equal(dataset.train.images([6]))
    assert unseen.labels.equal(dataset.train.labels[::5])


@pytest.mark.parametrize("method", ["sween", "grid"])
def test_weights_are_kept_and_certified_as_one_more_vote(
    shieldwall: Shieldwall, held_out_run: Path, method: str
) -> None:
    done = shieldwall("weigh", held_out_run, "--method", method, "--copies", "3")
    assert done.code == 0, done.err
    assert "equal" in done.out
    assert "%" in done.out
    weights = yaml.safe_load((held_out_run / "weights.yaml").read_text())[method]
    assert len(weights) == 2
    assert sum(weights) == pytest.approx(1.0)
    done = shieldwall("certify", held_out_run, "--limit", "2", "--n", "100", "--to", f"with-{method}")
    assert done.code == 0, done.err
    lines = (held_out_run / f"with-{method}" / f"we-{method}.tsv").read_text().splitlines()
    assert len(lines) == 3
    assert lines[1].endswith(f"we-{method}")


def test_mistakes(shieldwall: Shieldwall, held_out_run: Path, trained: Path, tmp_path: Path) -> None:
    refused(shieldwall("weigh", held_out_run, "--method", "swen"), "did you mean 'sween'")
    refused(shieldwall("weigh", trained), "--set hold_out=10")
    refused(shieldwall("train", "smoke", "--set", "hold_out=1", "--out", tmp_path / "bad"), "at least 2")
