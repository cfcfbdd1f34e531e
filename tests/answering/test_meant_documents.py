"""The documents that a query means, by the names on their covers."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.readers.named import needed_rows
from okralong.pipelines.answering.retrieve import meant_documents
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import Document
from okralong.pipelines.methods.registry import FullPolicy
from tests.fakes.tools import ScriptedTools, ask_of

POLICY = load_config(FullPolicy, "policy/default.yaml")


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


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("What are the total assets of Hazelnut?", {"0002"}),
        ("Are the total assets of Rowan larger than those of Larchwood?", {"0001", "0003"}),
        ("What are the total assets?", set()),
        ("What are the total assets of Nobody?", set()),
    ],
)
async def test_numbered_files_are_found_by_the_names_on_their_covers(query: str, meant: set[str]) -> None:
    tools = ScriptedTools(DOCUMENTS, policy=POLICY)
    assert set(meant_documents(tools, query)) == meant
    rows = await needed_rows(ask_of(query, tools), 200)
    assert {row.doc_id for row in rows} == meant


async def test_reports_of_one_company_are_all_meant() -> None:
    documents = [report("0001", "Larchwood"), report("0002", "Larchwood"), report("0003", "Rowan")]
    tools = ScriptedTools(documents, policy=POLICY)
    assert set(meant_documents(tools, "What did Larchwood sell?")) == {"0001", "0002"}
