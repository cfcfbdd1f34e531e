"""A run's report in a real browser: nothing is asked for, nothing fails, and a reader finds what is there."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from okralong.jobs import report

if TYPE_CHECKING:
    from selenium import webdriver

    from tests.reporting.browser import Page

pytest.importorskip("selenium", reason="Selenium is not installed, so no page is opened")
from selenium.webdriver.support.ui import WebDriverWait


@pytest.fixture(scope="module")
def file(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "report.html"
    report.write_report(str(made / "run"), out=str(out), questions=str(made / "questions.jsonl"))
    return out


@pytest.fixture
def page(browser: webdriver.Chrome, file: Path) -> Page:
    from tests.reporting.browser import Page

    return Page(browser, file)


def test_it_opens_without_a_complaint_and_asks_for_nothing(page: Page) -> None:
    for at in range(3):
        page.open(at)
    page.click("#close")
    page.click("#theme")
    assert page.complaints() == []
    assert page.requests() == []


def test_it_shows_pictures_tables_and_the_first_page_of_questions(page: Page) -> None:
    assert page.count("#scatter svg circle") == 6  # all questions and five types
    assert page.count("#latency svg rect") > 0
    assert page.count("#mix svg rect") > 0
    assert page.count("table.confusion td") == 25
    assert page.count("table.list tbody tr") == 50
    assert page.texts("#found") == ["1–50 of 130"]  # noqa: RUF001


def test_columns_sort_both_ways_and_pages_turn(page: Page) -> None:
    page.click('th[data-key="weighted_tokens"] button')
    rising = [int(text.replace(",", "")) for text in page.texts('td[data-label="Tokens"]')]
    assert rising == sorted(rising)
    page.click('th[data-key="weighted_tokens"] button')
    falling = [int(text.replace(",", "")) for text in page.texts('td[data-label="Tokens"]')]
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > rising[-1]
    assert page.run("return document.querySelector('th[data-key=weighted_tokens]').ariaSort") == "descending"
    page.click("#next")
    page.click("#next")
    assert page.texts("#found") == ["101–130 of 130"]  # noqa: RUF001
    assert page.run("return document.getElementById('next').disabled")


def test_lists_and_search_filter(page: Page) -> None:
    page.choose("Status", "failed")
    failed = page.texts("#found")[0]
    assert failed.endswith("of 18 (of 130 in total)")
    assert set(page.texts(".list td .tag")) == {"failed"}
    page.choose("Status", "all")
    page.choose("Type", "arithmetic")
    assert set(page.texts('td[data-label="Type"]')) == {"arithmetic"}
    page.choose("Type", "all")
    page.run(
        "const box = document.getElementById('search'); box.value = 'WORKS 12 sales'; "
        "box.dispatchEvent(new Event('input'))"
    )
    assert page.texts("#found") == ["1–12 of 12 (of 130 in total)"]  # noqa: RUF001
    page.choose("F1", "below 0.5")
    assert all(float(text) < 0.5 for text in page.texts('.list td[data-label="F1"]'))


def test_questions_stand_above_the_figures_failures_first(page: Page) -> None:
    assert [tag for tag in page.texts(".list td .tag") if tag != "failed"] == []
    assert page.count(".list td .tag.failed") == 18
    assert page.texts(".list .id")[:2] == ["q00006", "q00013"]
    assert page.texts(".list .id")[18:20] == ["q00000", "q00001"]
    cards = page.run("return [...document.querySelectorAll('main section')].map((s) => s.id).filter(Boolean)")
    assert cards[0] == "questions"
    assert {"cost", "latency", "tables"} <= set(cards[1:])
    page.choose("Sort by", "as asked")
    assert page.texts(".list .id")[:2] == ["q00000", "q00001"]


def test_a_question_opens_with_its_evidence_marked_in_place(page: Page) -> None:
    page.open(18)
    assert page.texts("#detail-title") == ["What were the sales of works 0 in 2019?"]
    # The gold figure stands within the cited sentence, so the sentence comes in three marks.
    assert "".join(page.texts("#detail .source mark.cited")) == (
        "Sales of the Lantern works rose to 1,544 thousand crowns in 2019"
    )
    assert page.texts("#detail .source mark.gold") == ["1,544"]
    assert "nobody was surprised" in page.texts("#detail .source .block")[0]
    assert page.texts("#detail .reasons li") == ["question is abstractive"]
    assert page.count("#detail details.step") == 3
    page.click('#detail button[aria-label="Next question"]')
    page.until("document.getElementById('detail-title').innerText.includes('works 1 ')")
    assert page.run("return location.hash") == "#q00001"
    page.click("#close")
    assert not page.run("return document.getElementById('detail').open")


def test_an_address_leads_to_a_question(page: Page, file: Path) -> None:
    page.driver.get("about:blank")
    page.driver.get(f"{file.resolve().as_uri()}#q00100")
    page.until("document.getElementById('detail').open")
    assert page.texts("#detail-title") == ["What were the sales of works 100 in 2019?"]
    page.run("location.hash = 'q00007'")  # as if a reader had typed it
    page.until("document.getElementById('detail-title').innerText.includes('works 7 ')")
    page.driver.get("about:blank")
    page.driver.get(f"{file.resolve().as_uri()}#q=100")  # rows, as in reports of earlier releases
    page.until("document.getElementById('detail').open")
    page.driver.get("about:blank")
    page.driver.get(f"{file.resolve().as_uri()}#q=9999")
    page.until("document.documentElement.dataset.ready === 'yes'")
    assert not page.run("return document.getElementById('detail').open")
    assert page.complaints() == []


def test_the_chosen_questions_are_saved_as_a_table(page: Page, tmp_path: Path) -> None:
    allow = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", allow)
    page.choose("Type", "arithmetic")
    page.click("#save")
    WebDriverWait(page.driver, 60, 0.1).until(lambda _: list(tmp_path.glob("*.csv")))
    [saved] = tmp_path.glob("*.csv")
    with saved.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 26
    assert {row["type"] for row in rows} == {"arithmetic"}
    answered = [row for row in rows if row["status"] == "answered"]
    assert {row["answer"] for row in answered} == {"1,544 thousand crowns", "no idea"}
    assert answered[0]["sources"] == f"works-{int(answered[0]['query_id'][1:]) % 4}"
    assert float(answered[0]["weighted_tokens"]) > 0
    assert page.complaints() == []


def test_it_can_be_read_on_a_phone(browser: webdriver.Chrome, file: Path) -> None:
    from tests.reporting.browser import Page

    page = Page(browser, file, width=390, height=844)
    assert page.run("return document.documentElement.scrollWidth") <= 390
    page.open(2)
    wide = page.run("const box = document.querySelector('#detail .body'); return [box.scrollWidth, box.clientWidth]")
    assert wide[0] <= wide[1]
    assert page.run("return document.getElementById('detail').getBoundingClientRect().width") <= 390
    assert page.complaints() == []


def test_light_and_dark_follow_the_system_and_the_button(browser: webdriver.Chrome, file: Path) -> None:
    from tests.reporting.browser import Page

    def ground(page: Page) -> str:
        return str(page.run("return getComputedStyle(document.body).backgroundColor"))

    seen = {}
    for scheme in ("dark", "light"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        seen[scheme] = ground(Page(browser, file))
    page = Page(browser, file)  # the system is light now
    page.click("#theme")
    page.click("#theme")
    assert page.texts("#theme") == ["Theme: dark"]
    assert ground(page) == seen["dark"] != seen["light"]


@pytest.mark.parametrize("width", [320, 390, 600, 760, 900, 1100, 1200])
def test_no_word_or_number_is_broken_at_any_width(browser: webdriver.Chrome, file: Path, width: int) -> None:
    from tests.reporting.browser import Page

    page = Page(browser, file, width=width)
    assert page.broken_words() == []
    page.open(2)
    assert page.broken_words() == []
