"""docs/equations.md: every label of the paper, and nothing that does not exist."""

import re
from pathlib import Path

import pytest

from shieldwall import recipes

HERE = Path(__file__).parent
TEXT = (HERE.parent / "docs" / "equations.md").read_text()
MENTIONED = set(re.findall(r"[\w:.-]+", TEXT))


@pytest.mark.parametrize("label", (HERE / "paper-labels.txt").read_text().split())
def test_every_label_of_the_paper_is_there(label: str) -> None:
    assert label in MENTIONED


def test_every_statement_names_a_test_that_exists() -> None:
    table = TEXT.partition("\n## ")[0]
    statements = re.findall(r"^\| ([^|]+)<br>[^|]+<br>`(\S+)` \| .+ \|$", table, re.MULTILINE)
    assert len(statements) == table.count("\n| ") - 2 > 50
    for label, test in statements:
        assert (HERE / test).is_file(), label


def test_every_recipe_it_names_exists() -> None:
    named = set(re.findall(r"`((?:mnist|cifar10|imagenet)-[a-z-]+)`", TEXT))
    assert len(named) > 8
    assert named <= set(recipes.FAMILIES)
