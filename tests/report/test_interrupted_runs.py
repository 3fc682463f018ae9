"""An interrupted certification says how many inputs of those wanted it has, in every form."""

import csv
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from shown import as_csv, as_latex, as_markdown, notes, table

from shieldwall.report.page.build import report_page
from shieldwall.report.plots import describe_figure
from shieldwall.results.record import Log, read_runs
from shieldwall.results.rows import rows_of

NOTE = "interrupted certification: 6 of 1,360 inputs of digits"


@pytest.fixture
def run(tmp_path: Path, write_run: Callable[..., Path]) -> Path:
    """Six inputs are certified."""
    return write_run(tmp_path / "run", "digits", ["we", "mme"])


def logs(run: Path, **settings: object) -> list[Log]:
    (run / "certificates" / "settings.yaml").write_text(yaml.safe_dump({"every": 1, **settings}))
    return [log for record in read_runs([run]) for log in record.logs]


def terminal(shown: list[Log]) -> str:
    console = Console(file=StringIO(), width=100)
    console.print(table(shown), crop=False)
    return " ".join(console.file.getvalue().split())


def page(run: Path) -> str:
    return report_page(rows_of(read_runs([run])))


def test_every_report_says_how_many_inputs_are_missing(run: Path) -> None:
    interrupted = logs(run, inputs=1360)
    assert notes(interrupted)[1] == NOTE
    assert NOTE in terminal(interrupted)
    assert " 6 of 1360 " in terminal(interrupted)
    markdown = as_markdown(interrupted)
    assert f"\n{NOTE}\n" in markdown
    assert markdown.count("| 6 of 1360 |\n") == 2
    latex = as_latex(interrupted)
    assert f"{NOTE.capitalize()}." in latex
    assert latex.count("& 6 of 1360 \\\\\n") == 2
    lines = list(csv.DictReader(StringIO(as_csv(interrupted))))
    assert {(line["inputs"], line["inputs_wanted"]) for line in lines} == {("6", "1360")}
    assert NOTE in describe_figure(rows_of(read_runs([run])))
    html = page(run)
    assert f'<p class="lead warning">{NOTE.capitalize()}.</p>' in html
    assert "6 of 1360" in html
    assert "6 of 1,360" in html


@pytest.mark.parametrize("settings", [{"inputs": 6}, {"inputs": 3}, {"inputs": "many"}, {}])
def test_a_complete_one_and_one_that_does_not_say_have_the_reports_of_before(
    run: Path, settings: dict[str, object]
) -> None:
    before = [log for record in read_runs([run]) for log in record.logs]
    shown = [show(before) for show in (as_markdown, as_latex, as_csv, terminal)]
    html = page(run)
    assert [show(logs(run, **settings)) for show in (as_markdown, as_latex, as_csv, terminal)] == shown
    assert page(run) == html


def test_only_the_interrupted_run_is_named(tmp_path: Path, run: Path, write_run: Callable[..., Path]) -> None:
    other = logs(write_run(tmp_path / "other", "other", ["we"]), inputs=6)
    both = [*logs(run, inputs=1360), *other]
    assert NOTE in notes(both)
    lines = list(csv.DictReader(StringIO(as_csv(both))))
    assert {(line["run"], line["inputs_wanted"]) for line in lines} == {("digits", "1360"), ("other", "6")}
