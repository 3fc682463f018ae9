"""Recipes that cannot be: refused in one line, before anything is created."""

from pathlib import Path

import pytest
import yaml
from cli_tools import Shieldwall, refused, snapshot

from shieldwall import recipes

OUT = Path("out")

SETTINGS = {
    "sigma=0": ["sigma must be a positive number", "0.0"],
    "sigma=-1": ["sigma must be a positive number", "-1.0"],
    "sigma=nan": ["sigma must be a positive number", "nan"],
    "sigma=.inf": ["sigma must be a positive number", "inf"],
    "sigma=true": ["sigma must be a number", "True"],
    "certification.n=9": ["n = 9 ", "alpha = 0.001", "use n >= 10"],
    "certification.alpha=0": ["alpha", "between 0 and 1"],
    "certification.alpha=1": ["alpha", "between 0 and 1"],
    "certification.alpha=nan": ["alpha", "between 0 and 1"],
    "certification.n0=0": ["n0", "at least 1"],
    "certification.every=0": ["certification.every", "at least 1"],
    "certification.limit=0": ["certification.limit", "at least 1"],
    "schedul.epochs=1": ["'schedul.epochs'", "did you mean 'schedule.epochs'?"],
    "schedule.epoch=1": ["'schedule.epoch'", "did you mean 'schedule.epochs'?"],
    "objective.num_nose=3": ["'objective.num_nose'", "did you mean 'objective.num_noise'?"],
    "objective.name=gausian": ["'gausian'", "gaussian"],
    "objective.deep.key=3": ["unknown recipe key 'objective.deep.key'"],
    "objective=gaussian": ["objective must be a set of keys"],
    "schedule=3": ["schedule must hold keys of its own"],
    "members=two": ["members must be a whole number", "'two'"],
    "members=0": ["members must be at least 1"],
    "members=true": ["members must be a whole number"],
    "schedule.epochs=1.5": ["schedule.epochs must be a whole number", "1.5"],
    "schedule.epochs=inf": ["schedule.epochs must be a whole number"],
    "schedule.epochs=": ["schedule.epochs must be a whole number"],
    "schedule.epochs=0": ["schedule.epochs must be positive"],
    "schedule.lr=-1": ["schedule.lr must be positive"],
    "name=5": ["name must be text"],
    "summary=@a": ["--set summary=@a is not readable YAML"],
    "members": ["--set takes key=value", "'members'"],
    "=3": ["unknown recipe key ''"],
    "data=mnst": ["unknown data set 'mnst'", "did you mean 'mnist'?"],
    "model=digits-cn": ["unknown model 'digits-cn'", "did you mean 'digits-cnn'?"],
    "model=lenet": ["model 'lenet' does not accept images of shape (1, 8, 8)"],
}


@pytest.mark.parametrize("assignment", SETTINGS)
def test_a_setting_that_cannot_be_is_refused(assignment: str, shieldwall: Shieldwall):
    refused(shieldwall("train", "smoke", "--out", OUT, "--set", assignment), *SETTINGS[assignment])
    assert not OUT.exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("digits-gausian", "did you mean 'digits-gaussian'?"),
        ("mnist-gaussian-0.3", "did you mean 'mnist-gaussian-0."),
        ("zzz", "`shieldwall recipes` lists them"),
        ("nowhere.yaml", "the recipe file nowhere.yaml does not exist"),
    ],
)
@pytest.mark.parametrize("verb", ["train", "recipes"])
def test_an_unknown_recipe_is_refused(verb: str, name: str, said: str, shieldwall: Shieldwall):
    refused(shieldwall(verb, name), said)
    assert not Path("runs").exists()


FILES = {
    "sigma: [1": ["is not readable YAML"],
    "!!python/object/apply:os.getcwd []": ["is not readable YAML"],
    "- a\n- b\n": ["is not a recipe: it must hold keys"],
    "": ["is not a recipe: it must hold keys"],
    "data: digits\nmodel: digits-cnn\nname: mine\n": ["incomplete", "'summary'", "'sigma'"],
    "sigmma: 1\n": ["unknown recipe key 'sigmma'; did you mean 'sigma'?"],
    "3: 1\n": ["unknown recipe key '3'"],
    "schedule: {epoch: 3}\n": ["unknown recipe key 'schedule.epoch'; did you mean 'schedule.epochs'?"],
    "schedule: fast\n": ["schedule must hold keys of its own; given: 'fast'"],
}


