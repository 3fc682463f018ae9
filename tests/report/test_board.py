"""A board: many runs, packed runs and logs of other tools in one table, and a page for each beside it."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_report_page_content import Texts, write_run
from typer.testing import CliRunner
from worked_log import WORKED, changed

import shieldwall as sw
from shieldwall import cli
from shieldwall.report.page.board import describe_inputs, page_names
from shieldwall.results.record import Log, read_runs
from shieldwall.results.rows import Row

Write = Callable[..., Path]
RESULTS = Path(__file__).parents[2] / "results"
COHEN = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t0.4\t1\t0:00:01\n20\t4\t4\t0.7\t1\t0:00:01\n"


def made(folder: Path, page: Path, *options: str) -> tuple[str, list[list[str]], str]:
    """The board of a folder, the cells of its rows, and what the command prints."""
    done = CliRunner().invoke(cli.app, ["report", str(folder), "--html", str(page), *options])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    plain = re.sub(r"</?(?:a|button)\b[^>]*>", "", text)
    rows = Texts(plain.replace("<main>", '<main><section id="board">')).rows["board"]
    return text, rows, done.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs that compare, one with another alpha, one not certified, another tool's log, a JSON file."""
    home = tmp_path / "all"
    for name, radius in (("gaussian", 0.1), ("drt", 0.3)):
        write_run(home / "deep" / name, f"mnist-{name}-0.25", {"we": [radius] * 3, "member-1": [0.4] * 3})
    other = write_run(home / "other", "mnist-macer-0.25", {"we": [0.6] * 3})
    log = other / "certificates" / "we.tsv"
    log.write_text(log.read_text().replace("\t0.001\t", "\t0.01\t"))
    (home / "trained").mkdir()
    (home / "trained" / "recipe.yaml").write_text("name: not-certified\n")
    (home / "cohen").mkdir()
    (home / "cohen" / "sigma_0.25").write_text(COHEN)
    (home / "seconds.json").write_text("{}")
    sw.read(home / "deep" / "drt")["we"].save(home / "saved.json")
    return home


def test_all_runs_of_a_folder_stand_in_one_table_with_what_they_were_certified_on(
    folder: Path, tmp_path: Path
) -> None:
    text, (heading, *rows), _ = made(folder, tmp_path / "board.html", "--radii", "0.25,0.5")
    assert heading[:7] == [
        "data set",
        "run",
        "vote",
        "\N{GREEK SMALL LETTER SIGMA}",
        "test images",
        "n",
        "alpha",
    ]
    assert [" ".join(cell.split()) for cell in heading[7:]] == [
        "clean 0.00",
        "0.25",
        "0.50",
        "ACR",
        "abst. %",
    ]
    by_run = {(row[1], row[2]): row for row in rows}
    first = "the first 3 images"
    assert by_run["mnist-drt-0.25", "WE"][3:10] == [
        "0.25",
        first,
        "1,000",
        "0.001",
        "100.0",
        "100.0, best",
        "0.0",
    ]
    assert by_run["mnist-gaussian-0.25", "WE"][7:10] == ["100.0", "0.0", "0.0"]
    assert by_run["mnist-macer-0.25", "WE"][6:10] == ["0.01", "100.0", "100.0", "100.0"]
    assert by_run["sigma_0.25", "not stated"][3:9] == [
        "not stated", "every 20th, 2 images", "\N{EN DASH}", "\N{EN DASH}", "100.0", "100.0"
    ]  # fmt: skip
    assert {run for run, _ in by_run} == {
        "mnist-drt-0.25", "mnist-gaussian-0.25", "mnist-macer-0.25", "sigma_0.25", "saved"
    }  # fmt: skip
    assert "Runs on mnist (3) and 2 other logs: sets of 2 runs compare, by images, n and alpha." in text


def test_only_rows_that_agree_in_inputs_n_and_alpha_have_a_best(folder: Path, tmp_path: Path) -> None:
    _, (_, *rows), _ = made(folder, tmp_path / "board.html", "--radii", "0.25", "--votes", "we")
    best = {row[1]: [cell for cell in row if cell.endswith(", best")] for row in rows}
    assert {run for run, cells in best.items() if cells} == {"mnist-drt-0.25"}
    recipe = folder / "deep" / "drt" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("data: mnist", "data: fashion-mnist"))
    _, (_, *rows), _ = made(folder, tmp_path / "board.html", "--radii", "0.25", "--votes", "we")
    assert not [cell for row in rows for cell in row if cell.endswith(", best")], "another data set"


