"""What the README says of the repository: its tree, its tables, its first commands."""

import re
import shlex
from pathlib import Path

from shieldwall import recipes

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def section(title: str, text: str = TEXT) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def folders(inside: Path) -> set[str]:
    return {path.name for path in inside.iterdir() if path.is_dir() and path.name[0] not in "._"}


def test_the_tree_names_every_package_and_no_other() -> None:
    packages = re.findall(r"^      (\w+)/ ", section("Layout", CONTRIBUTING), re.MULTILINE)
    assert len(packages) == len(set(packages))
    assert set(packages) == folders(ROOT / "src" / "shieldwall")


def test_the_tree_names_folders_that_exist() -> None:
    named = re.findall(r"^    ([\w/]+)/(?: |$)", section("Layout", CONTRIBUTING), re.MULTILINE)
    assert {"src/shieldwall", "docs", "tests"} <= set(named)
    assert [folder for folder in named if not (ROOT / folder).is_dir()] == []


def test_the_tests_have_the_folders_that_it_says() -> None:
    assert "a folder for each package of src but pretrained" in CONTRIBUTING
    without = folders(ROOT / "src" / "shieldwall") - folders(ROOT / "tests")
    assert without == {"pretrained"}


def test_no_cell_of_what_was_measured_is_empty() -> None:
    rows = re.findall(r"^\| \w.*\|$", section("Results in brief"), re.MULTILINE)
    assert len(rows) == 10
    assert [row for row in rows if re.search(r"\|\s*\|", row)] == []


def test_every_record_of_a_benchmark_is_linked() -> None:
    records = {str(path.relative_to(ROOT)) for path in (ROOT / "benchmarks" / "results").glob("*.md")}
    assert len(records) > 3
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert records - set(re.findall(r"\]\(\.\./([^)]+)\)", page)) == set()


def test_the_results_in_brief_are_those_of_the_results_page() -> None:
    results = (ROOT / "docs" / "results.md").read_text()
    ours = "members it starts from have 96.7, 81.1, 35.2 and 12.4"
    drt = "WE keeps 91.2, 73.0, 43.2 and 28.7 %"
    theirs = "The paper has 91.3, 73.4, 43.9 and 28.8, from 96.3, 80.7, 35.2 and 12.9"
    for said in (ours, drt, theirs):
        assert said in results
        for numbers in re.findall(r"(\d+\.\d), (\d+\.\d), (\d+\.\d) and (\d+\.\d)", said):
            assert " | ".join(numbers) in section("Results in brief")


def test_the_first_commands_follow_each_other_with_nothing_to_fetch() -> None:
    block = re.search(r"(?:^    shieldwall .*\n)+", TEXT, re.MULTILINE)
    assert block
    (_, verb, named), *others = [shlex.split(line, comments=True) for line in block[0].splitlines()]
    assert (verb, recipes.get(named).data) == ("train", "digits")
    assert [(words[1], words[2]) for words in others] == [
        (verb, f"runs/{named}") for verb in ("certify", "report", "serve")
    ]


def test_both_works_to_cite_have_an_entry() -> None:
    assert re.findall(r"^@(\w+)\{", section("Citation"), re.MULTILINE) == ["inproceedings", "software"]
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert f"version = {{{version[1]}}}" in section("Citation")
