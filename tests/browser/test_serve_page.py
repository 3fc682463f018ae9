"""The live page in a real browser: drawn on, chosen from, uploaded to, by mouse and by keyboard."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from browser_tools import console_errors, in_the_dark, on_a_phone, overflows, requests
from PIL import Image
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from shieldwall import recipes
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.train import train_run
from shieldwall.serve import live
from shieldwall.serve.app import STEPS
from shieldwall.serve.server import address_of, listen, server_for
from shieldwall.serve.service import Service, load_service

PARTS = {"", "page.css", "icon.svg", "page.js", "common.js", "image.js", "certificate.js"}
PATIENCE = 120
"""Seconds after which something that never comes fails its test, however busy the machine is."""
SEVEN = ((-50, -80), (50, -80), (30, -20), (0, 40), (-20, 90))


class Brake:
    """Holds the model up once it has classified so many batches, until it is released."""

    def __init__(self) -> None:
        self._batches_left: int | None = None
        self._released = threading.Event()

    def hold_after(self, batches: int) -> None:
        self._released.clear()
        self._batches_left = batches

    def release(self) -> None:
        self._batches_left = None
        self._released.set()

    def __call__(self, *_: object) -> None:
        if self._batches_left is not None:
            self._batches_left -= 1
            if self._batches_left < 0:
                self._released.wait(PATIENCE)


@dataclass(frozen=True)
class Site:
    address: str
    brake: Brake
    orders: list[object]
    """What the page has asked the server for, over its WebSocket."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two runs of the smoke recipe's members, said to be for two sigmas, with draws of a known seed."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("served")
    recipe = recipes.get("smoke")
    train_run(recipe, folder / "run", device="cpu")
    more_noise = RunFolder.create(folder / "more-noise", replace(recipe, sigma=0.5))
    (folder / "run" / "members").rename(more_noise.path / "members")
    (folder / "run").joinpath("members").symlink_to(more_noise.path / "members")
    brake, orders = Brake(), []

    original = live.parse

    def parse(text: str, service: Service) -> object:
        orders.append(original(text, service))
        return orders[-1]

    with listen("127.0.0.1", 0) as sock:
        service = load_service([folder / "run", more_noise.path], device="cpu")
        # On a busy machine the batch that is quick enough would be a smaller one.
        service = replace(service, runs=tuple(replace(run, batch_size=256) for run in service.runs))
        service.runs[0].members[0].register_forward_pre_hook(brake)
        server = server_for(service, "127.0.0.1")
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(live.secrets, "randbits", lambda bits: 5)
            patch.setattr(live, "parse", parse)
            yield Site(address_of(sock), brake, orders)
        brake.release()
        server.should_exit = True
        thread.join()


@pytest.fixture
def address(site: Site) -> str:
    return site.address


@pytest.fixture
def page(browser: Chrome, address: str) -> Chrome:
    browser.get(address)
    return browser


def text(page: Chrome, name: str) -> str:
    return str(page.execute_script("return document.getElementById(arguments[0]).textContent", name))


def value(page: Chrome, name: str) -> str:
    return str(page.execute_script("return document.getElementById(arguments[0]).value", name))


def wait(page: Chrome, condition: Callable[[], object]) -> None:
    WebDriverWait(page, PATIENCE, poll_frequency=0.03).until(lambda _: condition())


def wait_until_done(page: Chrome) -> str:
    wait(page, lambda: re.match("Done|Stopped", text(page, "summary")))
    return text(page, "summary")


def draw(page: Chrome, points: tuple[tuple[int, int], ...] = SEVEN) -> None:
    pad = page.find_element(By.ID, "pad")
    hand = ActionChains(page, duration=10).move_to_element_with_offset(pad, *points[0]).click_and_hold()
    for point in points[1:]:
        hand.move_to_element_with_offset(pad, *point)
    hand.release().perform()


def choose_test_image(page: Chrome, number: int) -> None:
    page.find_element(By.CSS_SELECTOR, "[name=source][value=test]").send_keys(Keys.SPACE)
    field = page.find_element(By.ID, "index")
    field.clear()
    field.send_keys(str(number), Keys.ENTER)


def slide_to(page: Chrome, name: str, key: str, times: int = 1) -> None:
    page.find_element(By.ID, name).send_keys(*[key] * times)


def counts(page: Chrome) -> list[int]:
    shown = page.execute_script(
        "return [...document.querySelectorAll('#votes .count > :first-child')].map((td) => td.textContent)"
    )
    return [int(count.replace(",", "")) for count in shown]


