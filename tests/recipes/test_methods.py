"""Every method on every data set, with the numbers that the paper and the literature print."""

from dataclasses import replace
from typing import Any

import pytest

from shieldwall import recipes
from shieldwall.noise.distributions import Gaussian
from shieldwall.recipes.methods import METHODS
from shieldwall.training.registry import build_objective
from shieldwall.vocabulary import SIGMAS

ALL = [recipes.get(f"{family}-{sigma}") for family in recipes.FAMILIES for sigma in recipes.FAMILIES[family]]


def test_every_method_is_there_for_every_data_set() -> None:
    for data in ("digits", "mnist", "fashion-mnist", "cifar10", "cifar10-small"):
        assert {f"{data}-{method}" for method in METHODS} <= recipes.FAMILIES.keys()
    assert {name for name in recipes.FAMILIES if name.startswith("imagenet-")} == {
        *("imagenet-gaussian", "imagenet-smoothadv", "imagenet-macer"),
        *("imagenet-drt", "imagenet-drt-smoothadv"),
    }
    for name, family in recipes.FAMILIES.items():
        assert name == "smoke" or sorted(family) == list(SIGMAS)


def test_names_are_unique_and_say_what_the_recipe_holds() -> None:
    assert len({recipe.name for recipe in ALL}) == len(ALL)
    # A sigma of another recipe's name could otherwise be read as a method.
    assert not {recipe.name for recipe in ALL} & recipes.FAMILIES.keys()
    for recipe in ALL:
        if recipe.name != "smoke-0.25":
            assert recipe.name.startswith(f"{recipe.data}-")
            assert recipe.name.endswith(f"-{recipe.sigma}")
            method = recipe.name.removeprefix(f"{recipe.data}-").removeprefix("short-").removeprefix("small-")
            assert recipe.objective["name"] == method.split("-")[0]


@pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: recipe.name)
def test_every_recipe_builds_an_objective_for_its_members(recipe: recipes.Recipe) -> None:
    build_objective(recipe.objective, Gaussian(recipe.sigma)).check_members(recipe.members)


def options(name: str) -> dict[str, Any]:
    """The objective of a recipe, what DRT wraps laid open."""
    found = dict(recipes.get(name).objective)
    base = found.pop("base", {})
    return found | {f"base.{key}": value for key, value in base.items()}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mnist-gaussian-1.0", {"name": "gaussian", "num_noise": 2}),
        ("imagenet-gaussian-0.25", {"name": "gaussian", "num_noise": 1}),
        ("cifar10-smoothadv-0.5", {"num_noise": 2, "epsilon": 1.0, "steps": 10, "warmup": 10}),
        ("mnist-macer-0.25", {"num_noise": 16, "lam": 16.0, "gamma": 8.0, "beta": 16.0, "defer": 30}),
        ("mnist-macer-1.0", {"lam": 6.0, "defer": 30}),
        ("cifar10-macer-0.25", {"lam": 12.0}),
        ("cifar10-macer-0.5", {"lam": 6.0}),
        ("cifar10-macer-1.0", {"lam": 12.0}),
        ("mnist-stability-0.5", {"lam": 2.0, "divergence": "cross_entropy", "num_noise": 1}),
        ("mnist-consistency-0.25", {"lam": 10.0, "eta": 0.5, "num_noise": 2}),
        ("fashion-mnist-consistency-0.5", {"lam": 5.0, "eta": 0.5}),
        ("cifar10-consistency-0.25", {"lam": 20.0}),
        ("cifar10-consistency-1.0", {"lam": 10.0}),
        ("mnist-adp-1.0", {"alpha": 2.0, "beta": 0.5}),
        ("cifar10-gal-0.5", {"weight": 1.0}),
        # WE (Gaussian) at r = 0.75: 95.3; at r = 1.25: 86.7; at r = 2.50: 28.8.
        (
            "mnist-drt-0.25",
            {"rho_gd": 0.2, "rho_cm": 0.5, "base.name": "gaussian", "base.num_noise": 2},
        ),
        ("mnist-drt-0.5", {"rho_gd": 10.0, "rho_cm": 0.1}),
        ("mnist-drt-1.0", {"rho_gd": 5.0, "rho_cm": 0.5}),
        # WE (Gaussian) at r = 0.75: 44.0; at r = 1.75: 20.8; at r = 2.00: 16.4.
        ("cifar10-drt-0.25", {"rho_gd": 0.2, "rho_cm": 0.5}),
        ("cifar10-drt-0.5", {"rho_gd": 5.0, "rho_cm": 5.0}),
        ("cifar10-drt-1.0", {"rho_gd": 5.0, "rho_cm": 2.5}),
        # WE (SmoothAdv) at r = 1.75: 69.3; at r = 2.00: 20.3.
        ("mnist-drt-smoothadv-0.5", {"rho_gd": 0.3, "rho_cm": 5.0, "base.steps": 10, "base.warmup": 0}),
        ("cifar10-drt-smoothadv-1.0", {"rho_gd": 1.0, "rho_cm": 5.0, "base.name": "smoothadv"}),
        ("cifar10-drt-consistency-0.25", {"base.name": "consistency", "base.lam": 20.0}),
        ("mnist-drt-gd-1.0", {"rho_gd": 5.0, "rho_cm": 0.0}),
        ("mnist-drt-cm-1.0", {"rho_gd": 0.0, "rho_cm": 5.0}),
        ("mnist-stability-renyi-1.0", {"name": "stability", "divergence": "renyi", "lam": 2.0}),
        ("mnist-short-drt-1.0", {"rho_gd": 5.0, "rho_cm": 0.5}),
        ("cifar10-small-drt-0.25", {"rho_gd": 0.2, "rho_cm": 0.5, "base.num_noise": 1}),
        ("cifar10-small-consistency-0.5", {"lam": 10.0, "num_noise": 2}),
    ],
)
def test_numbers_of_the_literature(name: str, expected: dict[str, Any]) -> None:
    assert {key: options(name).get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "epochs", "batch_size", "lr", "decay_every"),
    [
        ("mnist-gaussian", 90, 256, 0.01, 30),
        ("fashion-mnist-macer", 440, 64, 0.01, 200),
        ("mnist-drt-smoothadv", 90, 128, 0.002, 30),
        ("mnist-drt-1.0", 90, 128, 0.002, 30),
        ("cifar10-smoothadv", 150, 256, 0.1, 50),
        ("cifar10-macer", 440, 64, 0.01, 200),
        ("cifar10-drt-cm", 150, 128, 0.01, 50),
        ("imagenet-gaussian", 90, 256, 0.1, 30),
        ("imagenet-drt", 90, 256, 0.005, 30),
        ("cifar10-small-gaussian", 30, 128, 0.1, 30),
        ("cifar10-small-drt-consistency", 10, 128, 0.005, 30),
    ],
)
def test_schedules(name: str, epochs: int, batch_size: int, lr: float, decay_every: int) -> None:
    found = recipes.get(name).schedule
    assert (found.epochs, found.batch_size, found.lr, found.decay_every) == (
        *(epochs, batch_size, lr, decay_every),
    )
    assert (found.momentum, found.decay) == (0.9, 0.1)


