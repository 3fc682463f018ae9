"""The documentation as it is built: no warning, nothing from the network, every public name explained."""

import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest
from typer.testing import CliRunner

import shieldwall as sw
from shieldwall import cli

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[1] / "docs"
converted = run_path(str(DOCS / "_extensions/plain_docstrings.py"))["converted"]
shortened = run_path(str(DOCS / "_extensions/short_signatures.py"))["shortened"]
named = run_path(str(DOCS / "_extensions/column_names.py"))["named"]
marked = run_path(str(DOCS / "_extensions/breakable_names.py"))["marked"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", folder / "doctrees", DOCS]
    done = subprocess.run([*command, folder / "html"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"


def pages(built: Path) -> dict[str, str]:
    return {str(path.relative_to(built)): path.read_text() for path in built.rglob("*.html")}


def test_every_page_is_there(built: Path) -> None:
    sources = {str(path.relative_to(DOCS).with_suffix(".html")) for path in DOCS.rglob("*.md")}
    assert len(sources) > 12
    assert sources <= set(pages(built))


def test_the_board_is_what_its_command_makes_and_every_link_of_it_leads_somewhere(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (link,) = re.findall(r'href="(board/[^"]+)"', pages(built)["board.html"])
    monkeypatch.chdir(DOCS.parent)
    command = ["report", "results", "--html", str(tmp_path / "board.html")]
    assert f"    shieldwall {' '.join(command[:3])} board.html\n" in (DOCS / "board.md").read_text()
    assert CliRunner().invoke(cli.app, command).exit_code == 0
    board = (built / link).read_text()
    assert board == (tmp_path / "board.html").read_text()
    linked = set(re.findall(r'<a href="([^"]+)"', board))
    assert len(linked) == len(list((DOCS.parent / "results").rglob("*.tar.xz")))
    for run in linked:
        assert (built / "board" / run).read_bytes() == (tmp_path / run).read_bytes()


def test_every_page_can_be_reached_from_the_menu(built: Path) -> None:
    menu = re.findall(r'class="reference internal" href="([\w./-]+\.html)"', pages(built)["index.html"])
    named = {str(path.relative_to(DOCS).with_suffix(".html")) for path in DOCS.rglob("*.md")} - {"index.html"}
    assert named <= set(menu)


def test_nothing_is_loaded_from_the_network(built: Path) -> None:
    for name, text in pages(built).items():
        loaded = re.findall(r"<(?:script|link|img|iframe|source|video)\b[^>]*>", text)
        assert loaded, name
        assert [
            tag for tag in loaded if re.search(r"(?:src|href|srcset)\s*=\s*[\"']?(?:https?:)?//", tag)
        ] == []
    for sheet in built.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet
    for script in built.rglob("*.js"):
        assert "cdn.jsdelivr" not in script.read_text(), script


def test_every_public_name_is_in_the_api(built: Path) -> None:
    explained = {
        name
        for page, text in pages(built).items()
        if page.startswith("api/")
        for name in re.findall(r'id="([\w.]+)"', text)
    }
    assert {f"shieldwall.{name}" for name in sw.__all__} - explained == set()


def test_a_formula_and_parameters_stand_as_they_were_written(built: Path) -> None:
    theory = re.sub(r"<[^>]+>", "", pages(built)["api/theory.html"])
    assert "f_i^{y0/y}(x) = f_i(x)_{y0} - f_i(x)_y,    every f_i(x)_y beta-smooth" in theory
    certify = re.sub(r"<[^>]+>", "", pages(built)["api/certify.html"])
    assert re.search(r"n0 \W the number of noise samples that select the class\.", certify)
    assert "``" not in certify + theory


def test_docstrings_are_converted() -> None:
    written = [
        "The sum of `a` * b_ | c, over `Vote`s and a",
        "`code that is",
        "broken`.",
        "",
        "    y = x * |w|_2",
        "      + 1",
        "",
        "Args:",
        "    first: one `x`,",
        "        or two.",
        "    second: b*.",
        "",
        "| a | b |",
    ]
    assert converted(written) == [
        r"The sum of ``a`` \* b\_ \| c, over ``Vote``\ s and a",
        "``code that is broken``.",
        "",
        "::",
        "",
        "        y = x * |w|_2",
        "          + 1",
        "",
        ":param first: one ``x``,",
        "        or two.",
        r":param second: b\*.",
        "",
        "::",
        "",
        "    | a | b |",
        "",
    ]


def test_arrays_are_named_in_signatures() -> None:
    spelt_out = "(r: ~numpy.ndarray[tuple[~typing.Any, ...], ~numpy.dtype[~numpy.float64]])"
    assert shortened(spelt_out) == "(r: NDArray[float64])"
    assert shortened(None) is None


def test_cells_carry_the_names_of_their_columns() -> None:
    head = "<thead><tr><th>a</th>\n<th><p><code>b</code> &amp; c</p></th></tr></thead>"
    rows = '<tbody><tr><td class="x">1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></tbody>'
    assert named(f"<table>{head}{rows}</table><td>5</td>") == (
        f'<table>{head}<tbody><tr><td data-column="a" class="x">1</td><td data-column="b &amp; c">2</td></tr>'
        '<tr><td data-column="a">3</td><td data-column="b &amp; c">4</td></tr></tbody></table><td>5</td>'
    )


def test_long_names_may_break_but_not_numbers_and_options() -> None:
    assert marked("theory.max_margin") == "theory.<wbr>max_<wbr>margin"
    assert marked("--to-file 0.25") == '<span class="whole">--to-file</span> 0.25'


def test_the_first_page_has_a_picture_and_formulas_without_scripts(built: Path) -> None:
    first = pages(built)["index.html"]
    (picture,) = re.findall(r'<img [^>]*src="([^"]+)"', first)
    assert (built / picture).is_file()
    assert "<math" in first
    assert not re.search("<script[^>]+mathjax", first, re.IGNORECASE)
