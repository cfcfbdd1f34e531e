"""Ranking by the sections of documents: what is beside the body sinks, and sections that fit the question rise."""

from __future__ import annotations

import asyncio

from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import SectionsPolicy
from okralong.pipelines.answering.retrieve import assembled_retrieval
from okralong.pipelines.answering.sections import lower, sections_for
from okralong.pipelines.core.types import Chunk, Document, Hit
from okralong.pipelines.statements.outline import read_outline
from tests.fakes.tools import ScriptedTools, paper_policy
from tests.statements.test_outline import PROSE, SECTIONS, TEXT

OUTLINES = {"a": read_outline(TEXT, SECTIONS)}


def hit(words: str, score: float) -> Hit:
    start = TEXT.index(words)
    return Hit(Chunk(f"c{start}", "a", 150, 0, start, start + len(words), 5, words), score)


def test_exhibits_and_certifications_rank_below_the_body() -> None:
    hits = [
        hit("I have reviewed this report", 1.0),
        hit("31.1 Certification of the chief", 0.9),
        hit("Dividends\n", 0.8),
    ]
    found = lower(hits, "What did the company pay its shareholders?", OUTLINES, 0.5)
    assert found[0].chunk.text == "Dividends\n"
    assert [each.score for each in found] == [0.8, 0.5, 0.45]


def test_a_question_that_asks_for_a_section_finds_it() -> None:
    hits = [hit("31.1 Certification of the chief", 0.9), hit("Dividends\n", 0.8)]
    assert lower(hits, "Which exhibit is the certification?", OUTLINES, 0.5) == hits


def test_titles_are_found_by_other_words_of_the_subject() -> None:
    def title(question: str, *names: str) -> str:
        return sections_for(question, names, OUTLINES, 1)[0].node.title

    assert title("How many employees does Quill have?", "Quill") == "Human Capital"
    assert title("What litigation is Quill involved in?", "Quill") == "Item 3. Legal Proceedings"
    assert title("What were the total assets?") == "CONSOLIDATED BALANCE SHEETS"
    assert title("What does the company say about leases?") == "Note 2. Leases"


def test_chunks_of_a_section_that_fits_become_candidates() -> None:
    mention = "How the company does have rules, and how many rules employees have.\n"
    pages = [f"TOPIC {name}\n{mention * 8}" for name in "ABCDEFGH"]
    text = "".join([*pages, f"HUMAN CAPITAL\nWe had 84 of them at our mills on the last day.\n{PROSE * 3}"])

    def first(sections: SectionsPolicy) -> str:
        policy = paper_policy().model_copy(update={"sections": sections})
        tools = ScriptedTools([Document("a", text)], policy=policy)
        question = "How many employees does the company have?"
        hits = asyncio.run(assembled_retrieval(tools, "retrieve", question, plain_plan(150, 1, "test")))
        return hits[0].chunk.text

    assert "84 of them" not in first(SectionsPolicy())
    assert "84 of them" in first(SectionsPolicy(by="code", weight=2.0))


def test_the_default_leaves_the_fingerprint_as_it_was() -> None:
    policy = paper_policy()
    assert "sections" not in policy.identity()
    changed = policy.model_copy(update={"sections": SectionsPolicy(lower=0.5)})
    assert changed.identity()["sections"]["lower"] == 0.5
