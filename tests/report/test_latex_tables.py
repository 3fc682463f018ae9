"""LaTeX: to the letter, whole, and with nothing that LaTeX would read as a command."""

import re
from pathlib import Path

import numpy as np
import pytest
from shown import as_latex, write_table
from worked_log import changed

from shieldwall.report.formats import escape_latex
from shieldwall.results.record import Log
from shieldwall.results.rows import Row


@pytest.fixture
def pair(worked: Log) -> list[Log]:
    better = changed(worked, radii=worked.certificates.radii + 0.25, title="a_b & co 100%", run="other")
    return [changed(worked, title="digits WE", run="digits"), better]


def structure(text: str) -> list[int]:
    """The number of cells in each line of the table; what would not compile fails."""
    plain = re.sub(r"\\[\\&%$#_{}]", "", text)
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    assert not re.search("[#_^~<>]", re.sub(r"\$[^$]*\$", "", plain))
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        assert kind == "begin" or opened.pop() == name
        opened += [name] if kind == "begin" else []
    assert opened == []
    body = text.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if "&" in line]
    assert all(line.endswith(r"\\") for line in lines)
    assert not any(line.startswith(("[", "*")) for line in lines)
    return [len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines]


def test_to_the_letter(pair: list[Log]) -> None:
    text = as_latex(pair, [0.5])
    assert text == (
        "% needs \\usepackage{booktabs}\n"
        "\\begin{table}\n\\centering\n"
        "\\caption{Certified accuracy in \\%, by $\\ell_2$ radius. "
        "6 inputs, $n = 1{,}000$, $\\alpha = 0.001$, $\\sigma = 0.25$.}\n"
        "\\label{tab:certified-accuracy}\n\\smallskip\n"
        "\\begin{tabular}{lrrrrr}\n\\toprule\n"
        "& clean &  &  & abst. & \\\\\n"
        "& 0.00 & 0.50 & ACR & \\% & inputs \\\\\n"
        "\\midrule\n"
        "digits WE & 66.7 & 33.3 & 0.317 & 16.7 & 6 \\\\\n"
        "\\addlinespace\n"
        "a\\_b \\& co 100\\% & 66.7 & \\textbf{50.0} & \\textbf{0.483} & 16.7 & 6 \\\\\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    )
    assert structure(text) == [6] * 4


def test_intervals_stand_below_their_numbers(pair: list[Log]) -> None:
    text = as_latex(pair, [0.5], intervals=True)
    assert structure(text) == [6] * 6
    assert r"& {\scriptsize [22.3, 95.7]} & {\scriptsize [4.3, 77.7]} &" in text
    assert "In brackets: the 95\\% interval over inputs" in text
    assert text.count("\\addlinespace") == 2
    assert as_latex([pair[0], pair[0]], intervals=True).count("\\addlinespace") == 1


def test_deviations_follow_their_numbers(worked: Log) -> None:
    other = changed(worked, correct=worked.certificates.correct & (worked.certificates.radii > 0.2))
    text = as_latex([Row("digits WE", "digits", ((worked, other),))], [0.5])
    assert r"58.3 $\pm$ 11.8" in text
    assert r"Mean $\pm$ standard deviation over 2 seeds." in text
    assert structure(text) == [6] * 3


@pytest.mark.parametrize(
    "title", ["[odd]", "*", "\\end{tabular}", "$x_1^2$ {~} <a|b> #1 100% & \\\\", "a\nb"]
)
def test_any_title_is_printed_as_it_is(worked: Log, title: str) -> None:
    logs = [changed(worked, title=title), changed(worked, title="b", run="b", radii=np.zeros(6))]
    for intervals in (False, True):
        assert set(structure(as_latex(logs, [0.5], intervals=intervals))) == {6}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"norm": "linf"}, r"by $\ell_\infty$ radius. 6 inputs"),
        ({"norm": "l1"}, r"by $\ell_1$ radius. 6 inputs"),
        ({"alpha": 5e-6}, r", $\alpha = 5 \cdot 10^{-6}$, "),
        ({"n": 12}, ", $n = 12$, "),
        ({"bound": "sequential(100000)"}, "6 inputs, $n$ up to 100,000, "),
    ],
)
def test_symbols_are_mathematics(worked: Log, fields: dict[str, object], said: str) -> None:
    text = as_latex([changed(worked, title="n = 5, sigma", **fields)])
    assert said in text
    assert "\nn = 5, sigma &" in text
    structure(text)


def test_what_is_averaged_and_best_has_symbols_too(worked: Log) -> None:
    wide = changed(worked, sigma=0.5)
    text = as_latex([Row("digits WE", "digits", ((worked,), (wide,)))], intervals=True)
    assert r"Best $\sigma$: at each radius the best of 2 models, $\sigma$ 0.25, 0.5; warning: chosen" in text
    assert "Student's $t$" in text
    structure(text)


@pytest.mark.parametrize(
    ("name", "label"),
    [("main.tex", "main"), ("by_sigma-0.25.tex", "by_sigma-0.25"), ("50% {of} #1~.tex", "50-of-1-")],
)
def test_each_file_has_its_label(tmp_path: Path, worked: Log, name: str, label: str) -> None:
    write_table([worked], tmp_path / name)
    assert f"}}\n\\label{{tab:{label}}}\n" in (tmp_path / name).read_text()


def test_escapes() -> None:
    assert escape_latex("a_b & 5% {x} $ #") == r"a\_b \& 5\% \{x\} \$ \#"
    assert escape_latex("\\~^<>|") == r"\textbackslash{}\textasciitilde{}\textasciicircum{}$<$$>$$|$"
