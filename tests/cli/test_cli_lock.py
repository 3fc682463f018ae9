"""One process at a time works on a run folder, and a killed one is in nobody's way."""

import signal
from pathlib import Path

import pytest
from cli_tools import Shieldwall, finish, line_count, process, refused, snapshot, timeless, wait_until

from shieldwall.errors import UserError
from shieldwall.runs.folder import RunFolder


@pytest.mark.parametrize("command", [["certify"], ["train", "smoke", "--out"]])
def test_a_second_process_is_refused_until_the_first_lets_go(
    command: list[str], shieldwall: Shieldwall, run: Path
):
    before = snapshot(run)
    with RunFolder(run).lock():
        refused(shieldwall(*command, run), f"another process is working on {run}")
        assert snapshot(run) == before
    assert shieldwall(*command, run).code == 0


def test_a_folder_that_is_being_certified_is_not_touched(shieldwall: Shieldwall, trained: Path):
    with RunFolder(trained).lock():
        refused(shieldwall("certify", trained, "--limit", 2), "another process is working on")
        assert not (trained / "certificates").exists()


def test_the_lock_is_let_go_after_an_error(run: Path):
    with pytest.raises(RuntimeError), RunFolder(run).lock():
        raise RuntimeError
    with RunFolder(run).lock():
        pass


def test_the_lock_is_not_taken_twice_by_one_process(run: Path):
    with RunFolder(run).lock(), pytest.raises(UserError, match="another process"), RunFolder(run).lock():
        pass


def test_reading_needs_no_lock(shieldwall: Shieldwall, run: Path):
    with RunFolder(run).lock():
        assert shieldwall("report", run).code == 0
        assert shieldwall("predict", run, "--index", 0, "--n", 10).code == 0


def test_a_killed_certification_lets_go_and_is_completed_to_the_same_bytes(
    shieldwall: Shieldwall, trained: Path, finished: Path
):
    file = trained / "certificates/mme.tsv"
    with process("-m", "shieldwall", "certify", trained) as first:
        wait_until(lambda: line_count(file) > 2, first)
        first.send_signal(signal.SIGSTOP)
        refused(shieldwall("certify", trained), f"another process is working on {trained}")
        first.kill()
        assert finish(first).code == -signal.SIGKILL
    assert 3 <= line_count(file) < 31
    assert shieldwall("certify", trained).code == 0
    assert timeless(trained) == timeless(finished)
