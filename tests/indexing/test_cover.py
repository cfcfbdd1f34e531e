"""What the cover of a report states, and how it is stored."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.archive.cover import COVER_COLUMNS, Cover, read_cover
from okralong.pipelines.archive.metadata import (
    DocumentFacts,
    facts_of_documents,
    metadata_table,
    read_facts,
    write_facts,
)
from okralong.pipelines.archive.versions import DocumentEntry
from okralong.pipelines.core.schemas import DOCUMENTS, METADATA
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Fact

FILING = """UNITED STATES
SECURITIES AND EXCHANGE COMMISSION
FORM {form}
For the {period} ended {end}
OR
For the transition period from ____ to ____
Commission file number 001-0001
{name}
(Exact name of registrant as specified in its charter)
Delaware 12-3456789
Title of each class  Trading Symbol(s)  Name of each exchange on which registered
Common Stock, par value $0.01 per share  {ticker}  New York Stock Exchange
"""


@pytest.mark.parametrize(
    ("text", "title", "cover"),
    [
        (
            FILING.format(
                form="10-K", period="fiscal year", end="December 31, 2022", name="HOLT TOOLS, INC.", ticker="HLT"
            ),
            "0001-23",
            Cover("HOLT TOOLS, INC.", ("HLT",), "10-K", "2022-12-31", 2022),
        ),
        (
            FILING.format(form="10-Q", period="quarterly period", end="March 31, 2023", name="Holt & Co", ticker="HO.B")
            + "the three and six months ended March 31, 2023 and the six months ended March 31, 2022",
            "",
            Cover("Holt & Co", ("HO.B",), "10-Q", "2023-03-31", 2023, 2),
        ),
        (
            FILING.format(
                form="10-K", period="fiscal year", end="January 28, 2023", name="Holt Stores Inc", ticker="HS"
            )
            + "In fiscal 2022 we opened shops. Fiscal 2022 had 52 weeks. Net sales of fiscal 2022 rose. ",
            "",
            Cover("Holt Stores Inc", ("HS",), "10-K", "2023-01-28", 2022),
        ),
        (
            "FORM 8-K\nCURRENT REPORT\nDate of Report (Date of earliest event reported): July 1, 2022\nHOLT PLC\n"
            "(Exact name of registrant as specified in its charter)\n",
            "",
            Cover("HOLT PLC", (), "8-K", "2022-07-01"),
        ),
        (
            "Holt Mining Limited\nABN 12 345\nAnnual Report 30 June 2022\nASX: HMI\n"
            + "Holt Mining Limited dug. Holt Mining Limited sold. The auditor is Brook Audit Ltd.\n",
            "",
            Cover("Holt Mining Limited", ("HMI",), "annual report", "2022-06-30", 2022),
        ),
        ("Why deep nets learn\nAbstract\nWe show a bound that Google Inc. and others asked for.", "", Cover()),
        (  # a sentence about another report is no cover
            "Our statements are forward-looking. See our Annual Report on Form 10-K for the year ended December 31, "
            "2021, which we filed with the commission, and the risks that it names in its first part.",
            "",
            Cover(),
        ),
        ("", "", Cover()),
    ],
)
def test_a_cover_states_company_ticker_form_and_period(text: str, title: str, cover: Cover) -> None:
    assert read_cover(text, title) == cover


def test_xbrl_tags_of_the_cover_come_first() -> None:
    text = (
        FILING.format(form="10-K", period="year", end="May 31, 2023", name="HOLT", ticker="HLT")
        + "Holt Tools Inc 2022 FY"
    )
    tags = [("EntityRegistrantName", "Holt Tools Inc"), ("DocumentFiscalYearFocus", "2022")]
    facts = [Fact(f"dei:{name}", text.index(said), text.index(said) + len(said)) for name, said in tags]
    cover = read_cover(text, "", facts)
    assert (cover.company, cover.fiscal_year, cover.period_end) == ("Holt Tools Inc", 2022, "2023-05-31")


@given(st.text(max_size=400), st.text(max_size=40))
def test_any_text_has_a_cover_whose_metadata_read_back(text: str, title: str) -> None:
    cover = read_cover(FILING[:200] + text, title)
    columns = cover.metadata()
    assert set(columns) <= set(COVER_COLUMNS)
    assert all(columns.values())
    assert Cover.of_metadata(columns) == cover
    assert not cover.period_end or re.fullmatch(r"\d{4}-\d\d-\d\d", cover.period_end)


def test_covers_are_columns_that_own_and_given_metadata_override() -> None:
    known = {"company": "Holt Inc.", "fiscal_year": "2022"}
    facts = [
        DocumentFacts("a", "p", cover=known),
        DocumentFacts("b", "p", own={"Company": "Brook"}, given={"fiscal_year": "2020"}, cover=known),
        DocumentFacts("c", "p", cover=None),
    ]
    table = metadata_table(facts)
    assert table["fiscal_year"].to_pylist() == [2022, 2020, None]
    assert [name.lower() for name in table.column_names].count("company") == 1
    column = next(name for name in table.column_names if name.lower() == "company")
    assert table[column].to_pylist() == ["Holt Inc.", "Brook", None]


def test_covers_of_an_earlier_release_are_read_from_the_stored_texts(tmp_path: Path) -> None:
    text = FILING.format(form="10-K", period="year", end="December 31, 2022", name="HOLT TOOLS, INC.", ticker="HLT")
    folder = Folder.of(tmp_path)
    fields = [(name, DOCUMENTS.field(name).type) for name in DOCUMENTS.names if name != "cover"]
    earlier = pa.schema(fields, metadata={"okralong.table": "documents", "okralong.schema_version": "3"})
    row = {"doc_id": "a", "title": "", "text": text, "metadata": [("year", "2022")]}
    folder.at("documents").write_table("p.parquet", pa.Table.from_pylist([row], schema=earlier))
    entry = DocumentEntry("a", "", 1, "p", "a", "a", "a")
    assert facts_of_documents(folder, [entry], {}, covers=False)[0].cover is None
    facts = facts_of_documents(folder, [entry], {})
    assert facts[0].cover == read_cover(text).metadata() != {}

    columns = [(name, METADATA.field(name).type) for name in METADATA.names if name != "cover"]
    schema = pa.schema(columns, metadata={"okralong.table": "metadata", "okralong.schema_version": "1"})
    known = {"doc_id": "a", "part": "p", "title": "", "own": [("year", "2022")], "given": []}
    folder.at("metadata").write_table("old.parquet", pa.Table.from_pylist([known], schema=schema))
    assert read_facts(folder, "old.parquet")["a"].cover is None
    name = write_facts(folder, facts)
    assert read_facts(folder, name)["a"] == facts[0]
