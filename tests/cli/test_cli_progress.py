"""Progress where there is no terminal, and Ctrl-C."""

import io
import re
import signal
from pathlib import Path

import pytest
from cli_tools import VOTES, Shieldwall, finish, line_count, process, rows, timeless, wait_until
from rich.console import Console

from shieldwall import console as consoles

LINE = re.compile(r"[^:]+: \d+%(, \d+ s left|, done in \d+\.\d s)?(  .+)?")


def test_lines_carry_per_cent_and_seconds_and_no_escape_codes(shieldwall: Shieldwall, tmp_path: Path):
    folder = tmp_path / "run"
    trained = shieldwall("train", "smoke", "--out", folder, "--set", "schedule.epochs=2").out
    certified = shieldwall("certify", folder, "--limit", 3).out
    for out, lines in ((trained, trained.splitlines()[:-2]), (certified, certified.splitlines()[:-1])):
        assert "\x1b" not in out
        assert "\r" not in out
        assert len(lines) >= 2
        assert all(LINE.fullmatch(line) for line in lines), lines
        assert "100%, done in" in lines[-1]
    assert "epoch 2, loss " in trained.splitlines()[-3]
    assert certified.startswith("certifying 3 inputs, 4 votes: 33%  ")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock to set by hand."""
    now = [100.0]
    monkeypatch.setattr(consoles.time, "monotonic", lambda: now[0])
    return now


def test_a_line_every_ten_seconds_with_the_time_left(clock: list[float]):
    out = io.StringIO()
    with consoles.progress_bar(Console(file=out, width=30), "work", total=100, done=20) as show:
        for step in range(1, 81):
            clock[0] = 100.0 + step / 2
            show(20 + step, "note" if step > 40 else "")
    assert out.getvalue().splitlines() == [
        "work: 21%",
        "work: 41%, 30 s left",
        "work: 61%, 20 s left  note",
        "work: 81%, 10 s left  note",
        "work: 100%, done in 40.0 s  note",
    ]


@pytest.mark.parametrize("done", [0, 60])
def test_getting_ready_is_no_part_of_the_pace(clock: list[float], done: int):
    out = io.StringIO()
    with consoles.progress_bar(Console(file=out, width=30), "work", total=100, done=done) as show:
        for now, seconds in ((done + 1, 7), (done + 1, 17), (done + 21, 27)):
            clock[0] = 100.0 + seconds
            show(now, "")
    left = 79 - done
    assert out.getvalue().splitlines() == [
        f"work: {done + 1}%",
        f"work: {done + 1}%",
        f"work: {done + 21}%, {left} s left",
    ]


def test_a_terminal_gets_a_bar():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with consoles.progress_bar(console, "work", total=4, done=1) as show:
        show(4, "the note")
    assert "\x1b" in out.getvalue()
    assert "100%" in out.getvalue()
    assert "the note" in out.getvalue()


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_says_how_to_go_on(shieldwall: Shieldwall, trained: Path, finished: Path):
    with process("-m", "shieldwall", "certify", trained) as started:
        wait_until(lambda: line_count(trained / "certificates/mme.tsv") > 2, started)
        started.send_signal(signal.SIGINT)
        ended = finish(started)
    assert ended.code == 130
    assert ended.err == "interrupted; run the same command to resume\n"
    assert "\x1b" not in ended.out
    assert ended.out.startswith("certifying 30 inputs, 4 votes: 3%  ")
    assert all(2 <= len(rows(trained / f"certificates/{vote}.tsv")) - 1 < 30 for vote in VOTES)
    assert shieldwall("certify", trained).code == 0
    assert timeless(trained) == timeless(finished)
