"""What a page did, and how to look at it: on a phone, in the dark, without scripts."""

import base64
import json
from pathlib import Path

from selenium.webdriver import Chrome

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


def console_errors(browser: Chrome) -> list[str]:
    """Errors and warnings on the console since this was last asked."""
    return [
        entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
    ]


def requests(browser: Chrome) -> list[str]:
    """The addresses asked for since this was last asked, but for what a page holds itself (data:, blob:)."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in asked if not url.startswith(("data:", "blob:"))]


def on_a_phone(browser: Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)


def in_the_dark(browser: Chrome) -> None:
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})


def without_scripts(browser: Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})


def overflows(browser: Chrome) -> bool:
    """Whether the page is wider than its window, so that a reader must scroll sideways."""
    return bool(
        browser.execute_script(
            "const page = document.documentElement; return page.scrollWidth > page.clientWidth + 1"
        )
    )


def screenshot(browser: Chrome, path: Path) -> Path:
    """The whole page as a PNG, to look at."""
    height = browser.execute_script("return document.documentElement.scrollHeight")
    width = browser.execute_script("return window.innerWidth")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True, "format": "png"}
    )
    path.write_bytes(base64.b64decode(shot["data"]))
    return path
