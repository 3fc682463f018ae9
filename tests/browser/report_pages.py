"""Pages of the HTML report to look at: four runs of digits, two methods at two sigmas, three votes each."""

import json
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from shieldwall import recipes
from shieldwall.cli.report import thumbnails
from shieldwall.data import datasets
from shieldwall.report.page.build import report_page
from shieldwall.results.record import read_runs
from shieldwall.results.rows import rows_of

METHODS, SIGMAS, VOTES = ("gaussian", "drt"), ("0.25", "0.5"), ("member-1", "we", "mme")
INPUTS, N = 40, 1000
COLUMNS = "idx label predict radius correct time counts n0 n alpha bound noise norm precision seed vote"
LABELS = datasets.load("digits").test.labels[:INPUTS].tolist()
ROWS = "#table tr[data-curve]"

Answers = list[tuple[int, int, float]]
"""Label, prediction and radius of each input."""


def answers(method: int, sigma: float, vote: int) -> Answers:
    """Some wrong, some abstained, the others certified at radii that are all different."""
    found = []
    for k, label in enumerate(LABELS):
        radius = sigma * (0.05 + 0.013 * ((17 * k + 5 * vote) % INPUTS) * (5 + method) + 0.001 * vote)
        if k % 9 == 4:
            found.append((label, (label + 1) % 10, radius / 3))
        else:
            found.append((label, label, radius) if k % 13 != 5 else (label, -1, 0.0))
    return found


def write_run(folder: Path, name: str, method: int, sigma: str, called: str | None = None) -> Path:
    (folder / "certificates").mkdir(parents=True)
    recipe = recipes.get(name).to_yaml()
    shown = recipe if called is None else recipe.replace(f"name: {name}\n", f"name: {json.dumps(called)}\n")
    (folder / "recipe.yaml").write_text(shown)
    epochs = [
        {"epoch": k, "lr": 0.1, "loss": 3 / k, "gd": 0.5 / k, "accuracy": 1 - 0.5 / k, "seconds": 1.0}
        for k in range(1, 9)
    ]
    (folder / "training.jsonl").write_text("".join(json.dumps(one) + "\n" for one in epochs))
    stage = {"commit": "0123456789abcdef", "device": "a cpu"}
    (folder / "environment.json").write_text(json.dumps({"train": stage, "certify": stage}))
    for vote, spoken in enumerate(VOTES):
        lines = [COLUMNS.split()]
        for k, (label, predict, radius) in enumerate(answers(method, float(sigma), vote)):
            counts = [0] * 10
            counts[label], counts[(label + 1) % 10] = N - k, k
            lines.append(
                [str(k), str(label), str(predict), repr(radius), str(int(label == predict)), "0:00:00.5",
                 ",".join(map(str, counts)), "100", str(N), "0.001", "one-sided", f"gaussian({sigma})", "l2",
                 "float32", "7", spoken]
            )  # fmt: skip
        text = "".join("\t".join(line) + "\n" for line in lines)
        (folder / "certificates" / f"{spoken}.tsv").write_text(text)
    return folder


def write_four_runs(home: Path) -> Path:
    """The page of all four."""
    runs = [
        write_run(home / f"{name}-{sigma}", f"digits-{name}-{sigma}", method, sigma)
        for method, name in enumerate(METHODS)
        for sigma in SIGMAS
    ]
    return write_page(runs, home / "page.html")


def write_page(runs: list[Path], page: Path) -> Path:
    rows = rows_of(read_runs(runs), average_seeds=False)
    page.write_text(report_page(rows, thumbnails=thumbnails(None)), encoding="utf-8")
    return page


def percent(r: float, method: int, sigma: str, vote: int) -> float:
    found = answers(method, float(sigma), vote)
    return 100 * sum(label == predict and radius >= r for label, predict, radius in found) / len(found)


SHOW_ALL = "for (const input of document.querySelectorAll('.toggles input:not(:checked)')) input.click()"


def open_page(browser: Chrome, page: Path, *, as_it_opens: bool = False) -> None:
    """Open a page, and show every vote."""
    browser.get(page.as_uri())
    WebDriverWait(browser, 20).until(
        lambda seen: seen.execute_script("return document.documentElement.dataset.ready === 'yes'")
    )
    if not as_it_opens:
        browser.execute_script(SHOW_ALL)


def lines(browser: Chrome) -> int:
    return len(browser.find_elements(By.CSS_SELECTOR, "#chart .line:not([hidden])"))


def seen_rows(browser: Chrome) -> list[str]:
    """The titles of the rows in view of the two tables of certified accuracy."""
    rows = browser.find_elements(By.CSS_SELECTOR, ROWS)
    return [row.find_element(By.TAG_NAME, "th").text for row in rows if row.is_displayed()]


def toggle(browser: Chrome, name: str, value: int) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, f".toggles input[name={name}][value='{value}']")


def drawn(browser: Chrome, count: int) -> None:
    WebDriverWait(browser, 10).until(lambda seen: lines(seen) == count)


def tip(browser: Chrome) -> list[str]:
    """What is told of the point nearest to the pointer: its curve or run, and its coordinates."""
    shown = WebDriverWait(browser, 5).until(
        lambda seen: seen.find_element(By.CSS_SELECTOR, "#tip:not([hidden])")
    )
    return [fact.text for fact in shown.find_elements(By.TAG_NAME, "dd")]
