"""Recipes: complete, validated, overridden key by key, and written so that they read back."""

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from shieldwall import UserError, recipes
from shieldwall.data import datasets
from shieldwall.models.registry import factory
from shieldwall.noise.distributions import Gaussian, Laplace, Uniform
from shieldwall.runs.trained import noise_of
from shieldwall.training.registry import build_objective


@pytest.mark.parametrize("name", recipes.FAMILIES)
def test_every_recipe_names_what_exists_and_reads_back(name: str, tmp_path: Path) -> None:
    for recipe in [recipes.get(name), *(recipes.get(f"{name}-{s}") for s in recipes.FAMILIES[name])]:
        assert recipe.data in datasets.NAMES
        assert callable(factory(recipe.model))
        assert build_objective(recipe.objective, Gaussian(recipe.sigma))
        path = tmp_path / f"{recipe.name}.yaml"
        path.write_text(recipe.to_yaml())
        assert recipes.get(str(path)) == recipe


def test_a_name_may_carry_its_sigma() -> None:
    assert recipes.get("mnist-gaussian-1.0").sigma == 1.0
    assert recipes.get("mnist-gaussian-1.0").name == "mnist-gaussian-1.0"
    with pytest.raises(UserError, match="did you mean"):
        recipes.get("mnist-gaussian-3.0")


def test_a_name_like_no_other_is_not_answered_with_all_of_them() -> None:
    with pytest.raises(UserError, match=r"^unknown recipe 'zzz'; `shieldwall recipes` lists them$"):
        recipes.get("zzz")


def test_override() -> None:
    changed = recipes.override(
        recipes.get("smoke"),
        ["sigma=1", "schedule.lr=1e-3", "objective.num_noise=4", "members=5", "certification.limit=7"],
    )
    assert changed.sigma == 1.0
    assert isinstance(changed.sigma, float)
    assert changed.schedule.lr == 0.001
    assert changed.objective == {"name": "gaussian", "num_noise": 4}
    assert changed.members == 5
    assert changed.certification.limit == 7
    assert recipes.get("smoke").members == 2
    assert recipes.override(changed, ["certification.limit=null"]).certification.limit is None


def test_another_method_forgets_the_options_of_the_last() -> None:
    smoke = recipes.get("smoke")
    changed = recipes.override(smoke, ["objective.num_noise=4", "objective.name=macer", "objective.lam=2"])
    assert changed.objective == {"name": "macer", "lam": 2}
    same = recipes.override(smoke, ["objective.num_noise=4", "objective.name=gaussian"])
    assert same.objective == {"name": "gaussian", "num_noise": 4}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("sigma=0", "sigma must be a positive number; given: 0.0"),
        ("sigma=.inf", "sigma must be a positive number"),
        ("sigma=.nan", "sigma must be a positive number"),
        ("sigma=big", "recipe key sigma must be a number; given: 'big'"),
        ("noise=laplas", "unknown noise 'laplas'; did you mean 'laplace'?"),
        ("noise=2", "recipe key noise must be text; given: 2"),
        ("noise=zzz", "unknown noise 'zzz'; choose from gaussian, laplace, uniform"),
        ("members=2.5", "recipe key members must be a whole number; given: 2.5"),
        ("members=true", "recipe key members must be a whole number"),
        ("members=0", "members must be at least 1"),
        ("data=3", "recipe key data must be text; given: 3"),
        ("schedule=3", "recipe key schedule must hold keys of its own"),
        ("schedule.lr=-1", r"schedule\.lr must be positive"),
        ("schedule.momentum=1", r"schedule\.momentum must lie in"),
        ("schedule.weight_decay=-1", r"schedule\.weight_decay must not be negative"),
        ("schedule.epochs=0", r"schedule\.epochs must be positive"),
        ("certification.n=5", "use n >= 10"),
        ("certification.every=0", r"certification\.every must be at least 1"),
        ("certification.limit=0", r"certification\.limit must be at least 1"),
        ("sigmaa=1", "did you mean 'sigma'"),
        ("schedule.epoch=1", r"did you mean 'schedule\.epochs'"),
        ("schedul.epochs=1", r"did you mean 'schedule\.epochs'"),
        ("sigma.x=1", "unknown recipe key"),
        ("sigma", "--set takes key=value"),
        ("sigma=[", "is not readable YAML"),
    ],
)
def test_bad_overrides(assignment: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        recipes.override(recipes.get("smoke"), [assignment])


@pytest.mark.parametrize("content", ["- a list", ": : :", "\x00", "name: x\n", "name: x\nbanana: 1\n"])
def test_files_that_are_no_recipes(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(UserError):
        recipes.get(str(path))
    with pytest.raises(UserError, match=r"missing\.yaml does not exist"):
        recipes.get(str(tmp_path / "missing.yaml"))


def test_difference_names_what_differs() -> None:
    ours = asdict(recipes.get("smoke"))
    theirs = asdict(recipes.override(recipes.get("smoke"), ["schedule.lr=1", "objective.num_noise=3"]))
    assert recipes.difference(ours, ours) == ""
    found = recipes.difference(ours, theirs)
    assert set(found.split("; ")) == {"schedule.lr: 0.1, not 1.0", "objective.num_noise: 2, not 3"}


def test_noise_of_a_recipe_has_its_sigma_as_standard_deviation() -> None:
    smoke = recipes.get("smoke")
    assert noise_of(smoke) == Gaussian(0.25)
    assert noise_of(recipes.override(smoke, ["noise=uniform"])) == Uniform(0.25 * 3**0.5)
    laplace = recipes.override(smoke, ["noise=laplace", "sigma=1"])
    assert noise_of(laplace) == Laplace(1 / 2**0.5)
    assert recipes.from_mapping(asdict(laplace)) == laplace
    assert "\nnoise: laplace\n" in laplace.to_yaml()
    assert recipes.difference(asdict(smoke), asdict(recipes.override(smoke, ["noise=laplace"]))) == (
        "noise: 'gaussian', not 'laplace'"
    )


def test_a_recipe_that_does_not_name_its_noise_is_gaussian(tmp_path: Path) -> None:
    smoke = recipes.get("smoke")
    path = tmp_path / "recipe.yaml"
    path.write_text(smoke.to_yaml().replace("noise: gaussian\n", ""))
    assert "\nnoise: " not in path.read_text().replace("num_noise: ", "")
    assert recipes.from_file(path) == smoke


def test_macer_refuses_noise_that_is_not_gaussian() -> None:
    recipe = recipes.override(recipes.get("digits-macer"), ["noise=laplace"])
    with pytest.raises(UserError, match=r"Gaussian noise; given: laplace\(0\.1"):
        build_objective(recipe.objective, noise_of(recipe))


def test_keys_of_earlier_runs_are_read() -> None:
    written = yaml.safe_load(recipes.get("smoke").to_yaml())
    del written["init_from"], written["holdout_every"]
    earlier = recipes.from_mapping(written | {"start": "runs/other", "hold_out": 5})
    assert (earlier.init_from, earlier.holdout_every) == ("runs/other", 5)
