"""docs/papers.md: its command writes what the page shows, twice the same, and its lists are complete."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from shieldwall import cli
from shieldwall.report.formats import COLUMNS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "papers.md").read_text()
FILES = ("digits.tex", "digits.md", "digits.csv", "digits.pdf")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """What the command of the page writes, called twice."""
    block = re.search(r"^```sh\nshieldwall (.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert block
    found = []
    for _ in range(2):
        folder = tmp_path_factory.mktemp("papers")
        (folder / "results").symlink_to(ROOT / "results")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            done = CliRunner().invoke(cli.app, shlex.split(block[1].replace("\\\n", " ")))
        assert done.exit_code == 0, done.output
        found.append({name: (folder / name).read_bytes() for name in FILES})
    return found


def test_the_table_is_the_one_that_is_written(written: list[dict[str, bytes]]) -> None:
    shown = re.search(r"<!-- digits\.md:begin -->\n(.*?)<!-- digits\.md:end -->", TEXT, re.DOTALL)
    assert shown
    assert shown[1] == written[0]["digits.md"].decode()


def test_the_files_are_the_same_bytes_again(written: list[dict[str, bytes]]) -> None:
    assert written[0] == written[1]


def test_the_label_is_the_one_that_the_page_refers_to(written: list[dict[str, bytes]]) -> None:
    (label,) = re.findall(r"\\ref\{([^}]+)\}", TEXT)
    assert rf"\label{{{label}}}" in written[0]["digits.tex"].decode()


def test_every_column_is_explained_in_its_order(written: list[dict[str, bytes]]) -> None:
    section = TEXT.partition("## The columns of a CSV file")[2]
    explained = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)))
    assert explained == list(COLUMNS)
    assert written[0]["digits.csv"].decode().splitlines()[0].split(",") == explained


def test_every_option_that_makes_a_table_or_figure_is_explained() -> None:
    explained = set(re.findall(r"^\| `(--[\w-]+)", TEXT, re.MULTILINE))
    options = {
        name for one in get_group(cli.app).commands["report"].params for name in one.opts if name[:2] == "--"
    }
    assert explained == options - {"--help", "--data-dir"}
