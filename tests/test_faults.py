"""The scripts that kill, fill disks and give bad inputs, on a small scale (the counts: docs/security.md)."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import bad_inputs  # noqa: E402
import faults  # noqa: E402

slow = pytest.mark.slow


def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


@slow
@pytest.mark.parametrize("job", ["certification", "study"])
def test_killed_runs_end_with_the_bytes_of_undisturbed_ones(job: str) -> None:
    done = run("faults.py", "--kills", "3", "--only", job)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"kills: 3 kills, .* rounds; faults: 0", done.stdout)


@slow
@pytest.mark.parametrize(
    ("kind", "count"), [("command lines", 40), ("files", 40), ("surroundings", 100), ("python calls", 1_200)]
)
def test_bad_inputs_are_refused_or_answered(kind: str, count: int) -> None:
    done = run("bad_inputs.py", "--only", kind, "--count", str(count), "--seed", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^{kind}: \d+ tried: ", done.stdout, re.MULTILINE)


def test_a_difference_is_a_fault(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    line = "0\t1\t1\t0.5\t1\t{}\t0.9\n"
    (folder / "we.tsv").write_text(line.format("0:00:01"))
    expected = faults.contents(folder)
    (folder / "we.tsv").write_text(line.format("0:00:09"))
    assert faults.faults_of(folder, expected) == []
    (folder / "we.tsv").write_text(line.format("0:00:09").replace("0.5", "0.6"))
    assert faults.faults_of(folder, expected) == ["we.tsv:"]
    (folder / "we.tsv").unlink()
    assert faults.faults_of(folder, expected) == ["we.tsv:"]
    (folder / "we.tsv").write_text(line.format("0:00:01"))
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  we.tsv\n")
    assert faults.faults_of(folder, expected) == [f"{folder / 'we.tsv'} against SHA256SUMS"]


def test_what_counts_as_a_fault() -> None:
    assert bad_inputs.judged(2, "", "error: no\n").verdict == "refused"
    assert bad_inputs.judged(2, "", "error: a\nerror: b\n").verdict == "traceback"
    assert bad_inputs.judged(0, "", "Traceback (most recent call last):\n").verdict == "traceback"
    assert bad_inputs.judged(-11, "", "").verdict == "traceback"
    assert bad_inputs.called(lambda: 1 / 0, must_refuse=False).verdict == "traceback"
    assert bad_inputs.called(lambda: 1, must_refuse=True).verdict == "wrong"
    assert bad_inputs.same_or_refused(bad_inputs.Outcome("answered", "a"), "b").verdict == "wrong"


@pytest.mark.parametrize("make", [bad_inputs.command_lines, bad_inputs.files, bad_inputs.surroundings])
def test_the_inputs_come_from_a_seed(make) -> None:  # type: ignore[no-untyped-def]
    names = [[case.name for case in make(random.Random(seed), 30)] for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]
    assert len(set(names[0])) > 15
