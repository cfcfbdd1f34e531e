"""Ten thousand questions: what the browser holds does not grow with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from okralong.pipelines.reporting.page import Report, render
from okralong.pipelines.reporting.rows import Row

if TYPE_CHECKING:
    from selenium import webdriver

pytest.importorskip("selenium", reason="Selenium is not installed, so no page is opened")

DETAIL = (
    '{"scope":[],"answer":"A%d","error":"","golds":[],"context":1,"context_tokens":9,"calls":1,"prompt_tokens":9,'
    '"completion_tokens":9,"analysis":null,"plan":null,"seconds":[["total",1.5]],"steps":[],"sources":'
    '[["works",0,9,true,[["before ",0],["evidence %d",1],["%s",0]],'
    '{"file":"","section":"","link":"","marks":[]}]]}'
)


def write_page(file: Path, questions: int) -> Path:
    rows = [
        Row(
            f"q{n:05d}",
            f"Question {n}?",
            "answered",
            f"A{n}",
            workflow="linear",
            measures={"f1": n % 2, "weighted_tokens": float(n * 7919 % questions)},
        )
        for n in range(questions)
    ]
    details = [DETAIL % (n, n, "words " * 200) for n in range(questions)]
    empty = {"parts": [], "bars": []}
    file.write_bytes(render(Report("run", "Run", [], [], [], [], empty, empty, [], rows, details)))
    return file


def test_only_one_page_of_rows_is_in_the_document(browser: webdriver.Chrome, tmp_path: Path) -> None:
    from tests.reporting.browser import Page

    small = Page(browser, write_page(tmp_path / "small.html", 60))
    elements = small.count("body *")
    large = Page(browser, write_page(tmp_path / "large.html", 10_000))
    assert large.texts("#found") == ["1–50 of 10,000"]  # noqa: RUF001
    # One script element for each 64 details, and else what the small page has.
    assert large.count("body *") <= elements + 10_000 // 64 + 1
    large.click('th[data-key="weighted_tokens"] button')
    large.click('th[data-key="weighted_tokens"] button')
    assert large.texts('td[data-label="Tokens"]')[0] == "9,999"
    assert large.count("table.list tbody tr") == 50
    large.run(
        "const box = document.getElementById('search'); box.value = 'q09999'; box.dispatchEvent(new Event('input'))"
    )
    large.open(0)
    assert large.texts("#detail mark.cited")[-1] == "evidence 9999"
    assert large.complaints() == []
