"""The built documentation: nothing is cut off, in a window of 1280 pixels or on a phone."""

import subprocess
import sys
from pathlib import Path

import pytest
from browser_tools import console_errors, on_a_phone, overflows
from selenium.webdriver import Chrome

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
CUT = """
return [...document.querySelectorAll(arguments[0])]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.innerText.slice(0, 60))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-d", folder / "doctrees", DOCS, folder / "html"]
    subprocess.run(command, check=True, timeout=300)
    return folder / "html"


def cut(browser: Chrome, page: Path, boxes: str) -> list[str]:
    """How the boxes begin that must be scrolled sideways to be read."""
    browser.get(page.as_uri())
    assert not overflows(browser)
    assert console_errors(browser) == []
    return browser.execute_script(CUT, boxes)


@pytest.mark.parametrize("name", ["equations", "certification", "troubleshooting", "methods", "papers"])
def test_tables_of_words_are_not_cut(browser: Chrome, built: Path, name: str) -> None:
    tables = ".table-wrapper:not(:has(.text-right))"
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    assert cut(browser, built / f"{name}.html", tables) == []
    on_a_phone(browser)
    assert cut(browser, built / f"{name}.html", tables) == []


def test_on_a_phone_a_cell_says_its_column(browser: Chrome, built: Path) -> None:
    on_a_phone(browser)
    browser.get((built / "troubleshooting.html").as_uri())
    shown = browser.execute_script(
        "return getComputedStyle(document.querySelector('td:nth-child(3)'), '::before').content"
    )
    assert shown == '"what to do"'


def test_formulas_of_the_api_are_wrapped(browser: Chrome, built: Path) -> None:
    on_a_phone(browser)
    assert cut(browser, built / "api" / "theory.html", "pre") == []


def test_formulas_of_the_guides_are_drawn_by_the_browser(browser: Chrome, built: Path) -> None:
    browser.get((built / "certification.html").as_uri())
    heights = browser.execute_script(
        "return [...document.querySelectorAll('.formula math')].map((one) => one.clientHeight)"
    )
    assert len(heights) >= 4
    assert all(height > 15 for height in heights)
