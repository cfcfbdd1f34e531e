"""Cells against the facts that their documents and their company's file tag: table, Excel, and what is not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.reporting.export import write_tables
from okralong.pipelines.reporting.matrix import Matrix
from okralong.pipelines.run.question_sources import read_checks
from tests.conftest import index_plain

PAGE = """<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL"><head><title>Lantern 10-K</title></head><body>
<div style="display:none"><ix:header><ix:resources>
<xbrli:context id="y"><xbrli:entity><xbrli:identifier>1</xbrli:identifier></xbrli:entity><xbrli:period>
<xbrli:startDate>2023-01-01</xbrli:startDate><xbrli:endDate>2023-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:unit id="usd"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit>
</ix:resources></ix:header></div>
<p>Revenue was <ix:nonFraction name="us-gaap:Revenues" contextRef="y" unitRef="usd" scale="6" decimals="-6">1,204
</ix:nonFraction> million dollars, and net income <ix:nonFraction name="us-gaap:NetIncomeLoss" contextRef="y"
unitRef="usd" scale="6" decimals="-6">88</ix:nonFraction>.</p></body></html>"""
COLUMNS = """
columns:
  - {name: Revenue, question: "Revenue?", answer_type: money}
  - {name: net income, question: "Income?", answer_type: money}
  - {name: assets, question: "Assets?", answer_type: money}
company_facts: facts
"""
REVENUE = {
    "us-gaap": {"Assets": {"units": {"USD": [{"end": "2022-12-31", "val": 5000, "accn": "x-1", "form": "10-K"}]}}}
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    folder = tmp_path_factory.mktemp("tagged")
    (folder / "reports").mkdir()
    (folder / "reports" / "lantern.htm").write_text(PAGE, encoding="utf-8")
    for doc_id in ("works", "mill"):
        (folder / "reports" / f"{doc_id}.txt").write_text("The works sell lamps.", encoding="utf-8")
    (folder / "about.csv").write_text("doc_id,cik\nworks,7\nmill,8\n", encoding="utf-8")
    index_plain(folder / "archive", folder / "reports", metadata=str(folder / "about.csv"))
    return Archive.open(folder / "archive")


def cell(doc_id: str, column: str, number: int, period: str) -> dict[str, Any]:
    row = dict.fromkeys(("title", "confidence", "error", "link", "section", "quote", "unit", "scale"))
    row |= {"query_id": f"{column}@{doc_id}", "asked_id": column, "scope": doc_id, "doc_id": doc_id}
    row |= {"question": column, "status": "answered", "answer_type": "money", "value": str(number), "answer": ""}
    return row | {"number": float(number), "currency": "USD", "period": period}


def test_cells_agree_differ_or_have_no_fact_and_keep_their_values(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "columns.yaml").write_text(COLUMNS, encoding="utf-8")
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "CIK0000000007.json").write_text(json.dumps({"entityName": "Works", "facts": REVENUE}))
    (tmp_path / "facts" / "CIK0000000008.json").write_text("<html>Forbidden")
    rules = read_checks(str(tmp_path / "columns.yaml"))
    assert rules is not None
    cells = [
        cell("lantern", "Revenue", 1_204_000_000, "2023"),
        cell("lantern", "net income", 88_000, "2023"),
        cell("lantern", "assets", 1, "2023"),
        cell("works", "assets", 5000, "2022"),
        cell("mill", "assets", 5000, "2022"),
    ]
    made = Matrix.of(cells, ["Revenue", "net income", "assets"])
    assert made is not None
    checked = made.checked(rules, archive)
    results = {(each.doc_id, each.column): each.result for each in checked.tagged}
    assert results == {
        ("lantern", "Revenue"): "agrees",
        ("lantern", "net income"): "differs",
        ("lantern", "assets"): "no fact",
        ("works", "assets"): "agrees",
    }, "nothing is known of the mill"
    (failure,) = checked.failures
    assert failure.rule == "net income tagged us-gaap:NetIncomeLoss"
    assert failure.says == (
        "88,000 USD (lantern), where 88,000,000 USD (2023-01-01 to 2023-12-31) is tagged; tagged in lantern"
    )
    (note,) = checked.notes
    assert note.startswith(f"{tmp_path}/facts/CIK0000000008.json is not used: it is no JSON")
    assert list(checked.table().column("net income").to_pylist()) == [88_000.0, None, None]
    (tmp_path / "facts").rename(tmp_path / "elsewhere")
    assert made.checked(rules, archive).notes == [
        f"There is no folder {tmp_path}/facts with company facts. Correct company_facts."
    ]

    tables = {"matrix": checked.table(), "tagged_facts": checked.tagged_table()}
    write_tables(tables, str(tmp_path / "table.xlsx"), "xlsx", checked)
    book = openpyxl.load_workbook(tmp_path / "table.xlsx")
    rows = [[each.value for each in row[:5]] for row in book["tagged_facts"].iter_rows(min_row=2)]
    assert ["works", "assets", "agrees", "5,000 USD", "5,000 USD (2022-12-31)"] in rows
    assert "agrees with us-gaap:Revenues, tagged in lantern" in book["matrix"]["C2"].comment.text
    assert book["matrix"]["D2"].comment.text.startswith("check failed: net income tagged us-gaap:NetIncomeLoss: 88,000")
    assert book["matrix"]["D2"].value == 88_000


def test_a_rule_of_the_file_replaces_the_shipped_concepts(tmp_path: Path) -> None:
    own = "checks: ['revenue tagged us-gaap:InterestAndDividendIncomeOperating']\n"
    (tmp_path / "columns.yaml").write_text(COLUMNS + own, encoding="utf-8")
    rules = read_checks(str(tmp_path / "columns.yaml"), beside="s3://bucket/night/columns.yaml")
    assert rules is not None
    tagged = [rule for rule in rules if " tagged " in rule]
    assert tagged[0] == "revenue tagged us-gaap:InterestAndDividendIncomeOperating in 's3://bucket/night/facts' by cik"
    (tmp_path / "columns.yaml").write_text(
        COLUMNS + "checks: [\"revenue tagged us-gaap:X in 'other' by id\"]\n", encoding="utf-8"
    )
    (first, *_) = read_checks(str(tmp_path / "columns.yaml")) or ()
    assert first == f"revenue tagged us-gaap:X in '{tmp_path}/other' by id", "relative to the file, too"
    assert [rule.partition(" tagged ")[0] for rule in tagged[1:]] == ["assets", "'net income'"]
