"""The matrix of a run's report in a real browser: filtered, coloured by confidence, and from a cell to its source."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from okralong.jobs import report
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.corrections import Entry, append_entries
from tests.reporting import made_run

if TYPE_CHECKING:
    from selenium import webdriver

    from tests.reporting.browser import Page

pytest.importorskip("selenium", reason="Selenium is not installed, so no page is opened")


@pytest.fixture(scope="module")
def file(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matrix")
    run = made_run.write_matrix(folder / "run", made / "archive")
    place, now = Folder.of(run), datetime.now(UTC)
    append_entries(place, [Entry("chair@works-2", "corrected", now, "Ada", "Ida Moss", "Ida R. Moss", "in full")])
    report.write_report(str(run), out=str(folder / "report.html"))
    return folder / "report.html"


@pytest.fixture
def page(browser: webdriver.Chrome, file: Path) -> Page:
    from tests.reporting.browser import Page

    return Page(browser, file)


def documents(page: Page) -> list[str]:
    return page.texts(".matrix tbody th .said")


def search(page: Page, words: str) -> None:
    page.run(
        "const box = document.getElementById('matrix-search'); box.value = arguments[0];"
        "box.dispatchEvent(new Event('input'))",
        words,
    )


def test_it_has_a_row_a_document_and_is_coloured_by_confidence(page: Page) -> None:
    assert documents(page) == list(made_run.MATRIX)
    assert page.texts(".matrix thead button") == ["Document", "chair", "sales"]
    kinds = page.run("return [...document.querySelectorAll('.matrix td')].map((cell) => cell.className)")
    assert kinds == ["likely", "sure number", "sure", "unsure number", "sure", "invalid_output"]
    colours = page.run(
        "return ['sure', 'likely', 'unsure'].map((kind) => getComputedStyle("
        "document.querySelector('.matrix td.' + kind)).backgroundColor)"
    )
    assert len(set(colours)) == 3
    assert page.texts(".matrix td .words") == ["Ida Moss", "1,544,000 SEK", "Tobias Venn", "998,000 SEK", "Ida Moss"]
    assert page.texts(".matrix td .tag") == ["check failed", "corrected", "invalid_output"]
    assert page.complaints() == []
    assert page.requests() == []


def test_words_and_the_list_filter_documents_and_heads_sort_them(page: Page) -> None:
    search(page, "moss")
    assert documents(page) == ["works-0", "works-2"]
    search(page, "moss 1,544")
    assert documents(page) == ["works-0"]
    search(page, "")
    page.choose("Documents", "with a failed check")
    assert documents(page) == ["works-1"]
    page.choose("Documents", "with a corrected cell")
    assert documents(page) == ["works-2"]
    page.choose("Documents", "with an unanswered cell")
    assert documents(page) == ["works-2"]
    page.choose("Documents", "with an unsure cell")
    assert documents(page) == ["works-0", "works-1"]
    page.choose("Documents", "all")
    page.click(".matrix thead button", 2)
    assert documents(page) == ["works-1", "works-0", "works-2"], "by value, what has none last"
    page.click(".matrix thead button", 2)
    assert documents(page)[:2] == ["works-0", "works-1"]


def test_a_click_leads_from_a_cell_to_its_source(page: Page) -> None:
    page.click(".matrix td .open", 1)
    page.until("document.getElementById('detail').open")
    assert page.run("return decodeURIComponent(location.hash)") == "#sales@works-0"
    assert page.texts("#detail-title") == ["What of sales?"]
    assert "".join(page.texts("#detail .source mark.cited")) == (
        "Sales of the Lantern works rose to 1,544 thousand crowns in 2019"
    )
    page.click('#detail button[aria-label="Next question"]')
    page.until("decodeURIComponent(location.hash) === '#chair@works-1'")
    page.click("#close")
    page.click(".matrix td .open", 4)
    page.until("document.getElementById('detail').open")
    assert page.texts("#detail .correction")[0].startswith("corrected to Ida R. Moss by Ada, ")
    assert page.texts("#detail .answers .block")[0] == "Ida Moss"
    page.click("#close")
    assert page.texts("#questions .tag.corrected") == ["corrected"]
    page.choose("Correction", "corrected")
    assert page.count("#questions tbody tr") == 1
    page.choose("Correction", "all")
    page.click(".matrix td .open", 5)
    page.until("document.getElementById('detail').open")
    assert page.count("#detail .source") == 0
    assert "does not fit the answer_type money" in page.texts("#detail")[0]
    assert page.complaints() == []


@pytest.mark.parametrize("width", [320, 390, 600, 760, 900, 1100, 1200])
def test_no_word_or_number_is_broken_at_any_width(browser: webdriver.Chrome, file: Path, width: int) -> None:
    from tests.reporting.browser import Page

    page = Page(browser, file, width=width)
    assert page.broken_words() == []