def watch(page: Chrome) -> None:
    """Keep what the page shows at every update."""
    page.execute_script(
        """window.seen = [];
        new MutationObserver(() => window.seen.push([
          document.getElementById("draws").textContent, document.getElementById("radius").textContent,
        ])).observe(document.getElementById("draws"), { childList: true });
        window.said = [];
        new MutationObserver(() => window.said.push(document.getElementById("summary").textContent))
          .observe(document.getElementById("summary"), { childList: true });"""
    )


def test_a_drawing_is_predicted_and_its_certificate_grows_until_it_settles(page: Chrome, address: str):
    watch(page)
    slide_to(page, "n", Keys.END)
    draw(page)
    summary = wait_until_done(page)
    assert summary.startswith("Done after 100,000 samples.")
    assert text(page, "note") == "your drawing, resized and centred in 8 x 8"
    assert sum(counts(page)) == 100_000

    seen = page.execute_script("return window.seen")
    draws = [int(count.replace(",", "")) for count, _ in seen]
    assert draws[1:] == sorted(draws[1:])
    assert len(set(draws)) > 5
    on_the_way = [radius for _, radius in seen[:-1] if radius != "none"]
    radii = [float(radius.removeprefix("≥ ")) for radius in on_the_way]
    settled = float(seen[-1][1])
    assert all(radius.startswith("≥ ") for radius in on_the_way)
    assert settled > radii[0]
    assert settled >= max(radii)
    assert f"certified radius {settled:.3f}." in summary

    copies = page.find_elements(By.CSS_SELECTOR, "#copies img")
    assert len(copies) == 8
    assert all(page.execute_script("return arguments[0].naturalWidth", copy) == 8 for copy in copies)
    said = [sentence for sentence in page.execute_script("return window.said") if sentence]
    assert said == ["Sampling.", summary]  # a screen reader hears two sentences, not every update

    assert console_errors(page) == []
    asked = requests(page)
    assert {url.removeprefix(address) for url in asked} == PARTS | {"drawing"}


def test_a_test_image_is_certified_with_the_keyboard_alone(page: Chrome):
    choose_test_image(page, 7)
    summary = wait_until_done(page)
    assert text(page, "note").startswith("test image 7, class ")
    truth = text(page, "note")[-1]
    assert text(page, "answer") == truth
    radius = float(text(page, "radius"))
    assert 0.1 < radius < 0.8
    assert f"Prediction {truth}, certified radius {radius:.3f}." in summary
    assert f"no change of the image below {radius:.3f} (L2) changes the smoothed answer, {truth}." in summary
    curve = page.find_element(By.CSS_SELECTOR, "#curve .line").get_attribute("points").split()
    assert len(curve) >= 8
    assert f"{radius:.3f} after 10,000" in page.find_element(By.ID, "curve").get_attribute("aria-label")
    assert page.find_element(By.CSS_SELECTOR, "#votes .chosen .class").text == truth


def test_sliders_and_selects_work_by_keyboard_and_start_anew(page: Chrome):
    choose_test_image(page, 7)
    wait_until_done(page)
    slide_to(page, "n", Keys.HOME)
    wait(page, lambda: text(page, "summary").startswith("Done after 100 samples."))
    slide_to(page, "n", Keys.ARROW_RIGHT, 2)
    wait(page, lambda: text(page, "summary").startswith("Done after 500 samples."))
    assert page.find_element(By.ID, "n").get_attribute("aria-valuetext") == "500"
    assert "the most that 500 samples can certify" in text(page, "curve")
    least = text(page, "curve")

    slide_to(page, "sigma", Keys.ARROW_RIGHT)
    assert text(page, "sigma-value") == "0.5"
    wait(page, lambda: "Done" in text(page, "summary") and text(page, "curve") != least)
    assert page.find_element(By.ID, "sigma").get_attribute("aria-valuetext") == "0.5"
    Select(page.find_element(By.ID, "vote")).select_by_visible_text("max-margin (MME)")
    wait_until_done(page)
    assert console_errors(page) == []


def test_after_smoothing_every_members_vote_is_shown(page: Chrome):
    Select(page.find_element(By.ID, "vote")).select_by_visible_text("after smoothing (EAS)")
    choose_test_image(page, 7)
    summary = wait_until_done(page)
    assert (
        f"Prediction {text(page, 'note')[-1]}, certified radius {float(text(page, 'radius')):.3f}." in summary
    )
    assert text(page, "votes-title") == "Votes, the most by any member"
    assert max(counts(page)) <= 10_000 <= sum(counts(page))
    voted = page.execute_script(
        "return [...document.querySelectorAll('#copies li')]"
        ".map((copy) => copy.querySelectorAll('span').length)"
    )
    assert voted == [2] * 8
    Select(page.find_element(By.ID, "vote")).select_by_visible_text("weighted (WE)")
    wait(page, lambda: text(page, "votes-title") == "Votes")
    wait_until_done(page)
    assert sum(counts(page)) == 10_000


