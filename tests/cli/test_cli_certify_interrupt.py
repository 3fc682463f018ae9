"""Ctrl-C while certifying: the current inputs are finished, the message says how to resume."""

import io
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from cli_tools import (
    Gate,
    Shieldwall,
    finish,
    line_count,
    process,
    timeless,
    train_gated,
    wait_until,
)
from rich.console import Console

from shieldwall.console import defer_interrupt

FINISHING = "finishing the current inputs; press Ctrl-C again to stop now\n"
STOPPED = "interrupted; run the same command to resume\n"


@pytest.fixture(autouse=True)
def trusted(bare_surroundings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of the made models."""
    monkeypatch.setenv("SHIELDWALL_TRUST_CODE", "all")


@pytest.fixture(autouse=True)
def ctrl_c_is_heard() -> Iterator[None]:
    """Whatever started the tests: a shell's background jobs ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_gated(tmp_path_factory.mktemp("gated"))


@pytest.fixture
def gated_run(gated: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(gated, tmp_path / "gated"))


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """Closes when two inputs are certified and the third is in progress."""
    return Gate(tmp_path / "gate", batches=2)


def inputs_done(run: Path) -> set[int]:
    return {line_count(path) - 1 for path in (run / "certificates").glob("*.tsv")}


def read_until(line: str, started: subprocess.Popen[str]) -> str:
    """What the process prints up to this line."""
    assert started.stdout is not None
    out = ""
    while not out.endswith(line):
        part = started.stdout.readline()
        assert part, f"ended without {line!r}: {out!r}"
        out += part
    return out


def goes_on_to_the_same_bytes(shieldwall: Shieldwall, run: Path, *options: str) -> None:
    """The same command, ended after six inputs, gives what a folder of its own gets."""
    assert shieldwall("certify", run, *options, "--limit", 6, "--to", "whole").code == 0
    assert shieldwall("certify", run, *options, "--limit", 6).code == 0
    assert timeless(run) == timeless(run, folder="whole")


def test_the_input_in_progress_is_finished_and_no_other(shieldwall: Shieldwall, gated_run: Path, gate: Gate):
    with process("-m", "shieldwall", "certify", gated_run, cwd=gated_run, **gate.variables) as started:
        wait_until(gate.is_reached, started)
        assert inputs_done(gated_run) == {2}
        started.send_signal(signal.SIGINT)
        out = read_until(FINISHING, started)
        gate.open()
        ended = finish(started)
    assert (ended.code, ended.out, ended.err) == (130, "", STOPPED)
    assert out.startswith("certifying 30 inputs, 4 votes: 3%  ")
    assert inputs_done(gated_run) == {3}
    assert "interrupted certification: 3 of 30 inputs of smoke" in shieldwall("report", gated_run).out
    goes_on_to_the_same_bytes(shieldwall, gated_run)
    assert "interrupted" not in shieldwall("report", gated_run).out  # the six inputs wanted last


def test_a_second_ctrl_c_stops_at_once(shieldwall: Shieldwall, gated_run: Path, gate: Gate):
    options = ["--radii", "0.1,0.25"]
    with process(
        "-m", "shieldwall", "certify", gated_run, *options, cwd=gated_run, **gate.variables
    ) as started:
        wait_until(gate.is_reached, started)
        done = inputs_done(gated_run)
        started.send_signal(signal.SIGINT)
        read_until(FINISHING, started)
        started.send_signal(signal.SIGINT)
        ended = finish(started)
    assert (ended.code, ended.out, ended.err) == (130, "", STOPPED)
    assert inputs_done(gated_run) == done
    goes_on_to_the_same_bytes(shieldwall, gated_run, *options)


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=80)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_first_asks_and_the_handler_comes_back(console: Console):
    before = signal.getsignal(signal.SIGINT)
    left = False
    with suppress(KeyboardInterrupt):
        with defer_interrupt(console, "the current inputs") as should_stop:
            assert not should_stop()
            os.kill(os.getpid(), signal.SIGINT)
            assert should_stop()
        left = True
    assert not left, "leaving the block should interrupt"
    assert printed(console) == FINISHING
    assert signal.getsignal(signal.SIGINT) is before


def test_where_ctrl_c_is_ignored_it_still_is(console: Console):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with defer_interrupt(console, "work") as should_stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert not should_stop()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert printed(console) == ""


def test_a_thread_leaves_ctrl_c_to_the_main_one(console: Console):
    def work() -> bool:
        with defer_interrupt(console, "work") as should_stop:
            return should_stop()

    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() is False
    assert signal.getsignal(signal.SIGINT) is before
