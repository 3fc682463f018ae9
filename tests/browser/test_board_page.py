"""A board in a real browser: sorted by a heading, narrowed by toggles, its marks and its links."""

from pathlib import Path

import pytest
from browser_tools import console_errors, on_a_phone, requests
from report_pages import METHODS, SIGMAS, VOTES, percent, write_run
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from typer.testing import CliRunner

from shieldwall import cli


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("board")
    for method, name in enumerate(METHODS):
        for sigma in SIGMAS:
            write_run(home / "runs" / f"{name}-{sigma}", f"digits-{name}-{sigma}", method, sigma)
    done = CliRunner().invoke(cli.app, ["report", str(home / "runs"), "--html", str(home / "board.html")])
    assert done.exit_code == 0, done.output
    return home / "board.html"


@pytest.fixture
def opened(browser: Chrome, page: Path) -> Chrome:
    browser.get(page.as_uri())
    WebDriverWait(browser, 20).until(
        lambda seen: seen.execute_script("return document.documentElement.dataset.ready === 'yes'")
    )
    return browser


def column(browser: Chrome, heading: str) -> list[str]:
    """The cells in view below a heading, from above to below."""
    headings = [
        th.text.split("\n")[-1].rstrip(" \N{UPWARDS ARROW}\N{DOWNWARDS ARROW}") for th in _headings(browser)
    ]
    rows = browser.find_elements(By.CSS_SELECTOR, "#board tbody tr:not([hidden])")
    return [
        row.find_elements(By.CSS_SELECTOR, "th, td")[headings.index(heading)].text.split("\n")[0]
        for row in rows
    ]


def _headings(browser: Chrome) -> list:
    return browser.find_elements(By.CSS_SELECTOR, "#board thead th")


def heading(browser: Chrome, text: str):
    return next(th for th in _headings(browser) if text in th.text).find_element(By.TAG_NAME, "button")


def test_it_opens_with_we_alone_and_asks_for_nothing(opened: Chrome, page: Path) -> None:
    assert column(opened, "vote") == ["WE"] * 4
    assert opened.find_element(By.ID, "shown").text == "4 of 12 rows shown"
    assert console_errors(opened) == []
    assert requests(opened) == [page.as_uri()]


def test_a_heading_sorts_largest_first_and_again_smallest_first(opened: Chrome) -> None:
    shares = sorted(
        f"{percent(0.5, method, sigma, VOTES.index('we')):.1f}" for method in (0, 1) for sigma in SIGMAS
    )
    button = heading(opened, "0.50")
    button.click()
    assert column(opened, "0.50") == sorted(shares, key=float, reverse=True)
    button.click()
    assert column(opened, "0.50") == sorted(shares, key=float)
    assert [th.get_attribute("aria-sort") for th in _headings(opened)].count("ascending") == 1
    heading(opened, "run").click()
    names = column(opened, "run")
    assert names == sorted(names)


def test_the_best_of_the_rows_in_view_is_marked(opened: Chrome) -> None:
    def marked(heading: str) -> list[str]:
        cells = opened.find_elements(By.CSS_SELECTOR, "#board tbody tr:not([hidden])")
        headings = [th.text.split("\n")[-1] for th in _headings(opened)]
        at = headings.index(heading)
        return [
            row.find_element(By.TAG_NAME, "a").text
            for row in cells
            if "best" in (row.find_elements(By.CSS_SELECTOR, "th, td")[at].get_attribute("class") or "")
        ]

    assert marked("0.50") == ["digits-drt-0.5"]
    opened.find_element(By.CSS_SELECTOR, ".toggles input[name=sigma][value='0.5']").click()
    assert marked("0.50") == ["digits-drt-0.25"]
    assert column(opened, "vote") == ["WE"] * 2
    opened.find_element(By.CSS_SELECTOR, ".toggles input[name=protocol][value='MME']").click()
    assert sorted(column(opened, "vote")) == ["MME", "MME", "WE", "WE"]


def test_a_row_opens_its_run_and_that_leads_back(opened: Chrome, page: Path) -> None:
    opened.find_element(By.LINK_TEXT, "digits-drt-0.5").click()
    assert opened.find_element(By.TAG_NAME, "h1").text == "digits-drt-0.5"
    opened.find_element(By.LINK_TEXT, "All runs").click()
    assert opened.current_url == page.as_uri()


def test_on_a_phone_only_the_table_scrolls_sideways(browser: Chrome, page: Path) -> None:
    on_a_phone(browser)
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
