"""Running the command line in tests, and looking at what it left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VOTES = ("member-1", "member-2", "we", "mme", "eas")
TIME, COUNTS = 5, 11


@dataclass(frozen=True)
class Outcome:
    """What one command ended with."""

    code: int
    out: str
    err: str


Shieldwall = Callable[..., Outcome]


def refused(outcome: Outcome, *said: str) -> None:
    """The command ended as a user's mistake does: exit code 2 and one line that holds all of `said`."""
    assert outcome.code == 2, outcome
    assert outcome.err.startswith("error: "), outcome.err
    assert outcome.err.endswith("\n"), outcome.err
    assert len(outcome.err.splitlines()) == 1, outcome.err
    assert "Traceback" not in outcome.out
    for text in said:
        assert text in outcome.err


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below the folder with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rows(path: Path) -> list[list[bytes]]:
    """The cells of every line of a certificate file, which must end with a whole line."""
    content = path.read_bytes()
    assert content.endswith(b"\n"), path
    return [line.split(b"\t") for line in content[:-1].split(b"\n")]


def timeless(run: Path, inputs: int | None = None, folder: str = "certificates") -> dict[str, list[bytes]]:
    """The lines of every vote without the time column: the header and the first `inputs` inputs."""
    end = None if inputs is None else inputs + 1
    return {
        vote: [b"\t".join(cells[:TIME] + cells[TIME + 1 :]) for cells in lines[:end]]
        for vote in VOTES
        for lines in [rows(run / folder / f"{vote}.tsv")]
    }


def environment() -> dict[str, str]:
    """One thread, no colours, a width of 80, and no bytecode written into a limited file size."""
    kept = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "SHIELDWALL_DATA")}
    return {**kept, "OMP_NUM_THREADS": "1", "COLUMNS": "80", "PYTHONDONTWRITEBYTECODE": "1"}


@contextmanager
def process(
    *command: str | Path, cwd: Path | None = None, before: Callable[[], object] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A Python process of our own, which is gone afterwards whatever happens."""

    def prepare() -> None:
        # A shell's background jobs ignore Ctrl-C, and so would their children.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if before is not None:
            before()

    started = subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=cwd,
        preexec_fn=prepare,
    )
    with started:
        try:
            yield started
        finally:
            started.kill()


def finish(started: subprocess.Popen[str]) -> Outcome:
    out, err = started.communicate(timeout=120)
    return Outcome(started.returncode, out, err)


def wait_until(condition: Callable[[], bool], started: subprocess.Popen[str]) -> None:
    """Wait for something to come true while the process still runs."""
    deadline = time.monotonic() + 120
    while not condition():
        assert started.poll() is None, f"ended too early: {started.communicate()}"
        assert time.monotonic() < deadline
        time.sleep(0.002)


def line_count(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
