"""The documents that a query means, by the names on their covers."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.readers.named import named_document, needed_rows, without_name
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


@pytest.mark.parametrize(
    ("question", "plain"),
    [
        (
            "What were the total assets of Hazelnut at December 31, 2024?",
            "What were the total assets at December 31, 2024?",
        ),
        ("What were Hazelnut Inc.'s total assets in 2024?", "What were the total assets in 2024?"),
        ("How many shops does Hazelnut have?", "How many shops does the company have?"),
        ("What is the revenue of Hazelnut for 2024?", "What is the revenue for 2024?"),
        ("What did Rowan sell in March?", "What did Rowan sell in March?"),
        ("What were the total assets in 2024?", "What were the total assets in 2024?"),
    ],
)
def test_the_documents_own_name_is_left_out_of_a_question(question: str, plain: str) -> None:
    assert without_name(question, DOCUMENTS[1]) == plain


async def test_one_report_of_many_is_read_wherever_a_question_names_its_company() -> None:
    tools = ScriptedTools(DOCUMENTS, policy=POLICY)
    for question in ("How much did Hazelnut own?", "What were total assets of Hazelnut on the last day of the year?"):
        found = await named_document(tools, question)
        assert found is not None
        assert found[0].doc_id == "0002"
    assert await named_document(tools, "Did Rowan own more than Larchwood?") is None
    assert await named_document(tools, "How much did Nobody own?") is None
