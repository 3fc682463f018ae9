"""A real browser: Debian's chromium, headless.

Where there is none the tests say so and are skipped, unless SHIELDWALL_BROWSER=required: `.ci/run` sets it.
"""

import os
import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",
    "--window-size=1200,900",
)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """The browser of a test process, started once."""
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if None in programs:
        message = "no browser was found: Debian's packages are chromium and chromium-driver"
        if os.environ.get("SHIELDWALL_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    options = Options()
    options.binary_location = programs[0]
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(programs[1]))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """The browser on an empty page of the usual size, its logs empty; reset after the test."""
    _reset(chromium)
    yield chromium
    _reset(chromium)


def _reset(driver: webdriver.Chrome) -> None:
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get_log("performance")
