"""What ACR hides, as the report shows it: p_A, classes, the weakest one by name, a class that carries."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner
from worked_log import WORKED

from shieldwall import cli
from shieldwall.errors import UserError
from shieldwall.report.page.build import report_page
from shieldwall.report.tables import accuracy_table, hidden_tables
from shieldwall.results.record import read_runs
from shieldwall.results.rows import Row, rows_of

WriteRun = Callable[..., Path]
LINES = [(k, k % 2, k % 2 if k < 6 else 1 - k % 2, "0.5" if k % 2 else "0.2") for k in range(8)]
"""Eight inputs of the classes 0 and 1, six of them right: class 1 with the radius 0.5, class 0 with 0.2."""
COUNTS = [["900,100", "400,600", "999,1", "5,995", "990,10", "100,900", "300,700", "700,300"]]


def names(data: str) -> tuple[None, tuple[str, ...]]:
    assert data == "mnist"
    return None, ("cat", "dog")


@pytest.fixture
def rows(write_run: WriteRun, tmp_path: Path) -> list[Row]:
    counts = {"counts": COUNTS[0]}
    return rows_of(read_runs([write_run(tmp_path / "run", "pets", ["member-1", "we"], LINES, counts)]))


def test_the_tables_by_hand(rows: list[Row]) -> None:
    """p_A: .9 .6 .999 .995 .99 .9 .3 .3; at radius .5 only class 1 is left, 3 of its 4 inputs."""
    of_all, of_classes = hidden_tables(rows, [0.2, 0.5], names)
    assert of_all.row_titles == ["pets member 1", "pets WE"]
    assert [(column.heading[1], column.cells[1]) for column in of_all.columns] == [
        (">= 0.5", "75.0"), (">= 0.9", "62.5"), (">= 0.99", "37.5"), (">= 0.999", "12.5"),
    ]  # fmt: skip
    assert of_classes.title == "certified accuracy of pets WE in %, by true class"
    assert of_classes.row_titles == ["class cat", "class dog"]
    assert [column.cells for column in of_classes.columns] == [
        ["75.0", "75.0"], ["75.0", "75.0"], ["0.0", "75.0"], ["4", "4"],
    ]  # fmt: skip
    assert of_classes.notes == ["weakest on average over these radii: class cat; shown: 2 of 2 classes"]


def test_members_are_shown_where_there_is_no_ensemble_and_classes_by_number(rows: list[Row]) -> None:
    def missing(data: str) -> tuple[None, tuple[str, ...]]:
        raise UserError("not here")

    for spec in (None, missing):
        _, of_classes = hidden_tables(rows[:1], [0.5], spec)
        assert of_classes.title == "certified accuracy of pets member 1 in %, by true class"
        assert of_classes.row_titles == ["class 0", "class 1"]


def test_of_many_classes_the_ten_weakest_are_shown(write_run: WriteRun, tmp_path: Path) -> None:
    lines = [(k, k, k if k > 2 else k + 1, "0.3") for k in range(20)]
    rows = rows_of(read_runs([write_run(tmp_path / "run", "many", ["we"], lines)]))
    of_classes = hidden_tables(rows, [0.2], None)[-1]
    assert of_classes.row_titles[:4] == ["class 0", "class 1", "class 2", "class 3"]
    assert len(of_classes.row_titles) == 10
    assert of_classes.notes[0].endswith("class 0; shown: 10 of 20 classes")


def test_a_table_warns_where_one_class_carries_a_radius(write_run: WriteRun, tmp_path: Path) -> None:
    """A dead member gives class 7 for everything: its six inputs are certified, all others are wrong."""
    lines = [(k, k % 10, 7, "1.0") for k in range(60)]
    alive = [(k, k % 10, k % 10, "0.4") for k in range(60)]
    dead = write_run(tmp_path / "dead", "dead", ["we"], lines)
    both = rows_of(read_runs([dead, write_run(tmp_path / "alive", "alive", ["we"], alive)]))
    (warning,) = [note for note in accuracy_table(both, [0.5, 1.0]).notes if note.startswith("warning")]
    assert warning == "warning: most inputs certified are of one class (dead WE at 0: 6 of 6 of class 7)"
    assert not any("class" in note for note in accuracy_table(both[1:], [0.4]).notes)
    assert warning.removeprefix("warning")[:40] in report_page(both)


def test_the_page_and_the_command_show_the_same_tables(rows: list[Row], tmp_path: Path) -> None:
    page = report_page(rows, [0.2, 0.5], spec=names)
    assert "<th>class cat</th><td>75.0</td><td>75.0</td><td>0.0</td><td>4</td>" in page
    assert "<th>pets WE</th><td>75.0</td><td>62.5</td><td>37.5</td><td>12.5</td>" in page
    command = ["report", str(tmp_path / "run"), "--by-class", "--radii", "0.2,0.5"]
    shown = CliRunner().invoke(cli.app, command, catch_exceptions=False).output
    assert "weakest on average over these radii: class 0;" in " ".join(shown.split())
    assert "class 0  75.0  75.0   0.0       4" in shown
    assert "pets WE          75.0    62.5     37.5      12.5" in shown
    assert "class" not in CliRunner().invoke(cli.app, command[:2], catch_exceptions=False).output


def test_names_are_escaped_on_the_page(rows: list[Row]) -> None:
    page = report_page(rows, spec=lambda data: (None, ("<script>", "&")))
    assert "class &lt;script&gt;" in page
    assert "class <script>" not in page


def test_inputs_without_counts_have_no_p_a(write_run: WriteRun, tmp_path: Path) -> None:
    log = tmp_path / "sigma_0.25"
    rows = "".join(f"{i}\t{y}\t{c}\t{r}\t{int(y == c)}\n" for i, y, c, r in WORKED)
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\n" + rows)
    (of_classes,) = hidden_tables(rows_of(read_runs([log])), None, None)
    assert of_classes.row_titles[0] in ("class 3", "class 4")