def test_each_row_leads_to_the_page_of_its_run_and_back(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "my board.html"
    text, _, _ = made(folder, page)
    links = dict(re.findall(r'<a href="([^"]+)">([^<]+)</a>', text))
    assert len(links) == 5
    for link, run in links.items():
        target = page.parent / link.replace("%20", " ")
        own = target.read_text()
        assert f"<h1>{run}</h1>" in own
        assert '<a href="../my%20board.html">All runs</a>' in own
    assert links["my%20board-runs/mnist-drt-0.25.html"] == "mnist-drt-0.25"


def test_names_of_pages_are_plain_and_no_two_are_one_file() -> None:
    runs = ["a (rho 5, 0.5)", "a/rho 5 0.5", "A-rho-5-0.5", "..", "\N{GREEK SMALL LETTER SIGMA}"]
    names = page_names(runs)
    assert list(names.values()) == [
        "a-rho-5-0.5.html", "a-rho-5-0.5-2.html", "A-rho-5-0.5-3.html", "run.html", "run-2.html"
    ]  # fmt: skip


def test_runs_of_two_norms_stand_on_one_board(folder: Path, tmp_path: Path) -> None:
    log = folder / "other" / "certificates" / "we.tsv"
    log.write_text(log.read_text().replace("\tl2\t", "\tlinf\t"))
    _, (heading, *rows), printed = made(folder, tmp_path / "board.html")
    assert heading[4] == "norm"
    assert {row[1]: row[4] for row in rows}["mnist-macer-0.25"] == "L-infinity"
    assert "by L2 radius" in printed
    assert "by L-infinity radius" in printed


def test_logs_without_true_classes_are_left_out_by_name(folder: Path, tmp_path: Path) -> None:
    (folder / "unlabelled.tsv").write_text(
        COHEN.replace("\t3\t3\t", "\t-1\t3\t").replace("\t4\t4\t", "\t-1\t4\t").replace("\t1\t0:", "\t0\t0:")
    )
    text, _, printed = made(folder, tmp_path / "board.html")
    assert "left out, as it does not say the true classes: unlabelled" in printed
    assert "unlabelled" not in text


def test_names_in_logs_cannot_become_markup_or_scripts(tmp_path: Path) -> None:
    for k in range(2):
        run = write_run(tmp_path / "all" / str(k), "digits-drt", {"we": [0.1]}, seed=k)
        recipe = run / "recipe.yaml"
        recipe.write_text(
            re.sub("name: digits-drt\n", f"name: '<b>{k}</b><script>'\n", recipe.read_text(), count=1)
        )
    text, _, _ = made(tmp_path / "all", tmp_path / "board.html")
    assert "<b>" not in text
    assert text.count("<script") == 1
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)="(?!data:|#|board-runs/)[^"]*"', outside)


def test_one_run_alone_is_no_board(folder: Path, tmp_path: Path) -> None:
    shutil.rmtree(folder / "deep" / "gaussian")
    CliRunner().invoke(cli.app, ["report", str(folder / "deep"), "--html", str(tmp_path / "page.html")])
    assert "<h1>mnist-drt-0.25</h1>" in (tmp_path / "page.html").read_text()
    assert not (tmp_path / "page-runs").exists()


def test_reading_a_folder_of_runs_from_python_names_every_vote(folder: Path) -> None:
    assert list(sw.read(folder / "deep")) == [
        f"mnist-{name}-0.25 {vote}" for name in ("drt", "gaussian") for vote in ("member 1", "WE")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("indices", "said"),
    [
        ([0, 1, 2, 3, 4, 5], "all 6 images"),
        ([0, 20, 40, 60, 80, 100], "every 20th, 6 images"),
        ([0, 2, 4, 6, 8, 10], "every 2nd, 6 images"),
        ([100, 80, 60, 40, 20, 0], "every 20th, 6 images"),
        ([5, 8, 11, 14, 17, 20], "every 3rd from number 5, 6 images"),
        ([7, 8, 9, 10, 11, 12], "6 images from number 7"),
        ([0, 11, 22, 33, 44, 55], "every 11th, 6 images"),
        ([0, 21, 42, 63, 84, 105], "every 21st, 6 images"),
        ([0, 1, 2, 3, 4, 9], "6 images, not evenly spaced"),
        (None, "6 images"),
    ],
)
def test_which_images_a_row_is_of(
    worked: Log, write_run: Write, tmp_path: Path, indices: list[int] | None, said: str
) -> None:
    (record,) = read_runs([write_run(tmp_path / "run", "pets", ["we"], WORKED)])
    log = changed(record.logs[0], indices=None if indices is None else np.array(indices))
    assert describe_inputs(Row(log.title, log.run, ((log,),)), lambda data: {"mnist": 6}[data]) == said
    if indices == [0, 1, 2, 3, 4, 5]:
        assert (
            describe_inputs(Row(log.title, log.run, ((log,),)), lambda data: 10_000) == "the first 6 images"
        )


def test_the_results_of_this_repository_are_all_on_the_board(tmp_path: Path) -> None:
    text, (_, *rows), _ = made(RESULTS, tmp_path / "board.html", "--votes", "we")
    packed = list(RESULTS.rglob("*.tar.xz"))
    assert len(rows) == len(packed) == len(list((tmp_path / "board-runs").iterdir()))
    assert {row[0] for row in rows} == {path.parent.name for path in packed}
    assert {row[4] for row in rows if row[0] == "mnist"} == {
        "every 20th, 500 images",
        "every 10th, 1,000 images",
    }
    assert {row[4] for row in rows if row[0] == "digits"} == {"all 360 images"}
    assert len(text) < 200_000
