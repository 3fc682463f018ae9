"""The HTML report in a real browser: four runs of digits, two methods at two sigmas, three votes each."""

import re
from pathlib import Path

import numpy as np
import pytest
from browser_tools import console_errors, in_the_dark, on_a_phone, requests, without_scripts
from report_pages import (
    METHODS,
    SIGMAS,
    VOTES,
    N,
    answers,
    drawn,
    lines,
    open_page,
    percent,
    seen_rows,
    tip,
    toggle,
    write_four_runs,
    write_page,
    write_run,
)  # fmt: skip
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from shieldwall.data import datasets


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_four_runs(tmp_path_factory.mktemp("report"))


@pytest.fixture
def opened(browser: Chrome, page: Path) -> Chrome:
    open_page(browser, page)
    return browser


def test_it_opens_with_a_conclusion_and_we_alone_and_the_other_votes_are_one_click_away(
    browser: Chrome, page: Path
) -> None:
    open_page(browser, page, as_it_opens=True)
    assert lines(browser) == 2 * 2 + 2  # the logs of WE, and an envelope for each method
    assert {row.rpartition(" ")[2] for row in seen_rows(browser)} == {"WE"}
    said = browser.find_element(By.CLASS_NAME, "conclusion").text
    best = {name: percent(0.25, method, "0.5", VOTES.index("we")) for method, name in enumerate(METHODS)}
    named = [f"digits-{name}-0.5 WE with {best[name]:.1f}%" for name in ("drt", "gaussian")]
    assert said == f"At L2 radius 0.25 the best is {named[0]} of 40 test images, then {named[1]}."
    labels = browser.find_elements(By.CSS_SELECTOR, "#chart .label")
    assert {label.text for label in labels} <= {row.replace(" WE", "") + " WE" for row in seen_rows(browser)}
    toggle(browser, "protocol", 1).click()
    drawn(browser, 12)


def test_every_curve_is_drawn_and_nothing_is_asked_for(opened: Chrome, page: Path) -> None:
    assert lines(opened) == 2 * 2 * 3 + 2 * 3  # the logs, and an envelope for each method and vote
    assert len(seen_rows(opened)) == 18
    assert opened.find_element(By.CSS_SELECTOR, "#training .panel .line").is_displayed()
    opened.find_element(By.ID, "gallery-more").click()
    assert console_errors(opened) == []
    assert requests(opened) == [page.as_uri()]


def test_a_toggle_hides_curves_rows_and_training_lines_and_marks_the_best_anew(opened: Chrome) -> None:
    training = "#panel-0 .line:not([hidden])"
    assert len(opened.find_elements(By.CSS_SELECTOR, training)) == 4
    toggle(opened, "method", 1).click()
    drawn(opened, 9)
    assert len(opened.find_elements(By.CSS_SELECTOR, training)) == 2
    assert not [row for row in seen_rows(opened) if "drt" in row]

    toggle(opened, "protocol", 2).click()  # the members come last
    toggle(opened, "sigma", 0).click()
    drawn(opened, 4)
    assert seen_rows(opened) == [
        "digits-gaussian WE", "digits-gaussian MME", "digits-gaussian-0.5 WE", "digits-gaussian-0.5 MME"
    ]  # fmt: skip
    column = [
        [cell.get_attribute("textContent") for cell in row.find_elements(By.TAG_NAME, "td")]
        for row in opened.find_elements(By.CSS_SELECTOR, "#table .wide:last-child tr[data-curve]")
        if row.is_displayed()
    ]
    for we, mme in zip(*(row[:-2] for row in column), strict=True):
        if we == mme == "-":
            continue
        best = max(float(cell.removesuffix(", best")) for cell in (we, mme) if cell != "-")
        marked = [cell for cell in (we, mme) if cell.endswith(", best")]
        alike = we == mme
        assert alike or [float(cell.removesuffix(", best")) for cell in marked] == [best]
    assert console_errors(opened) == []


