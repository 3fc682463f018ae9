"""One process at a time works on a run folder."""

from pathlib import Path

import pytest
from cli_tools import Shieldwall, finish, process, refused, snapshot, timeless

from shieldwall.errors import UserError
from shieldwall.results.run import Run

HOLD = """
import sys
from shieldwall.results.run import Run
with Run(sys.argv[1]).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("command", [["certify"], ["train", "smoke", "--out"]])
def test_a_second_process_is_refused_until_the_first_lets_go(
    command: list[str], shieldwall: Shieldwall, run: Path
):
    before = snapshot(run)
    with Run(run).lock():
        refused(shieldwall(*command, run), f"another process is working on {run}")
        assert snapshot(run) == before
    assert shieldwall(*command, run).code == 0


def test_a_folder_that_is_being_certified_is_not_touched(shieldwall: Shieldwall, trained: Path):
    with Run(trained).lock():
        refused(shieldwall("certify", trained, "--limit", 2), "another process is working on")
        assert not (trained / "certificates").exists()


def test_the_lock_is_let_go_after_an_error(run: Path):
    with pytest.raises(RuntimeError), Run(run).lock():
        raise RuntimeError
    with Run(run).lock():
        pass


def test_the_lock_is_not_taken_twice_by_one_process(run: Path):
    with Run(run).lock(), pytest.raises(UserError, match="another process"), Run(run).lock():
        pass


def test_reading_needs_no_lock(shieldwall: Shieldwall, run: Path):
    with Run(run).lock():
        assert shieldwall("report", run).code == 0
        assert shieldwall("predict", run, "--index", 0, "--n", 10).code == 0


def test_a_killed_process_leaves_no_lock(shieldwall: Shieldwall, trained: Path, finished: Path):
    with process("-c", HOLD, trained) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        refused(shieldwall("certify", trained, "--limit", 1), "another process is working on")
        holder.kill()
        assert finish(holder).code == -9
    assert shieldwall("certify", trained, "--limit", 1).code == 0
    assert timeless(trained) == timeless(finished, 1)