@pytest.mark.parametrize("content", FILES)
def test_a_file_that_is_no_recipe_is_refused(content: str, shieldwall: Shieldwall):
    Path("mine.yaml").write_text(content)
    refused(shieldwall("train", "mine.yaml", "--out", OUT), *FILES[content])
    assert not OUT.exists()


def test_a_file_that_is_not_text_is_refused(shieldwall: Shieldwall):
    Path("mine.yaml").write_bytes(b"\xff\xfe\x00")
    refused(shieldwall("train", "mine.yaml", "--out", OUT), "mine.yaml is not readable YAML")


@pytest.mark.parametrize("options", [["--device", "banana"], ["--device", "meta"], ["--device", ""]])
def test_an_unknown_device_is_refused(options: list[str], shieldwall: Shieldwall, run: Path):
    said = f"device '{options[1]}' cannot be used here"
    refused(shieldwall("train", "smoke", "--out", OUT, *options), said)
    assert not OUT.exists()
    before = snapshot(run)
    refused(shieldwall("certify", run, *options), said)
    refused(shieldwall("predict", run, "--index", 0, *options), said)
    assert snapshot(run) == before


def test_a_gpu_that_is_not_there_is_refused(shieldwall: Shieldwall):
    refused(shieldwall("train", "smoke", "--out", OUT, "--device", "cuda:99"), "device 'cuda:99' cannot be")
    assert not OUT.exists()


def test_data_that_is_not_there_is_refused_with_what_to_do(shieldwall: Shieldwall):
    Path("empty").mkdir()
    refused(
        shieldwall("train", "mnist-gaussian", "--out", OUT, "--data-dir", "empty"),
        "mnist was not found; looked in empty/mnist, ",
        "run `shieldwall data fetch mnist`",
    )
    refused(
        shieldwall("train", "mnist-gaussian", "--out", OUT, "--data-dir", "nowhere"),
        "the data folder nowhere does not exist",
    )
    refused(shieldwall("data", "list", "--data-dir", "nowhere"), "the data folder nowhere does not exist")
    assert not OUT.exists()


def test_a_folder_of_something_else_is_refused(shieldwall: Shieldwall):
    OUT.mkdir()
    (OUT / "thesis.tex").write_text("mine")
    refused(shieldwall("train", "smoke", "--out", OUT), "out exists and is not a run folder", "--out")
    refused(shieldwall("train", "smoke", "--out", OUT / "thesis.tex"), "exists and is not a run folder")
    refused(shieldwall("train", "smoke", "--out", OUT / "thesis.tex/run"), "cannot write", "Not a directory")
    assert snapshot(OUT) == {"thesis.tex": b"mine"}


def test_a_run_of_another_recipe_is_refused_with_the_difference(shieldwall: Shieldwall, run: Path):
    before = snapshot(run)
    refused(
        shieldwall("train", "smoke", "--out", run, "--set", "sigma=0.5", "--seed", 3),
        f"{run} holds a run of another recipe",
        "sigma: 0.25, not 0.5",
        "seed: 0, not 3",
        "--out",
    )
    refused(shieldwall("train", "digits-gaussian", "--out", run), "members: 2, not 3")
    assert snapshot(run) == before


@pytest.mark.parametrize("seed", [-1, 9007199254740993, 2**64 + 1])
def test_a_seed_keeps_all_its_digits(seed: int):
    changed = recipes.override(recipes.get("smoke"), [f"seed={seed}"])
    assert changed.seed == seed
    assert recipes.from_mapping(yaml.safe_load(changed.to_yaml())) == changed


def test_numbers_may_be_written_as_yaml_reads_text():
    texts = ["schedule.lr=1e-3", "certification.n=1e5", "members=3.0"]
    changed = recipes.override(recipes.get("smoke"), texts)
    assert (changed.schedule.lr, changed.certification.n, changed.members) == (1e-3, 100_000, 3)
