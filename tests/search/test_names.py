"""Which documents a query names, and what that is worth in retrieval."""

from __future__ import annotations

import asyncio

import pytest

from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import NamedPolicy, Policy
from okralong.pipelines.answering.retrieve import assembled_retrieval
from okralong.pipelines.archive.metadata import DocumentFacts, DocumentNames, name_of
from okralong.pipelines.core.types import Document
from tests.fakes.tools import ScriptedTools, analysis, paper_policy

FILINGS = DocumentNames(
    {
        name: name.removesuffix(".txt")
        for name in (
            "Amazon_Q1_2024.txt",
            "Amazon_Q2_2024.txt",
            "Coca-Cola_Q2_2024.txt",
            "CocaCola_annualReport2023.txt",
        )
    }
)


def best(query: str, scope: tuple[str, ...] = ()) -> list[str]:
    shares = FILINGS.named(query, scope)
    return sorted(doc_id for doc_id, share in shares.items() if share == max(shares.values()))


@pytest.mark.parametrize(
    ("query", "documents"),
    [
        ("What was Amazon's net income in the second quarter of 2024?", ["Amazon_Q2_2024.txt"]),
        ("Coca-Cola's net revenues, Q2 2024", ["Coca-Cola_Q2_2024.txt"]),
        ("What did Coca Cola say in its annual report for 2023?", ["CocaCola_annualReport2023.txt"]),
        ("amazon's deliveries", ["Amazon_Q1_2024.txt", "Amazon_Q2_2024.txt"]),
        ("Why did margins fall?", []),
    ],
)
def test_the_document_is_found_by_the_words_of_its_name(query: str, documents: list[str]) -> None:
    assert (best(query) if documents else FILINGS.named(query)) == (documents or {})


def test_a_word_counts_by_how_few_of_the_scope_have_it() -> None:
    scope = ("Amazon_Q1_2024.txt", "Amazon_Q2_2024.txt")
    assert FILINGS.named("Amazon in 2024", scope) == {}  # both have both
    assert FILINGS.named("Amazon in Q2", scope) == {"Amazon_Q2_2024.txt": 1.0}
    assert FILINGS.named("Amazon in Q2", scope[:1]) == {}  # one document cannot be told from others
    alone = FILINGS.named("the annual report")
    assert alone == {"CocaCola_annualReport2023.txt": 1.0}  # one word of it alone says which
    assert 0 < FILINGS.named("Amazon")["Amazon_Q1_2024.txt"] < 1


def test_a_name_is_all_that_a_document_is_called_but_descriptions() -> None:
    facts = DocumentFacts("d17", "p", title="Form 10-K", given={"company": "Hollis Marine", "abstract": "word " * 50})
    assert name_of(facts) == "Form 10-K d17 Hollis Marine"
    assert DocumentNames.of([facts, DocumentFacts("d18", "p")]).named("Hollis Marine's sales") == {"d17": 1.0}


def policy(named: NamedPolicy | None) -> Policy:
    base = paper_policy()
    return base.model_copy(update={"fusion": base.fusion.model_copy(update={"named": named})})


def found(query: str, named: NamedPolicy | None) -> tuple[list[str], ScriptedTools]:
    line = "Sales were {} crowns in the year, which is more than the year before, and costs rose as well. "
    documents = [
        Document(f"{firm}_2024", line.format(number) * 3, sha256=f"{number}" * 64, n_tokens=60)
        for number, firm in enumerate(["alder", "birch", "cedar"])
    ]
    tools = ScriptedTools(documents, analysis=analysis("extractive"), policy=policy(named))
    plan = organize(analysis("extractive"), tools.policy, precise=False)
    hits = asyncio.run(assembled_retrieval(tools, "retrieve", query, plan))
    return [hit.chunk.doc_id for hit in hits], tools


def test_chunks_of_the_named_document_come_first() -> None:
    query = "What were the sales of Cedar in the year?"
    with_it, tools = found(query, NamedPolicy(weight=1.0))
    assert with_it[0] == "cedar_2024"
    assert found(query, None)[0][0] == "alder_2024"  # the same words everywhere: the first by its id
    asked = [call for call in tools.calls if call.tool == "retrieve"]
    assert [(call.step, call.details.get("doc_ids")) for call in asked] == [
        ("retrieve", None),
        ("retrieve/named", ["cedar_2024"]),
    ]


def test_nothing_is_looked_up_again_where_no_document_or_too_many_are_named() -> None:
    for query, named in [
        ("What were the sales?", NamedPolicy(weight=1.0)),
        ("What were the sales of Alder and Birch?", NamedPolicy(weight=1.0, documents=1)),
    ]:
        _, tools = found(query, named)
        assert [call.step for call in tools.calls if call.tool == "retrieve"] == ["retrieve"]