def test_the_labels_of_the_curve_stay_inside_it_and_apart(page: Chrome):
    """With each n that the slider offers, before an image is given."""
    slide_to(page, "n", Keys.HOME)
    for n in STEPS:
        boxes = page.execute_script(
            """return [...document.querySelectorAll("#curve text")]
              .map((text) => [text.textContent, text.getBBox().x, text.getBBox().x + text.getBBox().width])"""
        )
        assert all(0 <= start < end <= 360 for _, start, end in boxes)
        ticks = sorted((start, end, label) for label, start, end in boxes if label[0].isdigit())
        assert all(before[1] + 4 < after[0] for before, after in pairwise(ticks))
        assert ticks[-1][2] == f"{n:,}"
        slide_to(page, "n", Keys.ARROW_RIGHT)


def test_a_jump_of_the_radius_at_the_last_draw_is_explained(page: Chrome):
    beside = page.find_element(By.ID, "curve").find_element(By.XPATH, "following-sibling::p").text
    assert beside.startswith("The radius jumps at sample n")
    choose_test_image(page, 7)
    wait_until_done(page)
    points = page.find_element(By.CSS_SELECTOR, "#curve .line").get_attribute("points").split()
    (_, before), (_, last) = ([float(part) for part in point.split(",")] for point in points[-2:])
    assert last < before  # y points down


def test_pictures_have_an_edge_whatever_their_colours(page: Chrome):
    choose_test_image(page, 7)
    wait_until_done(page)
    edges = page.execute_script(
        "return [...document.querySelectorAll('#pad, #preview, #copies img')]"
        ".map((picture) => getComputedStyle(picture).boxShadow)"
    )
    assert len(edges) == 10
    assert all(edge.endswith("0px 0px 0px 1px") for edge in edges)


def test_stopping_keeps_what_is_certified_by_then(page: Chrome, site: Site):
    slide_to(page, "n", Keys.END)
    site.brake.hold_after(30)
    choose_test_image(page, 7)
    wait(page, lambda: int(text(page, "draws").replace(",", "")) > 1_000)
    page.find_element(By.ID, "stop").click()
    wait(page, lambda: isinstance(site.orders[-1], int))
    site.brake.release()
    summary = wait_until_done(page)
    draws = int(text(page, "draws").replace(",", ""))
    assert summary.startswith(f"Stopped after {draws:,} samples.")
    assert sum(counts(page)) == draws < 100_000
    assert float(text(page, "radius")) > 0


def test_an_upload_is_certified_and_a_bad_one_is_explained(page: Chrome, tmp_path: Path):
    page.find_element(By.CSS_SELECTOR, "[name=source][value=upload]").send_keys(Keys.SPACE)
    (tmp_path / "bad.png").write_bytes(b"no image")
    page.find_element(By.ID, "file").send_keys(str(tmp_path / "bad.png"))
    wait(page, lambda: page.find_element(By.ID, "problem").is_displayed())
    assert "not an image that can be read" in text(page, "problem")
    image = Image.new("L", (90, 120), 255)
    image.paste(0, (40, 20, 50, 100))
    image.save(tmp_path / "one.png")
    page.find_element(By.ID, "file").send_keys(str(tmp_path / "one.png"))
    wait_until_done(page)
    assert not page.find_element(By.ID, "problem").is_displayed()
    assert text(page, "note") == "90 x 120 pixels, inverted, cut to the ink, resized and centred in 8 x 8"


def test_a_refused_image_does_not_leave_the_certificate_of_an_earlier_one(page: Chrome, tmp_path: Path):
    choose_test_image(page, 7)
    wait_until_done(page)
    page.find_element(By.CSS_SELECTOR, "[name=source][value=upload]").send_keys(Keys.SPACE)
    Image.new("L", (8, 8), 255).save(tmp_path / "white.png")
    page.find_element(By.ID, "file").send_keys(str(tmp_path / "white.png"))
    wait(page, lambda: "the image is blank" in text(page, "problem"))
    assert (text(page, "answer"), text(page, "note")) == ("none yet", "nothing yet")
    assert sum(counts(page)) == 0
    assert not page.find_element(By.ID, "again").is_enabled()