def test_short_recipes_differ_from_the_paper_s_in_their_schedule_alone() -> None:
    for method in METHODS:
        short, paper = recipes.get(f"mnist-short-{method}"), recipes.get(f"mnist-{method}")
        assert short == replace(paper, name=short.name, schedule=short.schedule)
        assert (short.schedule.curve, short.schedule.warmup) == ("cosine", 200)
        assert short.schedule.epochs < paper.schedule.epochs


def test_small_recipes_are_another_network_on_one_noisy_copy() -> None:
    for method in METHODS:
        small, paper = recipes.get(f"cifar10-small-{method}"), recipes.get(f"cifar10-{method}")
        assert (small.model, paper.model) == ("resnet20", "resnet110")
        assert (small.schedule.curve, small.schedule.warmup) == ("cosine", 200)
        assert (small.certification.n, small.certification.every) == (10_000, 20)
        one_copy = {key: 1 for key, value in small.objective.items() if key == "num_noise" and value == 2}
        assert not one_copy or method == "consistency"


def test_drt_of_the_larger_networks_is_kept_from_killing_members() -> None:
    for name in recipes.FAMILIES:
        schedule = recipes.get(name).schedule
        if "-drt" in name and not name.startswith(("digits-", "mnist-", "fashion-mnist-")):
            assert (schedule.clip, schedule.warmup) == (10.0, 200), name


@pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: recipe.name)
def test_members_are_independent_where_the_method_allows_it(recipe: recipes.Recipe) -> None:
    objective = build_objective(recipe.objective, Gaussian(recipe.sigma))
    assert recipe.independent == objective.is_separable


def test_a_changed_method_changes_how_members_are_trained() -> None:
    gaussian = recipes.get("mnist-gaussian")
    gal = recipes.override(gaussian, ["objective.name=gal"])
    assert (gaussian.independent, gal.independent) == (True, False)
    assert recipes.override(gal, ["objective.name=macer"]).independent
    assert not recipes.override(gaussian, ["objective.name=macer", "independent=false"]).independent


def test_fashion_mnist_is_mnist_but_for_the_data() -> None:
    for method in METHODS:
        ours, theirs = recipes.get(f"fashion-mnist-{method}"), recipes.get(f"mnist-{method}")
        assert ours == replace(theirs, name=ours.name, data="fashion-mnist")
