"""The board of results/, made by the command that docs/board.md shows, in the folder board of the pages."""

import re
import shlex
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", _build)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _build(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        write_board(Path(app.srcdir), Path(app.outdir) / "board")


def write_board(docs: Path, folder: Path) -> None:
    """Call the command of the page, in the repository, but for where it writes."""
    from shieldwall.cli import app

    command = re.search(r"^    shieldwall (report .+)$", (docs / "board.md").read_text(), re.MULTILINE)
    assert command
    words = shlex.split(command[1])
    words[-1] = str((folder / words[-1]).resolve())
    with chdir(docs.parent), redirect_stdout(StringIO()):
        app(words, standalone_mode=False)
