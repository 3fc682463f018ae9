"""Files beside the package that repeat what pyproject.toml says, or name scripts: they must agree."""

import os
import re
import tomllib
from itertools import chain
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_is_of_this_version_and_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert " AND ".join(citation["license"]) == PROJECT["license"]


def test_the_workflow_runs_scripts_that_are_there() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    scripts = [step["run"].split()[0] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert scripts == [".ci/run", ".ci/versions", ".ci/release", ".ci/audit"]
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)


def test_the_hooks_are_the_tools_of_make_check() -> None:
    (hooks,) = (
        repository["hooks"]
        for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    )
    checks = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert checks
    for hook in hooks:
        words = hook["entry"].replace(".venv/bin", "$(BIN)").split()
        assert " ".join(word for word in words if word != "--force-exclude") in checks[1]


def test_the_documentation_is_built_from_extras_that_exist() -> None:
    steps = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())["build"]["jobs"]["install"]
    (named,) = re.findall(r'"\.\[([\w,]+)\]"', "\n".join(steps))
    assert set(named.split(",")) <= set(PROJECT["optional-dependencies"])
    assert all("--constraint constraints.txt" in step for step in steps)


def test_the_lock_has_a_digest_of_every_pinned_package() -> None:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line[:1] != "#"]
    locked = dict(
        re.fullmatch(r"([\w.-]+)==([\w.+]+) --hash=sha256:[0-9a-f]{64}", line).groups() for line in lines
    )
    versions = {name.lower().replace("_", "-"): version.partition("+")[0] for name, version in locked.items()}
    extras = PROJECT["optional-dependencies"]
    for declared in (*PROJECT["dependencies"], *extras["report"], *extras["serve"]):
        assert declared.partition(">")[0] in versions
    pinned = dict(
        line.lower().replace("_", "-").split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    other = {name for name, version in versions.items() if pinned.get(name) != version}
    assert other <= {"setuptools"}  # of torch, which takes any


def test_every_pinned_floor_is_met_by_the_pinned_version() -> None:
    pinned = dict(
        line.lower().replace("_", "-").split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    declared = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]
    floors = dict(re.findall(r"^([\w.-]+)>=([\d.]+)$", "\n".join(declared), re.MULTILINE))
    assert len(floors) > 20

    def numbers(version: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", version)]

    below = {
        name for name, floor in floors.items() if numbers(pinned.get(name.lower(), "0")) < numbers(floor)
    }
    assert below <= {"packaging", "statsmodels"}  # of the benchmarks, which are not set up with the rest
