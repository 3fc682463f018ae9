"""Small logs, written by hand."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from worked_log import WORKED, Lines, read_log

from shieldwall.results.record import Log

WriteLog = Callable[..., Path]

OURS = (
    "idx label predict radius correct time p_lower p_upper bound n alpha counts n0 counts0 "
    "noise norm precision seed vote"
)
USUAL = {
    "time": "0:00:00.125000", "p_lower": "0.9", "p_upper": "0.1", "bound": "one-sided", "n": "1000",
    "alpha": "0.001", "counts": "990,10", "n0": "100", "counts0": "99,1", "noise": "gaussian(0.25)",
    "norm": "l2", "precision": "float32", "seed": "7", "vote": "we",
}  # fmt: skip


@pytest.fixture
def write_ours() -> WriteLog:
    """Writes a log with all of our columns; a list of cells has one for each line."""

    def write(path: Path, lines: Lines = WORKED, **cells: str | list[str]) -> Path:
        rows = [OURS.split()]
        for k, (idx, label, predict, radius) in enumerate(lines):
            own = {name: cell if isinstance(cell, str) else cell[k] for name, cell in cells.items()}
            if own.get("n", "").isdigit() and "counts" not in own:
                own["counts"] = f"{int(own['n']) - 10},10"  # they sum to n
            first = [str(idx), str(label), str(predict), radius, str(int(label == predict))]
            rows.append([*first, *({**USUAL, **own}[name] for name in OURS.split()[5:])])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join("\t".join(row) + "\n" for row in rows))
        return path

    return write


@pytest.fixture
def write_run(write_ours: WriteLog) -> WriteLog:
    """Writes a run folder with a log for each vote; keywords are keys of its recipe."""

    def write(
        folder: Path,
        name: str,
        votes: list[str],
        lines: Lines = WORKED,
        certified: dict[str, str] | None = None,
        **recipe: object,
    ) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        on = {"summary": "", "data": "mnist", "model": "lenet"}
        content = {"name": name, "sigma": 0.25, "objective": {"name": "gaussian"}, **on, **recipe}
        (folder / "recipe.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        cells = {"noise": f"gaussian({content['sigma']})", **(certified or {})}
        for vote in votes:
            write_ours(folder / "certificates" / f"{vote}.tsv", lines, vote=vote, **cells)
        return folder

    return write


@pytest.fixture
def worked(tmp_path: Path, write_ours: WriteLog) -> Log:
    """Six inputs: four correct at radii 0.1, 0.25, 0.5 and 1.05, one wrong at 0.9, one abstention."""
    return read_log(write_ours(tmp_path / "worked.tsv"))
