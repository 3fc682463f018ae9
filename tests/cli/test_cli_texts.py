"""What the command line says about itself: help, recipes, data sets, the demo."""

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_tools import Shieldwall, refused
from typer import Context
from typer.main import get_group
from typer.testing import CliRunner

from shieldwall import cli, recipes
from shieldwall.recipes.methods import recipe_at

VERBS = [
    "train",
    "certify",
    "tune-weights",
    "predict",
    "report",
    "theory",
    "study",
    "data",
    "recipes",
    "demo",
]


def test_help_names_every_verb():
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    first_words = {line.strip("│ ").split(" ")[0] for line in result.output.splitlines()}
    assert first_words.issuperset(VERBS)


def test_the_version(shieldwall: Shieldwall):
    shown = shieldwall("--version")
    assert (shown.code, shown.out) == (0, f"shieldwall {metadata.version('shieldwall')}\n")


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize(
    "verb", [*([verb] for verb in VERBS), ["data", "list"], ["data", "fetch"], ["theory", "diagnose"]]
)
def test_every_verb_has_help(verb: list[str], option: str):
    result = CliRunner().invoke(cli.app, [*verb, option])
    assert result.exit_code == 0
    assert f" {' '.join(verb)} [OPTIONS]" in result.output


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command by its words, as help shows it."""
    context = Context(group, info_name="shieldwall")
    for name in group.commands:
        command = group.get_command(context, name)
        yield from (
            commands(command, (*path, name)) if hasattr(command, "commands") else [((*path, name), command)]
        )


ALL = {" ".join(path): command for path, command in commands(get_group(cli.app))}


def test_all_commands_are_looked_at() -> None:
    assert len(ALL) > 18
    assert {"certify", "study run", "theory diagnose", "data fetch"} <= ALL.keys()


@pytest.mark.parametrize("verb", ALL)
def test_help_names_no_python_types(verb: str) -> None:
    shown = CliRunner().invoke(cli.app, [*verb.split(), "--help"], env={"COLUMNS": "200"}).output
    assert "--help" in shown
    assert re.findall(r"<\w+|list\[|\bNone\b|\bstr\b|\bbool\b|\bint\b|\bfloat\b", shown) == []


@pytest.mark.parametrize("verb", ALL)
def test_help_says_what_happens_without_an_option(verb: str) -> None:
    """A flag is off unless it has a second name that turns it off."""
    shown = CliRunner().invoke(cli.app, [*verb.split(), "--help"], env={"COLUMNS": "200"}).output
    for param in ALL[verb].params:
        is_flag = getattr(param, "is_flag", False) and not param.secondary_opts
        says_so = isinstance(param.show_default, str) or re.search(r"\bdefault\b|Instead of RUN", param.help)
        has_value = param.default not in (None, "", False, 0)
        assert param.required or is_flag or says_so or has_value, (param.opts, param.help)
        value = param.name.removesuffix("_page") if param.default is True else param.default
        assert not has_value or f"[default: {value}" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_verbs(shell: str):
    """What the scripts of `--install-completion` ask the command."""
    asked = {"_SHIELDWALL_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "shieldwall ce"}
    if shell == "bash":
        asked |= {"COMP_WORDS": "shieldwall ce", "COMP_CWORD": "1"}
    else:
        asked |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    answer = CliRunner().invoke(cli.app, [], env=asked, prog_name="shieldwall")
    assert "certify" in answer.output
    assert "train" not in answer.output


def test_the_recipes_are_listed(shieldwall: Shieldwall):
    listed = shieldwall("recipes")
    assert listed.code == 0
    lines = [line.rstrip() for line in listed.out.splitlines()]
    assert lines[:3] == [
        "recipe                         sigma  also at   what it does",
        "smoke                          0.25             the whole pipeline in seconds",
        "digits-gaussian                0.25   0.5 1.0   Gaussian augmentation",
    ]
    assert "mnist-drt-smoothadv            0.5    0.25 1.0  DRT around SmoothAdv" in lines
    # One line each, in the order of the data sets, with an empty line between these.
    assert [line.split()[0] for line in lines[1:] if line] == list(recipes.FAMILIES)
    assert lines.count("") == 4


def test_recipes_are_listed_by_a_part_of_their_name(shieldwall: Shieldwall):
    listed = shieldwall("recipes", "macer").out.splitlines()
    assert [line.split()[0] for line in listed if line.strip()] == [
        *("recipe", "digits-macer", "mnist-macer", "mnist-short-macer"),
        *("fashion-mnist-macer", "cifar10-macer", "cifar10-small-macer", "imagenet-macer"),
    ]
    assert "cifar10" not in shieldwall("recipes", "imagenet").out


@pytest.mark.parametrize("columns", ["20", "80"])
@pytest.mark.parametrize("name", [*recipes.FAMILIES, "mnist-gaussian-1.0"])
def test_a_recipe_is_shown_as_yaml_that_is_the_recipe(
    name: str, columns: str, shieldwall: Shieldwall, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", columns)
    shown = shieldwall("recipes", name)
    assert shown.code == 0
    assert recipes.from_mapping(yaml.safe_load(shown.out)) == recipes.get(name)


def test_a_shown_recipe_can_be_trained_from_a_file(shieldwall: Shieldwall):
    text = shieldwall("recipes", "smoke").out
    Path("mine.yaml").write_text(text.replace("epochs: 3", "epochs: 1").replace("name: smoke", "name: mine"))
    assert shieldwall("train", "mine.yaml").code == 0
    assert Path("runs/mine/recipe.yaml").read_text() == Path("mine.yaml").read_text()


def test_a_sigma_in_the_name_is_the_recipes(shieldwall: Shieldwall):
    shown = yaml.safe_load(shieldwall("recipes", "cifar10-gaussian-1.0").out)
    assert shown["sigma"] == 1.0
    assert shown["name"] == "cifar10-gaussian-1.0"


def test_data_sets_are_listed(shieldwall: Shieldwall):
    listed = shieldwall("data", "list")
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines() if not line.startswith("  ")] == [
        *("data", "digits", "mnist", "fashion-mnist", "cifar10", "imagenet", "imagenet-64")
    ]
    assert "built in" in listed.out
    assert listed.out.count("not found") == 5


def test_the_demo_trains_certifies_and_reports(shieldwall: Shieldwall, monkeypatch: pytest.MonkeyPatch):
    asked = []

    def smoke(name: str) -> recipes.Recipe:
        asked.append(name)
        return recipes.override(recipe_at("smoke", 0.25), ["schedule.epochs=1", "certification.limit=2"])

    monkeypatch.setattr(recipes, "get", smoke)
    first = shieldwall("demo")
    assert first.code == 0
    assert asked == ["digits-gaussian"]
    assert "smoke MME" in first.out
    assert Path("runs/demo/certified-accuracy.png").is_file()
    again = shieldwall("demo")
    assert "is trained already" in again.out
    assert "all 2 inputs are certified already" in again.out


def test_a_working_folder_that_is_gone(
    shieldwall: Shieldwall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    refused(shieldwall("recipes"), "the folder that you are in is gone")
    monkeypatch.chdir(tmp_path)
