"""Small logs, written by hand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shieldwall.results.logs import Log, read_log

Lines = list[tuple[int, int, int, str]]
WriteLog = Callable[..., Path]

WORKED: Lines = [
    (0, 0, 0, "0.5"),
    (1, 1, 1, "0.25"),
    (2, 2, 2, "0.1"),
    (3, 3, 1, "0.9"),
    (4, 4, -1, "0.0"),
    (5, 5, 5, "1.05"),
]
OURS = "idx label predict radius correct time p_lower n alpha counts n0 counts0 noise seed vote"


@pytest.fixture
def write_ours() -> WriteLog:
    """Writes a log with all of our columns."""

    def write(path: Path, lines: Lines = WORKED, vote: str = "we", noise: str = "gaussian(0.25)") -> Path:
        rest = ["0:00:00.125000", "0.9", "1000", "0.001", "990,10", "100", "99,1", noise, "7", vote]
        rows = [[*map(str, line), str(int(line[1] == line[2])), *rest] for line in lines]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join("\t".join(row) + "\n" for row in [OURS.split(), *rows]))
        return path

    return write


@pytest.fixture
def write_run(write_ours: WriteLog) -> WriteLog:
    """Writes a run folder with a log for each vote."""

    def write(folder: Path, name: str, votes: list[str]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "recipe.yaml").write_text(f"name: {name}\nsigma: 0.25\nobjective: {{name: gaussian}}\n")
        for vote in votes:
            write_ours(folder / "certificates" / f"{vote}.tsv", vote=vote)
        return folder

    return write


@pytest.fixture
def worked(tmp_path: Path, write_ours: WriteLog) -> Log:
    """Six inputs: four correct at radii 0.1, 0.25, 0.5 and 1.05, one wrong at 0.9, one abstention."""
    return read_log(write_ours(tmp_path / "worked.tsv"))
