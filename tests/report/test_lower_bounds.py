"""The ACR of a run whose sampling stopped early is called a lower bound, in every form."""

import csv
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from shown import as_csv, as_latex, as_markdown, notes, table

from shieldwall.report.page.build import report_page
from shieldwall.report.plots import accuracy_figure, describe_figure, figure_bytes
from shieldwall.report.tables import STOPPED_EARLY
from shieldwall.results.record import Log, read_runs
from shieldwall.results.rows import rows_of

AT_LEAST = "\N{GREATER-THAN OR EQUAL TO}"
WAYS = {"early": "sequential(1000)", "eas": "after-smoothing-sequential(1000)", "whole": "one-sided"}


@pytest.fixture
def run(tmp_path: Path, write_run: Callable[..., Path]) -> Callable[..., list[Log]]:
    def logs(*ways: str) -> list[Log]:
        for way in ways:
            recipe = {"sigma": 0.5, "name": "mnist-gaussian-0.5"}
            write_run(tmp_path / way, votes=["we"], certified={"bound": WAYS[way]}, **recipe)
        return [log for record in read_runs([tmp_path / way for way in ways]) for log in record.logs]

    return logs


@pytest.mark.parametrize("way", ["early", "eas"])
def test_every_report_calls_it_a_lower_bound(way: str, run: Callable[..., list[Log]], tmp_path: Path) -> None:
    logs = run(way)
    assert "lower bound" in STOPPED_EARLY
    assert STOPPED_EARLY in notes(logs)
    assert f"| {AT_LEAST} 0.317 |" in as_markdown(logs)
    console = Console(file=StringIO(), width=100)
    console.print(table(logs), crop=False)
    assert f" {AT_LEAST} 0.317 " in console.file.getvalue()
    latex = as_latex(logs)
    assert r"& $\geq$ 0.317 &" in latex
    assert "lower bound" in latex
    assert AT_LEAST not in latex
    lines = list(csv.DictReader(StringIO(as_csv(logs))))
    assert {(line["acr_kind"], round(float(line["acr"]), 3)) for line in lines} == {("lower bound", 0.317)}
    rows = rows_of(read_runs([tmp_path / way]))
    page = report_page(rows)
    assert f">{AT_LEAST} 0.317</td>" in page
    ours, difference = re.search(r">ours<.*?</tr>", page)[0], re.search(r">difference<.*?</tr>", page)[0]
    assert ours.endswith(f"<td>{AT_LEAST} 0.317</td></tr>")
    assert re.search(rf"<td>({AT_LEAST} .*|\N{{EN DASH}})</td></tr>$", difference)
    about = describe_figure(rows)
    assert "lower bound" in about
    for kind in (".png", ".pdf", ".svg"):
        assert figure_bytes(accuracy_figure(rows), Path(f"curve{kind}"), about)


def test_it_is_not_the_best_of_its_column(run: Callable[..., list[Log]], tmp_path: Path) -> None:
    markdown = as_markdown(run("early", "whole"))
    assert f"| {AT_LEAST} 0.317 |" in markdown
    assert "| 0.317 |" in markdown
    page = report_page(rows_of(read_runs([tmp_path / "early", tmp_path / "whole"])))
    assert "data-ranked>66.7" in page
    assert f"<td>{AT_LEAST} 0.317</td>" in page
    kinds = {line["acr_kind"] for line in csv.DictReader(StringIO(as_csv(run("early", "whole"))))}
    assert kinds == {"lower bound", ""}


def test_a_whole_run_has_none_of_this(run: Callable[..., list[Log]], tmp_path: Path) -> None:
    logs = run("whole")
    page = report_page(rows_of(read_runs([tmp_path / "whole"])))
    for text in (as_markdown(logs), as_latex(logs), as_csv(logs), page):
        assert AT_LEAST not in text
        assert "lower bound" not in text
        assert "acr_kind" not in text