def test_everything_can_be_hidden_and_shown_again(opened: Chrome) -> None:
    for value in (0, 1):
        toggle(opened, "method", value).click()
    drawn(opened, 0)
    assert seen_rows(opened) == []
    said = opened.find_element(By.ID, "shown")
    assert said.text == "No curve is left with these choices; check more of them."
    assert said.size["width"] > 100
    notes = opened.find_elements(By.CSS_SELECTOR, ".wide .nothing")
    assert [note.text for note in notes] == ["No row is left with the choices above."] * 3
    toggle(opened, "method", 0).click()
    drawn(opened, 9)
    assert said.text == "9 of 18 curves shown"
    assert said.size["width"] == 1
    assert all(re.fullmatch(r"\d+ rows are hidden by the choices above\.", note.text) for note in notes)
    toggle(opened, "method", 1).click()
    drawn(opened, 18)
    assert not [note for note in notes if note.is_displayed()]
    assert console_errors(opened) == []


def test_the_envelope_is_the_best_over_sigma_and_has_a_toggle(opened: Chrome) -> None:
    table = opened.find_element(By.CSS_SELECTOR, "#table table")
    radii = [float(th.text.split()[-1]) for th in table.find_elements(By.CSS_SELECTOR, "thead th")[1:]]
    for method, name in enumerate(METHODS):
        for vote, spoken in enumerate(("member 1", "WE", "MME")):
            row = next(
                tr for tr in table.find_elements(By.CSS_SELECTOR, "tbody tr")
                if tr.find_element(By.TAG_NAME, "th").text == f"digits-{name} {spoken}"
            )  # fmt: skip
            shown = [
                td.get_attribute("textContent").split(",")[0] for td in row.find_elements(By.TAG_NAME, "td")
            ]
            best = [max(percent(r, method, sigma, vote) for sigma in SIGMAS) for r in radii]
            assert [cell.replace("-", "0.0") for cell in shown] == [f"{value:.1f}" for value in best]
    toggle(opened, "envelope", 0).click()
    drawn(opened, 12)
    assert len(seen_rows(opened)) == 12
    assert not table.find_element(By.CSS_SELECTOR, "tbody tr").is_displayed()


def test_hovering_shows_the_value_of_the_nearest_curve(opened: Chrome) -> None:
    toggle(opened, "envelope", 0).click()
    drawn(opened, 12)
    chart = opened.find_element(By.CSS_SELECTOR, "#chart svg")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart)
    for x in (-180, -40, 90):
        ActionChains(opened).move_to_element_with_offset(chart, x, 0).perform()
        title, radius, accuracy = tip(opened)
        found = re.match(r"digits-(gaussian|drt)-(0\.25|0\.5) (member 1|WE|MME)( \(and |$)", title)
        assert found is not None
        vote = ("member 1", "WE", "MME").index(found[3])
        exact = percent(float(radius), METHODS.index(found[1]), found[2], vote)
        assert float(accuracy) == pytest.approx(exact, abs=0.006)


def verdict(label: int, predict: int) -> str:
    return "abstained" if predict < 0 else "correct" if predict == label else "wrong"


def gallery(browser: Chrome) -> list[tuple[float, str]]:
    cards = browser.find_elements(By.CSS_SELECTOR, "#cards .card")
    return [(float(card.get_attribute("data-radius")), card.get_attribute("data-verdict")) for card in cards]


