"""Documents that a question names: umlauts, and names in scripts without blanks."""

from __future__ import annotations

import pytest

from okralong.pipelines.archive.names import Called, DocumentNames

NAMES = DocumentNames(
    {
        "bank": Called(companies=("三菱",), file="bank"),
        "distillery": Called(companies=("五粮液集团有限公司",), file="distillery"),
        "electronics": Called(companies=("삼성전자주식회사",), file="electronics"),
        "mills": Called(companies=("Müller Mühlen AG",), file="mills"),
        "motors": Called(companies=("トヨタ自動車株式会社",), file="motors"),
        "report": Called(file="比亚迪2023年年度报告.pdf"),
        "trade": Called(companies=("三菱商事株式会社",), file="trade"),
    }
)


@pytest.mark.parametrize(
    ("question", "documents"),
    [
        ("五粮液2023年的营业收入是多少？", {"distillery"}),
        ("トヨタ自動車の売上高は？", {"motors"}),
        ("三菱商事と五粮液集团の比較", {"trade", "distillery"}),
        ("삼성전자의 매출은?", {"electronics"}),
        ("比亚迪的净利润", {"report"}),
        ("Wie hoch war der Umsatz der Mueller Muehlen AG?", {"mills"}),
        ("Wie hoch war der Umsatz der Muller Muhlen AG?", {"mills"}),
        ("董事长是谁？", set()),
    ],
)
def test_names(question: str, documents: set[str]) -> None:
    assert set(NAMES.named(question)) == documents