def test_clearing_forgets_the_drawing(page: Chrome):
    draw(page)
    wait_until_done(page)
    page.find_element(By.ID, "clear").click()
    assert text(page, "answer") == "none yet"
    assert sum(counts(page)) == 0
    assert not page.find_element(By.ID, "again").is_enabled()
    assert text(page, "note") == "nothing yet"


def test_on_a_phone_the_settings_come_in_short_before_the_certificate(browser: Chrome, address: str):
    on_a_phone(browser)
    browser.get(address)
    settings, result = (browser.find_element(By.CSS_SELECTOR, card) for card in ("#settings", ".result"))
    summary = settings.find_element(By.TAG_NAME, "summary")
    assert not browser.find_element(By.ID, "n").is_displayed()
    assert summary.text.split("\n")[-1] == "smoke, weighted (WE), sigma 0.25, n 10,000"
    summary.send_keys(Keys.ENTER)
    slide_to(browser, "n", Keys.HOME)
    assert settings.rect["y"] + settings.rect["height"] < result.rect["y"]
    summary.send_keys(Keys.ENTER)
    assert summary.text.split("\n")[-1].endswith("n 100")


def test_beside_the_certificate_the_settings_are_open(page: Chrome):
    assert page.find_element(By.ID, "n").is_displayed()
    assert not page.find_element(By.ID, "chosen-settings").is_displayed()


def test_a_second_finger_does_not_draw(page: Chrome):
    on_a_phone(page)
    page.execute_script("document.getElementById('pad').scrollIntoView({ block: 'center' })")
    corner = page.execute_script(
        "const box = document.getElementById('pad').getBoundingClientRect(); return [box.x, box.y]"
    )
    finger, palm = ({"x": corner[0] + at, "y": corner[1] + 40 + at, "id": at} for at in (20, 180))
    for kind, points in (("touchStart", [finger]), ("touchStart", [finger, palm]), ("touchEnd", [])):
        page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    wait_until_done(page)
    drawn = page.execute_script(
        """const pad = document.getElementById("pad");
        const { data } = pad.getContext("2d").getImageData(0, 0, pad.width, pad.height);
        const columns = [...data].flatMap((grey, k) => (k % 4 || !grey ? [] : [(k / 4) % pad.width]));
        return Math.max(...columns)"""
    )
    assert 0 < drawn < 80


def test_on_a_phone_nothing_is_wider_than_the_screen_and_a_finger_draws(page: Chrome):
    on_a_phone(page)
    assert not overflows(page)
    box = page.find_element(By.ID, "pad").rect
    points = [{"x": box["x"] + box["width"] / 2, "y": box["y"] + 40 + 20 * k} for k in range(8)]
    for kind, at in [
        ("touchStart", points[0]),
        *(("touchMove", point) for point in points[1:]),
        ("touchEnd", None),
    ]:
        page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [at] if at else []})
    wait_until_done(page)
    assert not overflows(page)
    assert text(page, "note").startswith("your drawing")


def test_in_the_dark_text_is_light_and_readable(page: Chrome):
    def colours() -> tuple[list[float], list[float]]:
        shown = page.execute_script(
            "const look = getComputedStyle(document.querySelector('.card'));"
            "return [look.color, look.backgroundColor]"
        )
        ink, ground = ([int(part) for part in re.findall(r"\d+", colour)[:3]] for colour in shown)
        return ink, ground

    assert _contrast(*colours()) > 7
    light = colours()
    in_the_dark(page)
    assert _contrast(*colours()) > 7
    assert _luminance(colours()[1]) < 0.05 < _luminance(light[1])


def test_every_control_has_a_name(page: Chrome):
    unnamed = page.execute_script(
        """return [...document.querySelectorAll("input, select, button, canvas, progress, svg")]
          .filter((control) => !(control.labels?.length || control.textContent.trim() || control.ariaLabel))
          .map((control) => control.id)"""
    )
    assert unnamed == []


def test_where_the_server_has_gone_the_page_says_so(page: Chrome, address: str):
    choose_test_image(page, 7)
    wait_until_done(page)
    page.execute_cdp_cmd("Network.enable", {})
    page.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
    )
    try:
        page.find_element(By.ID, "random").click()
        wait(page, lambda: "does not answer" in text(page, "problem"))
    finally:
        page.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
        )


def _luminance(colour: list[float]) -> float:
    parts = [level / 255 for level in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(first: list[float], second: list[float]) -> float:
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)