def test_the_gallery_sorts_by_radius_and_brings_failures_first(opened: Chrome) -> None:
    expected = [
        (np.floor(1e4 * radius) / 1e4, verdict(label, predict))
        for label, predict, radius in answers(0, 0.25, VOTES.index("we"))
    ]
    assert Select(opened.find_element(By.ID, "gallery-log")).first_selected_option.text.startswith("WE")
    opened.execute_script("arguments[0].click()", opened.find_element(By.ID, "gallery-more"))
    assert gallery(opened) == expected
    order = Select(opened.find_element(By.ID, "gallery-order"))
    order.select_by_value("largest")
    opened.execute_script("arguments[0].click()", opened.find_element(By.ID, "gallery-more"))
    assert [radius for radius, _ in gallery(opened)] == sorted((r for r, _ in expected), reverse=True)
    order.select_by_value("smallest")
    assert [radius for radius, _ in gallery(opened)] == sorted(r for r, _ in expected)[:24]
    opened.find_element(By.ID, "gallery-failed").click()
    shown = gallery(opened)
    failed = sorted(r for r, verdict in expected if verdict != "correct")
    assert [radius for radius, _ in shown[: len(failed)]] == failed
    assert {verdict for _, verdict in shown[: len(failed)]} == {"wrong", "abstained"}
    assert {verdict for _, verdict in shown[len(failed) :]} == {"correct"}
    status = opened.find_element(By.ID, "gallery-status")
    assert "smallest first, wrong and abstained first" in status.text
    assert status.get_attribute("aria-live") == "polite"


def test_a_card_shows_the_picture_the_classes_the_radius_and_the_votes(opened: Chrome) -> None:
    card = opened.find_elements(By.CSS_SELECTOR, "#cards .card")[4]
    label, predict, radius = answers(0, 0.25, VOTES.index("we"))[4]
    facts = [dd.text for dd in card.find_elements(By.TAG_NAME, "dd")]
    assert facts[:4] == ["4", str(label), f"{predict}, wrong", f"{np.floor(1e4 * radius) / 1e4:.4f}"]
    assert facts[4].split() == [f"{label}:", str(N - 4), f"{predict}:", "4"]
    pixels = opened.execute_script(PIXELS, card.find_element(By.CSS_SELECTOR, ".picture"))
    image = np.rint(255 * datasets.load("digits").test.images([4])[0, 0].numpy())
    assert np.array_equal(np.array(pixels).reshape(8, 8), image)


PIXELS = """
const place = arguments[0];
const style = getComputedStyle(place);
const image = new Image();
image.src = style.backgroundImage.slice(5, -2);
return image.decode().then(() => {
  const scale = image.width / parseFloat(style.backgroundSize);
  const [x, y] = style.backgroundPosition.split(" ").map((length) => -parseFloat(length) * scale);
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  const pen = canvas.getContext("2d");
  pen.drawImage(image, Math.round(x), Math.round(y), 8, 8, 0, 0, 8, 8);
  return [...pen.getImageData(0, 0, 8, 8).data].filter((_, k) => k % 4 === 0);
});
"""


def test_the_keyboard_alone_reaches_and_turns_a_toggle(opened: Chrome) -> None:
    wanted = toggle(opened, "protocol", 1)
    for _ in range(40):
        ActionChains(opened).send_keys(Keys.TAB).perform()
        if opened.switch_to.active_element == wanted:
            break
    assert opened.switch_to.active_element == wanted
    outline = opened.execute_script("return getComputedStyle(arguments[0]).outlineStyle", wanted)
    assert outline == "solid"
    ActionChains(opened).send_keys(Keys.SPACE).perform()
    drawn(opened, 12)
    assert not [row for row in seen_rows(opened) if row.endswith("MME")]
    assert opened.find_element(By.ID, "shown").get_attribute("textContent") == "12 of 18 curves shown"


def test_a_phone_scrolls_tables_but_not_the_page(browser: Chrome, page: Path) -> None:
    on_a_phone(browser)
    open_page(browser, page)
    # A phone's window grows with what does not fit, so the width asked for is the one to compare with.
    widths = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
    assert widths == [390, 390]
    wide = browser.find_elements(By.CSS_SELECTOR, ".wide")[1]
    scroll, client = (wide.get_property(name) for name in ("scrollWidth", "clientWidth"))
    assert scroll > client
    first = wide.find_element(By.CSS_SELECTOR, "tbody th")
    left = first.rect["x"]
    browser.execute_script("arguments[0].scrollLeft = 120", wide)
    assert first.rect["x"] == pytest.approx(left, abs=1)
    assert browser.find_element(By.CSS_SELECTOR, "#chart svg").size["width"] <= 390


