"""The charts of the HTML report as they are heard, seen, hovered over and tapped on."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from browser_tools import console_errors, in_the_dark, on_a_phone
from report_pages import SIGMAS, VOTES, drawn, lines, open_page, percent, tip, toggle, write_four_runs
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_four_runs(tmp_path_factory.mktemp("charts"))


AT = """
document.getElementById("chart").scrollIntoView({block: "center", behavior: "instant"});
const {axes} = JSON.parse(document.getElementById("data").textContent).charts[0];
const frame = () => new Promise(requestAnimationFrame);
const along = (value, [low, high]) => (value - low) / (high - low);
return frame().then(frame).then(() => {
  const box = document.querySelector("#chart .plot").getBoundingClientRect();
  const [x, y] = [along(arguments[0], axes.x), along(arguments[1], axes.y)];
  return [box.left + x * box.width, box.bottom - y * box.height];
});
"""


def place(browser: Chrome, radius: float, accuracy: float) -> dict[str, int]:
    """Where a point of the chart is in the window, which is scrolled there."""
    x, y = browser.execute_script(AT, radius, accuracy)
    return {"x": math.ceil(x) + 1, "y": round(y)}  # inside of the axis at radius 0


def hover(browser: Chrome, radius: float, accuracy: float) -> list[str]:
    where = place(browser, radius, accuracy)
    pointer = ActionChains(browser, duration=0)
    pointer.w3c_actions.pointer_action.move_to_location(**where)
    pointer.perform()
    return tip(browser)


def tap(browser: Chrome, where: dict[str, int]) -> None:
    for kind, points in (("touchStart", [where]), ("touchEnd", [])):
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def test_a_screen_reader_hears_what_each_chart_is_of(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    charts = browser.find_elements(By.CSS_SELECTOR, ".chart")
    said = [chart.get_attribute("aria-label") for chart in charts]
    assert [text.split(",")[0] for text in said] == [
        "Certified accuracy against L2 radius", "accuracy under noise", "gradient diversity loss by epoch",
        "total loss by epoch",
    ]  # fmt: skip
    assert {chart.get_attribute("role") for chart in charts} == {"img"}
    assert {chart.get_attribute("aria-roledescription") for chart in charts} == {None}


def test_the_tables_radii_can_be_read_off_the_envelope(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    radii = [th.text.split()[-1] for th in browser.find_elements(By.CSS_SELECTOR, "#table table th")][1:5]
    radii = [text for text in radii if re.fullmatch(r"\d\.\d\d", text)]
    assert radii == ["0.00", "0.25", "0.50", "0.75"]
    for radius in map(float, radii):
        best = max(percent(radius, 1, sigma, VOTES.index("we")) for sigma in SIGMAS)
        title, read, accuracy = hover(browser, radius, best)
        assert (float(read), float(accuracy)) == (radius, pytest.approx(best, abs=0.006))
        assert "best of" in title


def test_where_curves_meet_the_envelope_is_named_and_the_others_are_counted(
    browser: Chrome, page: Path
) -> None:
    """Every log of these runs has as many correct answers: at radius 0 they all have one value."""
    open_page(browser, page)
    title, _, _ = hover(browser, 0, percent(0, 0, "0.25", 0))
    assert re.fullmatch(r"digits-\w+ (WE|MME|member 1), best of . 0\.25, 0\.5 \(and 17 other curves\)", title)
    toggle(browser, "envelope", 0).click()
    toggle(browser, "sigma", 1).click()
    toggle(browser, "protocol", 2).click()
    toggle(browser, "protocol", 1).click()
    drawn(browser, 2)
    title, _, _ = hover(browser, 0, percent(0, 0, "0.25", 0))
    assert re.fullmatch(r"digits-\w+-0\.25 WE \(and 1 other curve\)", title)


TIP = """
const tip = document.getElementById("tip");
const box = tip.getBoundingClientRect(), style = getComputedStyle(tip);
const cut = [...tip.children].some((one) => one.scrollWidth > one.clientWidth + 1);
const body = getComputedStyle(document.body);
return {left: box.left, right: box.right, top: box.top, bottom: box.bottom, cut,
        same: style.backgroundColor === body.backgroundColor && style.color === body.color};
