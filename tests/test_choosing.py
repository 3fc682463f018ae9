"""docs/choosing.md is what benchmarks/choosing.py makes of the runs in results/."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_is_that_of_the_runs() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "choosing.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
