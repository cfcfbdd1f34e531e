"""Words of documents, models and users stay words, wherever they come to stand on the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from okralong.jobs import report
from tests.reporting import made_run

if TYPE_CHECKING:
    from selenium import webdriver

    from tests.reporting.browser import Page

pytest.importorskip("selenium", reason="Selenium is not installed, so no page is opened")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    long_line = made_run.HOSTILE + "x" * 300_000 + made_run.HOSTILE
    archive = made_run.write_archive(folder / "archive", made_run.texts(long_line))
    made_run.write_run(folder / "run", archive, 12, words=made_run.HOSTILE)
    golds = made_run.write_golds(folder / "questions.jsonl", 12, words=made_run.HOSTILE)
    report.write_report(str(folder / "run"), out=str(folder / "report.html"), questions=str(golds))
    return folder / "report.html"


@pytest.fixture
def page(browser: webdriver.Chrome, file: Path) -> Page:
    from tests.reporting.browser import Page

    return Page(browser, file)


def test_nothing_of_it_runs_loads_or_becomes_an_element(page: Page) -> None:
    scripts = page.count("script")
    for at in range(8):
        page.open(at)
        page.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert page.run("return window.owned === undefined && document.title.startsWith('Run ')")
    assert page.count("img, iframe, object, embed, form, link, base, svg[onload], [onerror], [style*=display]") == 0
    assert page.count("script") == scripts
    assert page.count("style") == 1
    assert all(
        href.startswith("#") for href in page.run("return [...document.links].map((a) => a.getAttribute('href'))")
    )
    assert page.complaints() == []
    assert page.requests() == []


def test_it_is_shown_as_the_words_that_it_is(page: Page) -> None:
    assert '<img src=x onerror="window.owned=2">' in page.texts(".list .words")[0]
    page.open(0)
    shown = page.run("return document.getElementById('detail').textContent")
    assert "</script><script>window.owned=1" in shown
    assert "javascript:window.owned=4" in shown


def test_directions_and_huge_lines_end_with_their_box(page: Page) -> None:
    page.open(0)
    everything = page.run("return document.documentElement.textContent")
    assert not set(everything) & set("\u202e\u2066\u2069\x1b\x00")
    assert page.run("return document.getElementById('detail').textContent.length") < 40_000
    sizes = page.run("const box = document.querySelector('#detail .body'); return [box.scrollWidth, box.clientWidth]")
    assert sizes[0] <= sizes[1]
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")


def test_the_policy_stops_what_would_get_that_far(page: Page) -> None:
    refused = "try { document.body.innerHTML = '<b>x</b>'; return 'taken' } catch (error) { return error.name }"
    assert page.run(refused) == "TypeError"
    page.run(
        "const button = document.createElement('button'); document.body.append(button);"
        "try { button.setAttribute('onclick', 'window.owned = 5') } catch (error) {} button.click()"
    )
    assert page.run("return window.owned === undefined")
    page.run("const image = new Image(); image.src = 'https://example.org/beacon'; document.body.append(image)")
    page.until("true")
    assert any("Content Security Policy" in line for line in page.complaints())