"""


@pytest.mark.parametrize("phone", [True, False])
def test_the_tip_has_the_pages_colours_and_stays_inside_the_window(
    browser: Chrome, page: Path, phone: bool
) -> None:
    in_the_dark(browser)
    if phone:
        on_a_phone(browser)
    open_page(browser, page)
    width, height = browser.execute_script("return [innerWidth, innerHeight]")
    for radius in (0.0, 0.5, 1.4):
        hover(browser, radius, 50)
        found: dict[str, Any] = browser.execute_script(TIP)
        assert (found["same"], found["cut"]) == (True, False)
        assert 0 <= found["left"] < found["right"] <= width
        assert 0 <= found["top"] < found["bottom"] <= height


def test_a_tap_shows_a_value_until_the_next_touch_or_scroll(browser: Chrome, page: Path) -> None:
    on_a_phone(browser)
    open_page(browser, page)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        for radius in (0.25, 0.75):
            best = percent(radius, 1, "0.5", VOTES.index("we"))
            where = place(browser, radius, best)
            tap(browser, where)
            title, read, accuracy = tip(browser)
            assert "best of" in title
            assert (float(read), float(accuracy)) == (radius, pytest.approx(best, abs=0.006))
            assert browser.execute_script(TIP)["bottom"] < where["y"]
        browser.execute_script("scrollBy(0, 40)")
        hidden = "return document.getElementById('tip').hidden"
        WebDriverWait(browser, 5).until(lambda seen: seen.execute_script(hidden))
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    assert console_errors(browser) == []


STROKES = """
const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const numbers = (text) => text.match(/[0-9.]+/g).map(Number);
const ground = numbers(getComputedStyle(document.body).backgroundColor);
const drawn = ".chart .line:not([hidden]), .sample line, .sample path";
return [...document.querySelectorAll(drawn)].map((path) => {
  const style = getComputedStyle(path);
  const ink = numbers(style.fill === "none" || path.tagName === "line" ? style.stroke : style.fill);
  const seen = ink.slice(0, 3).map((c, k) => style.opacity * c + (1 - style.opacity) * ground[k]);
  const [dark, light] = [luminance(seen), luminance(ground)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
});
"""


@pytest.mark.parametrize("dark", [True, False])
def test_every_curve_stands_out_from_its_ground(browser: Chrome, page: Path, dark: bool) -> None:
    if dark:
        in_the_dark(browser)
    open_page(browser, page)
    contrasts = browser.execute_script(STROKES)
    assert len(contrasts) >= 18 + 3 * 4
    assert min(contrasts) >= 3


def test_symbols_tell_protocols_apart_and_members_carry_their_number(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    shapes = "#chart .mark:not([hidden]) path"
    assert len(browser.find_elements(By.CSS_SELECTOR, shapes)) == 3 * 12  # WE and MME, and their envelopes
    outlines = {path.get_attribute("d") for path in browser.find_elements(By.CSS_SELECTOR, shapes)}
    assert len(outlines) == 2
    numbers = browser.find_elements(By.CSS_SELECTOR, "#chart .number:not([hidden])")
    assert {text.text for text in numbers} == {"1"}
    assert len(numbers) == 3 * 6  # four runs and two envelopes of member 1, three places each
    toggle(browser, "protocol", 2).click()
    drawn(browser, 12)
    assert not browser.find_elements(By.CSS_SELECTOR, "#chart .number:not([hidden])")


def test_without_a_sigma_the_envelopes_alone_are_drawn(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    for value in (0, 1):
        toggle(browser, "sigma", value).click()
    drawn(browser, 6)
    label = toggle(browser, "envelope", 0).find_element(By.XPATH, "./..")
    assert label.text == "best of \N{GREEK SMALL LETTER SIGMA} = 0.25, 0.5"
    empty = browser.find_elements(By.CSS_SELECTOR, "#table .nothing")
    assert [note.text for note in empty] == ["", "No row is left with the choices above."]
    assert lines(browser) == 6
    toggle(browser, "sigma", 0).click()
    drawn(browser, 12)
    assert [note.text for note in empty] == ["", "6 rows are hidden by the choices above."]


ONE_LINE = """
const tall = (one) => one.getBoundingClientRect().height > 1.6 * parseFloat(getComputedStyle(one).lineHeight)
  + parseFloat(getComputedStyle(one).paddingTop) + parseFloat(getComputedStyle(one).paddingBottom);
return [...document.querySelectorAll(arguments[0])].filter(tall).map((one) => one.textContent);
"""


def test_names_and_facts_stay_in_one_line(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    assert browser.execute_script(ONE_LINE, "#table tbody th, .facts tbody th, .facts .whole") == []
    on_a_phone(browser)
    assert browser.execute_script(ONE_LINE, ".facts .whole") == []
    assert len(browser.find_elements(By.CSS_SELECTOR, ".facts .whole")) > 8
