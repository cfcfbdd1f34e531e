"""The history of a nightly, of three real nights: its figures, its links, and how it looks at two widths."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.jobs.nightly import run_nightly
from okralong.jobs.report import write_report
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.reporting.history import History
from okralong.pipelines.run.nightly import Night
from tests.fakes.openai_server import FakeOpenAI, Messages
from tests.jobs.conftest import PAPER, endpoint

pytestmark = pytest.mark.slow

REPORT = """{name} annual report

Consolidated statements of income (in thousands of U.S. dollars)

| | 2023 |
| Revenue | $ {revenue} |
| Costs | $ 300,000 |
| Profit | $ 167,460 |

The auditor is {auditor}.
"""
COLUMNS = """
columns:
  - {name: revenue, question: "What was the revenue of the year?", answer_type: money}
  - {name: costs, question: "What were the costs of the year?", answer_type: money}
  - {name: profit, question: "What was the profit of the year?", answer_type: money}
  - {name: auditor, question: "Who is the auditor <b>now</b>?"}
checks:
  - profit = revenue - costs
"""
COMPANIES = ("alder", "lantern")


def write(folder: Path, **changed: str) -> None:
    """The reports, with some words of Lantern's changed."""
    (folder / "reports").mkdir(exist_ok=True)
    for name in COMPANIES:
        words = {"name": name, "revenue": "467,460", "auditor": "Moss & Co"}
        text = REPORT.format(**(words | changed if name == "lantern" else words))
        (folder / "reports" / f"{name}.txt").write_text(text, encoding="utf-8")


def reads(messages: Messages) -> str:
    """The value of the row that the question is about."""
    passages, _, asked = messages[-1]["content"].rpartition("\n\nQuestion: ")
    label = next((each for each in ("revenue", "costs", "profit") if each in asked), "")
    if label:
        found = re.search(rf"{label.capitalize()} ?\| ?(\$ [\d,()]+)", passages)
        assert found is not None
        quoted = {"passage": 1, "quote": found[0]}
        return json.dumps({"evidence": [quoted], "value": found[1], "period": "2023"})
    found = re.search(r"The auditor is ([\w& ]+)", passages)
    assert found is not None
    return f'Evidence: [1] "{found[0]}"\nAnswer: {found[1]}'


@pytest.fixture
def nightly(tmp_path: Path, reader: FakeOpenAI, ray_cluster: None) -> Path:
    """Night 2 changes a document, so that a check fails; night 3 swaps the model."""
    write(tmp_path)
    (tmp_path / "columns.yaml").write_text(COLUMNS, encoding="utf-8")
    answer: dict[str, Any] = {"policy": PAPER, "confidence": "none"}
    for dotted, value in endpoint(reader).items():
        below, _, key = dotted.partition(".")
        answer.setdefault(below, {})[key] = value
    config = {"folder": "nightly", "archive": "archive", "sources": ["reports"], "questions": "columns.yaml"}
    config |= {"index": {"embedding": {"of": "none"}, "shards": 1}, "answer": answer, "keep": {"nights": 2}}
    file = tmp_path / "nightly.yaml"
    file.write_text(yaml.safe_dump(config))
    reader.rules = [(lambda messages: True, reads)]
    run_nightly(file)
    write(tmp_path, revenue="467,460,000")
    run_nightly(file)
    reader.models = ["gpt-5"]
    reader.rules = [
        (
            lambda messages: "auditor <b>" in messages[-1]["content"] and "alder" in messages[-1]["content"],
            'Evidence: [1] "Moss"\nAnswer: Moss',
        ),
        *reader.rules,
    ]
    answer["llm"]["model"] = "gpt-5"
    file.write_text(yaml.safe_dump(config))
    run_nightly(file)
    return tmp_path / "nightly"


def test_it_tells_value_change_cause_check_and_cost_of_the_nights_that_are_kept(nightly: Path, tmp_path: Path) -> None:
    CliRunner().invoke(app, ["corrections", str(nightly), "--cell", "costs@alder", "--value", "301 million USD"])
    (written,) = write_report(str(nightly))
    assert written == str(nightly / "history.html")
    history = History.of(Folder.of(nightly))
    assert [each.night.name.partition(".")[2] for each in history.kept] == ["2", "3"], "the first is not kept"
    assert all(each.usd > 0 for each in history.kept)
    found = {each.row["query_id"]: each for each in history.questions}
    revenue = found["revenue@lantern"]
    assert [point.night.partition(".")[2] for point in revenue.points] == ["", "2", "3"]
    assert [point.number for point in revenue.points] == [467_460_000, *[467_460_000_000] * 2]
    assert [point.changed for point in revenue.points] == [False, True, False]
    assert revenue.last is not None
    assert (revenue.last["cause"], revenue.last["because"]) == ("document", "the text of lantern changed")
    assert any("profit = revenue - costs" in each for each in revenue.failed_checks)
    auditor = found["auditor@alder"]
    assert auditor.last is not None
    assert (auditor.last["cause"], auditor.last["because"]) == ("model", "model: gpt-4o-2024-08-06 → gpt-5")
    assert found["costs@alder"].last is None
    assert [each.row["query_id"] for each in history.questions[:2]] == ["revenue@lantern", "costs@lantern"]

    page = (nightly / "history.html").read_text(encoding="utf-8")
    assert "corrected to 301 million USD by" in page
    assert "<script" not in page
    assert "<b>now" not in page
    assert f'href="nights/{revenue.last_night}/differences.html#q-revenue%40lantern"' in page
    (elsewhere,) = write_report(str(nightly), out=str(tmp_path / "page.html"))
    assert f'href="{nightly.as_uri()}/nights/' in Path(elsewhere).read_text(encoding="utf-8")

    verdict = {"asked": 10, "right": 4, "model": "gpt-<b>5", "usd": 0.25, "wrong": ["c7"], "min_right": 0.9}
    stopped = Night("2126-11-29", "done", notes={"canaries": verdict | {"outcome": "stopped"}})
    stopped.write(Folder.of(nightly).at("nights", stopped.name))
    write_report(str(nightly))
    page = (nightly / "history.html").read_text(encoding="utf-8")
    assert (
        "Night 2126-11-29: 4 of 10 right, answered by gpt-&lt;b&gt;5; at least 90% are needed (dashed). Wrong: c7."
        in page
    )
    assert "<td>2126-11-29</td>" in page, "it has no differences to link to"
    assert "stopped by the canaries" in page
    assert "$0.2500" in page
    (tmp_path / "empty" / "current").mkdir(parents=True)
    with pytest.raises(InputError, match="has no night yet"):
        write_report(str(tmp_path / "empty"))
    looked_at(nightly / "history.html")


def looked_at(file: Path) -> None:
    """It asks for nothing, and nothing sticks out, at 390 and at 1,280 pixels."""
    selenium = pytest.importorskip("selenium", reason="Selenium is not installed, so no page is opened")
    assert selenium
    from tests.reporting.browser import CHROMIUM, DRIVER, chromium

    if not (CHROMIUM and DRIVER):
        pytest.skip("there is no chromium with chromedriver here, so no page is opened")
    with chromium() as driver:
        for width in (390, 1280):
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            driver.get(file.as_uri())
            wide = driver.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, "the page scrolls sideways"
            assert driver.execute_script("return document.querySelectorAll('.questions svg.spark').length") == 8
            assert driver.get_log("browser") == []
            if place := os.environ.get("OKRALONG_PICTURES"):
                driver.save_screenshot(f"{place}/history-{width}.png")
