"""What works with the core dependencies alone, and what is said where an extra is missing."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cli_tools import Outcome, Shieldwall, environment, refused, snapshot

from shieldwall.errors import EXTRAS

ROOT = Path(__file__).parents[2]


def without(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("report", ["report", "RUN", "--plot", "curves.png"]),
        ("report", ["report", "RUN", "--html", "page.html"]),
        ("report", ["theory", "diagnose", "RUN"]),
        ("serve", ["serve", "RUN"]),
        ("tensorboard", ["train", "smoke", "--out", "other", "--tensorboard"]),
    ],
)
def test_a_missing_extra_is_named_before_anything_is_done(
    extra: str, arguments: list[str], shieldwall: Shieldwall, run: Path, monkeypatch: pytest.MonkeyPatch
):
    before = snapshot(run)
    without(EXTRAS[extra][0], monkeypatch)
    outcome = shieldwall(*(run if argument == "RUN" else argument for argument in arguments))
    refused(outcome, f"needs {EXTRAS[extra][0]}; run: pip install 'shieldwall[{extra}]'")
    assert outcome.out == ""
    assert snapshot(run) == before
    assert list(Path().iterdir()) == []


def core_only(*arguments: str | Path) -> Outcome:
    """The command line in a Python that has the core dependencies alone."""
    hidden = sorted({module for modules in EXTRAS.values() for module in modules} | {"sklearn", "pandas"})
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden})); sys.argv[0] = 'shieldwall'\n"
        "from shieldwall.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, env=environment()
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_the_core_trains_certifies_reports_and_predicts():
    for arguments in (
        ["train", "smoke"],
        ["certify", "runs/smoke"],
        ["report", "runs/smoke"],
        ["report", "runs/smoke", "--table", "table.md"],
        ["predict", "runs/smoke", "--index", "0", "--n", "10"],
    ):
        outcome = core_only(*arguments)
        assert (outcome.code, outcome.err) == (0, "")
    assert Path("table.md").is_file()
    assert list(Path().rglob("*.png")) == []


def test_each_extra_of_the_table_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]
    for extra, modules in EXTRAS.items():
        names = [re.split(r"\[|>=", each)[0].replace("-", "_") for each in declared[extra]]
        assert sorted(names) == sorted(modules)
    assert declared["all"] == [f"shieldwall[{','.join(EXTRAS)}]"]
    assert not {name for names in EXTRAS.values() for name in names} & {
        requirement.partition(">=")[0] for requirement in project["dependencies"]
    }
