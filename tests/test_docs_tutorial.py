"""docs/tutorial.md, typed along: every command runs, in order, and shows what the page shows.

What is shown are lines of the output, in their order; words must be the same, numbers alike (see `alike`).
What ` ...` stands for is left out.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")


class Typed(NamedTuple):
    command: str
    shown: list[str]


def session() -> list[Typed]:
    """The commands of all console blocks, each with the lines shown below it."""
    typed: list[Typed] = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                typed.append(Typed(line.removeprefix("$ "), []))
            else:
                typed[-1].shown.append(line)
    return typed


def words(line: str) -> list[str]:
    return [word.rstrip(",") for word in NUMBER.sub("#", line).split()]


def alike(shown: str, found: str) -> bool:
    """Percentages within 7, ACRs within 0.02, votes above 100 within 60; all else as it is shown."""
    if shown == found:
        return True
    a, b = (float(number.replace(",", "")) for number in (shown, found))
    decimals = len(shown.partition(".")[2])
    tolerance = {0: 60.0 if 100 < a <= 1000 else 0.0, 1: 7.0, 3: 0.02}.get(decimals, 0.0)
    return abs(a - b) <= tolerance


def is_shown_as(shown: str, found: str) -> bool:
    is_cut, shown = shown.endswith(" ..."), shown.removesuffix(" ...")
    numbers, theirs = NUMBER.findall(shown), NUMBER.findall(found)
    if is_cut:
        found = " ".join(found.split()[: len(shown.split())])
        theirs = theirs[: len(numbers)]
    return words(shown) == words(found) and all(map(alike, numbers, theirs))


def assert_shown(typed: Typed, output: str) -> None:
    left = iter(output.splitlines())
    for line in typed.shown:
        assert any(is_shown_as(line, found) for found in left), f"not shown: {line}\nin:\n{output}"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each command printed, typed one after the other in an empty folder."""
    folder = tmp_path_factory.mktemp("tutorial")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    environment.pop("FORCE_COLOR", None)
    printed = []
    for typed in session():
        shell = ["bash", "-c", typed.command]
        done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{typed.command}: {done.stderr}"
        assert done.stderr == "", typed.command
        printed.append(done.stdout)
    assert (folder / "plain.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (folder / "plain.html").read_text()
    assert r"\begin{tabular}" in (folder / "plain.tex").read_text()
    return printed


def test_every_command_shows_what_the_page_shows(outputs: list[str]) -> None:
    typed = session()
    verbs = [one.command.split()[1] for one in typed]
    assert set(verbs) == {"train", "recipes", "certify", "report", "predict", "attack", "theory"}
    assert sum(len(one.shown) for one in typed) > 20
    for one, output in zip(typed, outputs, strict=True):
        assert_shown(one, output)


@pytest.mark.parametrize(
    ("shown", "found", "is_alike"),
    [
        ("digits WE  91.7  0.560  60", "digits WE   95.0 0.575    60", True),
        ("digits WE  91.7  0.560  60", "digits WE   99.0 0.560    60", False),
        ("digits WE  91.7  0.560  60", "digits WE   91.7 0.590    60", False),
        ("digits WE  91.7", "digits MME  91.7", False),
        ("n = 10,000, alpha = 0.001", "n = 10,000, alpha = 0.001", True),
        ("n = 10,000, alpha", "n = 1,000, alpha", False),
        ("input 1  9: 953 ...", "input 1  9: 960, 3: 30", True),
        ("input 2  0: 998 ...", "input 2  0: 1000", True),
        ("input 1  9: 953 ...", "input 1  8: 960", False),
    ],
)
def test_lines_are_compared_as_said(shown: str, found: str, is_alike: bool) -> None:
    assert is_shown_as(shown, found) == is_alike
