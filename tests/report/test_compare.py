"""Certificates side by side, in Python: the values behind `shieldwall report`."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

import shieldwall as sw
from shieldwall.report.formats import to_markdown
from shieldwall.report.tables import accuracy_table
from shieldwall.results.record import read_runs
from shieldwall.results.rows import rows_of

RUN = Path(__file__).parents[2] / "results/digits/gaussian-0.25.tar.xz"


@pytest.fixture(scope="module")
def votes() -> dict[str, sw.Certificates]:
    return sw.read(RUN)


def test_a_table_of_two_models(votes: dict[str, sw.Certificates]) -> None:
    compared = sw.compare({"small": votes["member-1"], "large": votes["we"]})
    assert repr(compared).splitlines()[:6] == [
        "certified accuracy in %, by L2 radius",
        "       clean                           abst.",
        "        0.00  0.25  0.50  0.75    ACR      %  inputs",
        "─" * 52,
        "small   97.8  91.4  63.3  12.5  0.542    1.9     360",
        "large   98.6  92.2  67.2  19.7  0.564    0.8     360",
    ]
    html = compared._repr_html_()
    assert "<td><b>98.6</b></td>" in html
    assert html.count("<tr>") == 3


def test_a_run_is_compared_as_the_report_does(votes: dict[str, sw.Certificates], tmp_path: Path) -> None:
    rows = rows_of(read_runs([RUN]))
    compared = sw.compare({"digits-gaussian-0.25": votes}, radii=[0.1, 0.4], intervals=True)
    assert compared.to_markdown() == to_markdown(accuracy_table(rows, [0.1, 0.4], intervals=True))
    for name in ("x.tex", "x.md", "x.csv", "x.svg"):
        compared.save(tmp_path / name)
    assert (tmp_path / "x.tex").read_text() == compared.to_latex("x")
    assert (tmp_path / "x.md").read_text() == compared.to_markdown()
    assert (tmp_path / "x.csv").read_text() == compared.to_csv()
    assert "95% intervals" in (tmp_path / "x.svg").read_text()
    with pytest.raises(sw.UserError, match="by the file's suffix"):
        compared.save(tmp_path / "x.xlsx")


def test_the_paired_test_is_that_of_the_discordant_inputs(votes: dict[str, sw.Certificates]) -> None:
    """In any order of the inputs; the p-value is scipy's."""
    ours, theirs = votes["member-1"], votes["we"]
    order = np.random.default_rng(0).permutation(len(theirs))
    compared = sw.compare({"a": ours, "b": theirs[order]}, radii=[0.25, 0.5])
    for test in compared.paired_test("a", "b"):
        right = [run.correct & (run.radii >= test.radius) for run in (ours, theirs)]
        assert test.only_first == (right[0] & ~right[1]).sum()
        assert test.only_second == (right[1] & ~right[0]).sum()
        p_value = binomtest(test.only_first, test.only_first + test.only_second).pvalue
        assert test.p_value == pytest.approx(p_value, rel=1e-12)
    noted = compared.table.notes[-1]
    assert noted.startswith("paired test (exact McNemar) at each radius: p = ")
    assert f"{compared.paired_test('b', 'a')[-1].p_value:.2g} at 0.5" in noted
    assert "McNemar" not in repr(sw.compare({"a": ours, "b": theirs[:50]}))
    with pytest.raises(sw.UserError, match="the same inputs"):
        sw.compare({"a": ours, "b": theirs[:50]}).paired_test("a", "b")
    with pytest.raises(sw.UserError, match="unknown row 'c'"):
        compared.paired_test("a", "c")


def test_the_plot_is_matplotlibs_axes(votes: dict[str, sw.Certificates]) -> None:
    from matplotlib import pyplot

    compared = sw.compare({"small": votes["member-1"], "large": votes["we"]})
    axes = compared.plot()
    assert [line.get_label() for line in axes.get_lines()] == ["small", "large"]
    _, two = pyplot.subplots(1, 2)
    assert compared.plot(two[1]) is two[1]
    assert not two[0].get_lines()
    pyplot.close("all")


def test_what_cannot_be_compared_is_refused(votes: dict[str, sw.Certificates]) -> None:
    from dataclasses import replace

    unknown = replace(votes["we"], truth=None)
    with pytest.raises(sw.UserError, match="true classes of a are not known"):
        sw.compare({"a": unknown})
    assert sw.compare({"a": unknown}, votes["we"].truth).to_csv() == sw.compare({"a": votes["we"]}).to_csv()
    with pytest.raises(sw.UserError, match="different ranges"):
        sw.compare({"a": votes["we"], "b": replace(votes["we"], value_range=(-1, 1))}).table  # noqa: B018


def test_logs_in_a_folder_that_is_no_run_are_called_by_their_names(
    votes: dict[str, sw.Certificates], tmp_path: Path
) -> None:
    votes["we"].save(tmp_path / "first.tsv")
    votes["mme"].save(tmp_path / "second.tsv")
    assert sw.read(tmp_path) == {"first": votes["we"], "second": votes["mme"]}
