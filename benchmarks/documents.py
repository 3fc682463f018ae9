"""Pages that are written from results: blocks in them, and tables by `shieldwall report`."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from shieldwall.errors import UserError
from shieldwall.files import write_atomic


def with_block(page: Path, name: str, content: str) -> str:
    """The text of a page with everything between the two markers of a block replaced."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, first, rest = page.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise UserError(f"{page} has no lines {begin} and {end} to write between")
    return f"{before}{begin}\n{content}{end}{after}"


def report(arguments: Sequence[str | Path], folder: Path) -> None:
    """`shieldwall report` of this checkout, called in a folder."""
    source = Path(__file__).parents[1] / "src"
    done = subprocess.run(
        [sys.executable, "-m", "shieldwall", "report", *map(str, arguments)],
        cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip
    if done.returncode:
        raise UserError(f"shieldwall report {' '.join(map(str, arguments))}: {done.stderr.strip()}")


def markdown_report(run: Path) -> str:
    """The table of a run in Markdown, as `shieldwall report --table` writes it."""
    with tempfile.TemporaryDirectory() as folder:
        report([run.resolve(), "--table", "table.md"], Path(folder))
        return (Path(folder) / "table.md").read_text(encoding="utf-8")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, its first column aligned left."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_or_check(pages: Mapping[Path, str], *, check: bool, command: str) -> bool:
    """Write the pages that differ, or name them; returns whether any did."""
    stale = [
        path for path, text in pages.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if check:
            print(f"{path} is out of date; run {command}")
        else:
            write_atomic(path, pages[path].encode())
            print(f"{path}: written")
    return bool(stale)
