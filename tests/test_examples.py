"""Every program in examples/ runs by itself, and prints numbers that make sense."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"


def printed(name: str, folder: Path, *arguments: str) -> list[str]:
    """The lines of a program, run in an empty folder by a Python that takes warnings for errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_every_example_is_run() -> None:
    tested = set(re.findall(r'printed\("(\w+\.py)"', Path(__file__).read_text()))
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_certify_your_model(tmp_path: Path) -> None:
    *certified, abstained = [
        float(line.rpartition(" ")[2].rstrip("%")) for line in printed("certify_your_model.py", tmp_path)
    ]
    assert len(certified) == 3
    assert certified == sorted(certified, reverse=True)
    assert certified[0] > 80
    assert certified[2] > 30
    assert abstained < 15


def test_train_your_data(tmp_path: Path) -> None:
    first, *votes = printed("train_your_data.py", tmp_path)
    begun, ended = map(float, re.findall(r"\d+\.\d+", first))
    assert ended < begun / 2
    assert [line.split()[0] for line in votes] == ["member-1", "member-2", "member-3", "we", "mme", "eas"]
    for line in votes:
        found = re.search(r"right (\d+)%, mean radius ([\d.]+)", line)
        assert found
        assert int(found[1]) > 95
        assert float(found[2]) > 0.4


def test_add_a_method(tmp_path: Path) -> None:
    lines = printed("add_a_method.py", tmp_path)
    assert [re.split(r" {2,}", line)[0] for line in lines] == ["cross-entropy", "Brier", "DRT around Brier"]
    for line in lines:
        right, radius = re.findall(r"[\d.]+(?=%|$)", line)
        assert float(right) > 90
        assert float(radius) > 0.4


def test_before_and_after_smoothing(tmp_path: Path) -> None:
    *votes, jointly = printed("before_and_after_smoothing.py", tmp_path)
    radius = {line.split()[0]: float(line.split()[-1]) for line in votes}
    assert list(radius) == ["member-1", "member-2", "member-3", "we", "mme", "eas"]
    assert radius["eas"] <= max(radius[f"member-{k}"] for k in (1, 2, 3))
    assert 0.4 < float(jointly.split()[-1]) < radius["we"]


def test_paper_figures(tmp_path: Path) -> None:
    *transfers, first, second = printed("paper_figures.py", tmp_path, "300")
    for members, line in zip((3, 10, 20), transfers, strict=True):
        assert line.split()[:2] == [str(members), "members:"]
        mme, we = (float(share) for share in re.findall(r"([\d.]+)%", line))
        assert 0 < mme < we < 50, "most instances have equal radii"
    assert first == "scores in [0.2, 0.3]: MME has the larger radius from 39 members on"
    assert second == "scores in [0.3, 0.4]: MME has the larger radius from 25 members on"
    figures = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(figures) == {"transferability.png", "relation-ensemble-robustness-params.png"}
    assert all(content.startswith(b"\x89PNG") for content in figures.values())


def test_photographs(tmp_path: Path) -> None:
    options = ["--model", "digits-gaussian-0.25", "--n", "1000", "--out", "digits.png"]
    *answers, _ = printed("photographs.py", tmp_path, *options)
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert len(answers) == 10
    assert sum(" right " in line for line in answers) > 7
    for line in answers:
        _, name, *_ = line.split()
        assert line.rpartition(" ")[2] in (name, "abstains")
