"""The documentation as it is built: no warning, nothing from the network, every public name explained."""

import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

import shieldwall as sw

DOCS = Path(__file__).parents[1] / "docs"
converted = run_path(str(DOCS / "_extensions/plain_docstrings.py"))["converted"]
shortened = run_path(str(DOCS / "_extensions/short_signatures.py"))["shortened"]


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
    training = re.sub(r"<[^>]+>", "", pages(built)["api/training.html"])
    assert "L = sum_i E_eps CE(f_i(x + eps), y),    eps ~ N(0, sigma^2 I)" in training
    certify = re.sub(r"<[^>]+>", "", pages(built)["api/certify.html"])
    assert re.search(r"n0 \W draws that choose the class\.", certify)
    assert "``" not in certify + training


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
