"""Every notebook in examples/ runs from above to below, and prints what it shows."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def run_cells(cells: Iterable[Mapping[str, Any]]) -> list[str]:
    """What each cell of code prints; the cells share their names, as in a notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    texts = []
    for k, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            with redirect_stdout(StringIO()) as printed:
                exec(compile("".join(cell["source"]), f"cell {k}", "exec"), names)
            texts.append(printed.getvalue())
    return texts


def code_of(notebook: Path) -> list[Mapping[str, Any]]:
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]


def test_there_are_two_and_each_was_run_in_order() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["certify-your-model", "train-with-drt"]
    for notebook in NOTEBOOKS:
        counts = [cell["execution_count"] for cell in code_of(notebook)]
        assert counts == list(range(1, len(counts) + 1))
        assert notebook.stat().st_size < 20_000


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = code_of(notebook)
    shown = ["".join("".join(output["text"]) for output in cell["outputs"]) for cell in cells]
    assert run_cells(cells) == shown
    assert sum(map(bool, shown)) >= 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_a_notebook_lead_somewhere(notebook: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", notebook.read_text()):
        assert (notebook.parent / link).exists(), link
