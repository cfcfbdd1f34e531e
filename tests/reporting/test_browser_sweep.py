"""A sweep's report in a real browser, with hostile words in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from okralong.jobs import report
from tests.reporting import made_run
from tests.reporting.made_sweep import write_sweep

if TYPE_CHECKING:
    from selenium import webdriver

    from tests.reporting.browser import Page

pytest.importorskip("selenium", reason="Selenium is not installed, so no page is opened")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_sweep(tmp_path_factory.mktemp("sweep") / "sweep", 20)
    return Path(report.write_report(str(folder))[0])


@pytest.fixture
def page(browser: webdriver.Chrome, file: Path) -> Page:
    from tests.reporting.browser import Page

    return Page(browser, file)


def test_methods_stand_side_by_side_with_the_frontier(page: Page) -> None:
    assert page.count("#scatter svg circle") == 4
    assert page.count("#scatter svg polyline.frontier") == 1
    page.choose("Data set", "beta")
    page.choose("Accuracy", "Exact match")
    page.choose("Cost", "US dollars, alone")
    assert page.count("#scatter svg circle") == 4
    assert page.complaints() == []
    assert page.requests() == []


def test_a_question_leads_to_the_same_question_by_other_methods(page: Page) -> None:
    page.choose("Method", "std_rag")
    page.choose("Set", "beta")
    assert page.texts("#found") == ["1–20 of 20 (of 160 in total)"]  # noqa: RUF001
    page.open(1)
    others = "#detail table.figures button"
    assert page.texts(others) == ["okralong (default)", "okralong (no_tables)", "long_context"]
    page.click(others, 0)
    page.until("document.querySelector('#detail header .said').innerText.includes('okralong (default) · beta')")
    assert page.count("#detail .source mark.cited") > 0
    page.click(others, 2)
    page.until("document.querySelector('#detail header .said').innerText.includes('long_context')")
    assert page.count("#detail .note") == 1  # its run is not there
    assert page.complaints() == []


def test_it_can_be_read_on_a_phone(browser: webdriver.Chrome, file: Path) -> None:
    from tests.reporting.browser import Page

    page = Page(browser, file, width=390, height=844)
    assert page.run("return document.documentElement.scrollWidth") <= 390


def test_hostile_words_stay_words(browser: webdriver.Chrome, tmp_path: Path) -> None:
    from tests.reporting.browser import Page

    folder = write_sweep(tmp_path / "sweep", 5, words=made_run.HOSTILE)
    page = Page(browser, Path(report.write_report(str(folder))[0]))
    for at in range(6):
        page.open(at)
    assert page.run("return window.owned === undefined")
    assert page.count("img, iframe, [onerror], svg[onload]") == 0
    assert page.complaints() == []
    assert page.requests() == []


@pytest.mark.parametrize("width", [320, 390, 600, 760, 900, 1100, 1200])
def test_no_word_or_number_is_broken_at_any_width(browser: webdriver.Chrome, file: Path, width: int) -> None:
    from tests.reporting.browser import Page

    page = Page(browser, file, width=width)
    assert page.broken_words() == []
