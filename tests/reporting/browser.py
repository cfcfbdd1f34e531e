"""A headless Chromium that opens a report, and what it saw."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
PATIENCE_S = 60
"""Until a page is drawn, on a machine that is busy."""
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own."""
    assert CHROMIUM is not None
    assert DRIVER is not None
    profile = tempfile.mkdtemp(prefix="okralong-chromium-")
    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)


_BROKEN_WORDS = r"""
document.querySelectorAll("details").forEach((each) => { each.open = true; });
const found = [];
const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
  if (node.parentElement.closest("script, style, option, pre")) continue;
  for (const match of node.data.matchAll(/[\p{L}\p{N}.,$]{1,25}(?![\p{L}\p{N}])/gu)) {
    const range = document.createRange();
    range.setStart(node, match.index);
    range.setEnd(node, match.index + match[0].length);
    const lines = [...range.getClientRects()].filter((box) => box.width > 0.5).map((box) => Math.round(box.top));
    if (new Set(lines).size > 1) found.push(match[0]);
  }
}
return found;
"""


class Page:
    """A report in the browser, opened at a width of ``width`` pixels."""

    def __init__(self, driver: webdriver.Chrome, file: Path, width: int = 1200, height: int = 900) -> None:
        self.driver = driver
        for log in ("browser", "performance"):
            driver.get_log(log)
        mobile = width < 500
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get("about:blank")
        driver.get(file.resolve().as_uri())
        self.until("document.documentElement.dataset.ready === 'yes'")

    def run(self, script: str, *given: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *given)

    def until(self, condition: str) -> None:
        """Wait until a condition in JavaScript holds."""
        WebDriverWait(self.driver, PATIENCE_S, 0.1).until(lambda _: self.run(f"return ({condition})"))

    def texts(self, selector: str) -> list[str]:
        """The texts of the elements."""
        found = self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)", selector)
        return [str(text) for text in found]

    def count(self, selector: str) -> int:
        """How many elements there are."""
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def click(self, selector: str, at: int = 0) -> None:
        """Click the ``at``-th of the elements."""
        self.run("document.querySelectorAll(arguments[0])[arguments[1]].click()", selector, at)

    def choose(self, label: str, words: str) -> None:
        """Choose the option with these words in the list with this label."""
        self.run(
            "const list = [...document.querySelectorAll('select')].find((s) => s.ariaLabel === arguments[0]);"
            "list.value = [...list.options].find((o) => o.text === arguments[1]).value;"
            "list.dispatchEvent(new Event('change'))",
            label,
            words,
        )

    def open(self, at: int) -> None:
        """Open the ``at``-th question of the table as it stands."""
        self.click(".list .open", at)
        self.until("document.getElementById('detail').open")

    def broken_words(self) -> list[str]:
        """The words and numbers, of those that a line can hold, that a line break divides."""
        return [str(word) for word in self.run(_BROKEN_WORDS)]

    def complaints(self) -> list[str]:
        """What the browser's console said."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that the page asked for, itself left out."""
        sent = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [event["params"]["request"]["url"] for event in sent if event["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if url != self.driver.current_url.partition("#")[0]]
