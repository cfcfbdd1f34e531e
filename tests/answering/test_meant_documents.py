"""The documents that a query means: by their own names, or by the names in their text."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.readers.named import needed_rows
from okralong.pipelines.answering.retrieve import meant_documents, names_in
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import Document, Hit
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.methods.registry import FullPolicy
from tests.fakes.tools import ScriptedTools, ask_of

POLICY = load_config(FullPolicy, "policy/default.yaml")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("What was Blue Apron's revenue in March 2022?", ["Blue", "Apron"]),
        ("How did OFX Group Ltd. do in Q2 of FY2023?", ["OFX"]),
        ("Whose margin was larger, Alder's or Birch's?", ["Alder", "Birch"]),
        ("what was total revenue?", []),
    ],
)
def test_names_are_capitals_that_are_no_time_or_legal_form(query: str, names: list[str]) -> None:
    assert names_in(query) == names


def report(doc_id: str, company: str) -> Document:
    """A report that names its company on its title page and now and then; its file's name is a number."""
    title = f"{company} Inc.\nAnnual report\n"
    prose = "".join(f"In month {n} {company} opened a shop and sold more than before. " * 12 + "\n" for n in range(8))
    row = "Total assets  500  400"
    text = f"{title}{prose}{row}\n"
    at = text.index(row)
    cells = tuple(TableCell(n, v, text.index(v, at), text.index(v, at) + 3) for n, v in enumerate(("500", "400")))
    rows = (TableRow("Total assets", at, at + len(row), cells),)
    table = Table(at, at + len(row), (("2024",), ("2023",)), rows, title="Balance sheet")
    return Document(doc_id, text, sha256=doc_id, n_tokens=1500, tables=(table,))


DOCUMENTS = [report("0001", "Larchwood"), report("0002", "Hazelnut"), report("0003", "Rowan"), report("0004", "Elder")]
HITS = [Hit(chunk, 1.0) for document in DOCUMENTS for chunk in chunk_document(document, 150)]


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("What are the total assets of Hazelnut?", {"0002"}),
        ("Are the total assets of Rowan larger than those of Larchwood?", {"0001", "0003"}),
        ("What are the total assets?", set()),
        ("What are the total assets of Nobody?", set()),
    ],
)
async def test_numbered_files_are_found_by_the_names_in_their_text(query: str, meant: set[str]) -> None:
    tools = ScriptedTools(DOCUMENTS, policy=POLICY)
    assert set(meant_documents(tools, query, HITS)) == meant
    rows = await needed_rows(ask_of(query, tools), 200, HITS)
    assert {row.doc_id for row in rows} == meant


async def test_a_name_that_several_documents_share_means_none() -> None:
    documents = [report("0001", "Larchwood"), report("0002", "Larchwood"), report("0003", "Rowan")]
    hits = [Hit(chunk, 1.0) for document in documents for chunk in chunk_document(document, 150)]
    assert meant_documents(ScriptedTools(documents, policy=POLICY), "What did Larchwood sell?", hits) == {}
