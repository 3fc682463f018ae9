"""Running the command line in tests, and looking at what it left behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager
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


def unsealed(run: Path, folder: str = "certificates") -> None:
    """As a kill leaves a run: without digests of the certificates."""
    from shieldwall.runs.folder import RunFolder

    RunFolder(run).unseal(f"{folder}/")


def rows(path: Path) -> list[list[bytes]]:
    """The cells of every line of a certificate file, which must end with a whole line."""
    content = path.read_bytes()
    assert content.endswith(b"\n"), path
    return [line.split(b"\t") for line in content[:-1].split(b"\n")]


def timeless(run: Path, inputs: int | None = None, folder: str = "certificates") -> dict[str, list[bytes]]:
    """The lines of every file without the time column: the header and the first `inputs` inputs."""
    end = None if inputs is None else inputs + 1
    files = sorted((run / folder).glob("*.tsv"))
    assert {path.stem for path in files} >= set(VOTES)
    return {
        path.stem: [b"\t".join(cells[:TIME] + cells[TIME + 1 :]) for cells in rows(path)[:end]]
        for path in files
    }


def lines(run: Path, folder: str = "certificates") -> dict[str, list[dict[str, str]]]:
    """Every file's lines, cell by column."""
    return {
        path.stem: [dict(zip(header, line, strict=True)) for line in body]
        for path in sorted((run / folder).glob("*.tsv"))
        for header, *body in [[[cell.decode() for cell in line] for line in rows(path)]]
    }


def counts(cell: str) -> list[int]:
    return [int(part) for part in cell.split(",")]


def environment() -> dict[str, str]:
    """One thread, no colours, a width of 80, and no bytecode written into a limited file size."""
    kept = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "SHIELDWALL_DATA")}
    return {
        **kept,
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "80",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SHIELDWALL_TRUST_CODE": "all",
    }


@contextmanager
def process(
    *command: str | Path,
    cwd: Path | None = None,
    before: Callable[[], object] | None = None,
    **variables: str,
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
        env={**environment(), **variables},
        cwd=cwd,
        preexec_fn=prepare,
    )
    with started:
        try:
            yield started
        finally:
            started.kill()


@contextmanager
def processes(
    *command: str | Path, size: int = 2, cwd: Path | None = None, **variables: str
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that find around them what torchrun sets."""
    place = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                process(*command, cwd=cwd, RANK=str(rank), LOCAL_RANK=str(rank), **place, **variables)
            )
            for rank in range(size)
        ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def finish(started: subprocess.Popen[str]) -> Outcome:
    out, err = started.communicate(timeout=300)
    return Outcome(started.returncode, out, err)


def wait_until(condition: Callable[[], bool], started: subprocess.Popen[str]) -> None:
    """Wait for something to come true while the process still runs."""
    deadline = time.monotonic() + 300
    while not condition():
        assert started.poll() is None, f"ended too early: {started.communicate()}"
        assert time.monotonic() < deadline
        time.sleep(0.002)


def line_count(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


GATED_MODEL = '''
"""A linear network that waits, after so many batches, for as long as there is a gate."""

import os
import time
from pathlib import Path

from torch import nn


class Gated(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.linear = nn.Linear(64, num_classes)
        self.batches = 0

    def forward(self, x):
        if "GATE" in os.environ and len(x) > 4:  # few images are only a trial
            self.batches += 1
            if self.batches > int(os.environ["BATCHES_BEFORE_GATE"]):
                self.wait(Path(os.environ["GATE"]))
        return self.linear(x.flatten(1))

    def wait(self, gate):
        gate.with_suffix("." + os.environ.get("RANK", "0")).touch()
        while gate.exists():
            time.sleep(0.01)
'''


@dataclass(frozen=True)
class Gate:
    """Holds processes that certify a run of the gated model, each after so many batches, until opened."""

    path: Path
    batches: int

    @property
    def variables(self) -> dict[str, str]:
        self.path.touch()
        return {"GATE": str(self.path), "BATCHES_BEFORE_GATE": str(self.batches)}

    def is_reached(self, rank: int = 0) -> bool:
        return self.path.with_suffix(f".{rank}").exists()

    def open(self) -> None:
        self.path.unlink()


def train_gated(folder: Path) -> Path:
    """A run of the gated model, in this process; the run folder holds the module, as working directory."""
    from typer.testing import CliRunner

    from shieldwall import cli

    (folder / "gated_model.py").write_text(GATED_MODEL)
    settings = ["--set", "model=gated_model:Gated", "--set", "schedule.epochs=1"]
    with chdir(folder):
        result = CliRunner().invoke(cli.app, ["train", "smoke", "--out", "run", *settings])
    assert result.exit_code == 0, result.output
    shutil.copy(folder / "gated_model.py", folder / "run/gated_model.py")
    return folder / "run"