CONTRASTS = """
const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const numbers = (text) => text.match(/[0-9.]+/g).map(Number);
const ground = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const colour = numbers(getComputedStyle(one).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
  return numbers(getComputedStyle(document.body).backgroundColor);
};
const found = [["page", luminance(ground(document.body))]];
const texts = "h1, h2, h3, p, a, label, legend, caption div, th, td, small, dt, dd, figcaption, summary, "
  + "option, button, text";
for (const element of document.querySelectorAll(texts)) {
  if (!element.textContent.trim() || element.closest("[hidden], .skip")) continue;
  const style = getComputedStyle(element);
  const ink = luminance(numbers(element instanceof SVGElement ? style.fill : style.color));
  const [dark, light] = [ink, luminance(ground(element))].sort((a, b) => a - b);
  found.push([element.tagName + " " + element.textContent.slice(0, 20), (light + 0.05) / (dark + 0.05)]);
}
return found;
"""


@pytest.mark.parametrize("dark", [True, False])
def test_text_stands_out_from_its_ground(browser: Chrome, page: Path, dark: bool) -> None:
    if dark:
        in_the_dark(browser)
    open_page(browser, page)
    (_, ground), *contrasts = browser.execute_script(CONTRASTS)
    assert ground < 0.02 if dark else ground > 0.9
    assert len(contrasts) > 300
    assert [one for one in contrasts if one[1] < 4.5] == []


def test_without_scripts_there_is_a_picture_and_every_table(browser: Chrome, page: Path) -> None:
    without_scripts(browser)
    browser.get(page.as_uri())
    chart = browser.find_element(By.CSS_SELECTOR, "#chart svg")
    assert chart.size["width"] > 400
    assert chart.size["height"] > 200
    assert lines(browser) == len(browser.find_elements(By.CSS_SELECTOR, "#curves .legend li")) == 6
    assert len(seen_rows(browser)) == 18
    assert "pointer" not in browser.find_element(By.CSS_SELECTOR, "#curves figcaption").text
    panels = browser.find_elements(By.CSS_SELECTOR, "#training .panel svg")
    assert len(panels) == 3
    assert min(panel.size["height"] for panel in panels) > 100
    assert not browser.find_element(By.CSS_SELECTOR, ".toggles").is_displayed()
    assert "needs scripts" in browser.find_element(By.ID, "gallery").text


def test_names_are_text_whatever_they_hold(browser: Chrome, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=document.title='harmed'><b>&amp; \"'$x_1$"
    run = write_run(tmp_path / "run", "digits-gaussian-0.25", 0, "0.25", called=hostile)
    write_page([run], tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    assert browser.find_element(By.TAG_NAME, "h1").text == hostile
    assert browser.title == f"{hostile}: certified accuracy"
    assert not browser.find_elements(By.CSS_SELECTOR, "img, b")
    chart = browser.find_element(By.CSS_SELECTOR, "#chart svg")
    ActionChains(browser).move_to_element(chart).perform()
    assert tip(browser)[0].startswith(hostile)
    assert console_errors(browser) == []
    assert requests(browser) == [(tmp_path / "page.html").as_uri()]


def test_a_log_of_another_tool_has_curves_and_inputs_only(browser: Chrome, tmp_path: Path) -> None:
    log = tmp_path / "sigma_0.25"
    rows = [f"{k}\t{label}\t{predict}\t{radius}\t{int(label == predict)}\n"
            for k, (label, predict, radius) in enumerate(answers(0, 0.25, 1))]  # fmt: skip
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\n" + "".join(rows))
    write_page([log], tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    assert lines(browser) == 1
    assert len(gallery(browser)) == 24
    assert not browser.find_elements(
        By.CSS_SELECTOR, "#training, #paper, .picture, section:not(#hidden) details"
    )
    assert console_errors(browser) == []
