"""The context processor and the window: what is fetched, what is shown, what goes first when there is no room."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from okralong.pipelines.answering.context import fit_passages, passage_of, process_context, prompt_fits
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.prompts import answer_prompt
from okralong.pipelines.core.types import Document, Hit, QuestionError, TableSpan
from okralong.pipelines.indexing.chunking import chunk_document
from tests.fakes.reports import ALDER
from tests.fakes.tools import ScriptedTools, analysis, paper_policy

LINEAR = organize(analysis("extractive"), paper_policy(), precise=False)
EXTEND = organize(analysis("arithmetic"), paper_policy(), precise=False)


def with_table() -> Document:
    """Prose, a table of about 300 tokens, prose."""
    prose = "The board met and looked at the plans of the plant. " * 12 + "\n"
    table = "Sales by year\nYear    Crowns    Units\n" + "".join(
        f"{year}    {year * 3:,}    {year - 1900}\n" for year in range(1990, 2015)
    )
    return Document(
        "t.txt", prose + table + prose, sha256="t", table_spans=(TableSpan("t1", len(prose), len(prose + table)),)
    )


def hits_of(document: Document, *ordinals: int) -> list[Hit]:
    chunks = chunk_document(document, 150)
    return [Hit(chunks[ordinal], 1.0 / (place + 1)) for place, ordinal in enumerate(ordinals)]


async def test_neighbours_merge_without_fetching_the_document() -> None:
    tools = ScriptedTools([ALDER])
    passages = await process_context(hits_of(ALDER, 5, 6, 2), LINEAR, tools)
    assert [passage.origin for passage in passages] == ["retrieved", "merged"]
    assert [len(passage.chunk_ids) for passage in passages] == [1, 2]
    assert tools.of("full_text") == []


async def test_extension_fetches_a_document_once_and_merges_what_then_overlaps() -> None:
    tools = ScriptedTools([ALDER])
    passages = await process_context(hits_of(ALDER, 2, 4, 9), EXTEND, tools)
    assert len(tools.of("full_text")) == 1
    assert [len(passage.chunk_ids) for passage in passages] == [2, 1]
    for passage in passages:
        assert passage.text == ALDER.text[passage.start_char : passage.end_char]


async def test_a_cut_table_is_made_whole_unless_the_policy_says_no() -> None:
    document = with_table()
    cutting = [chunk.ordinal for chunk in chunk_document(document, 150) if chunk.table_id]
    assert cutting
    hits = hits_of(document, cutting[0])
    tools = ScriptedTools([document])
    (whole,) = await process_context(hits, LINEAR, tools)
    span = document.table_spans[0]
    assert whole.start_char <= span.start_char
    assert whole.end_char >= span.end_char
    assert whole.text == document.text[whole.start_char : whole.end_char]
    (plain,) = await process_context(hits, replace(LINEAR, recover_tables=False), tools)
    assert plain.text == hits[0].chunk.text


async def test_without_room_the_least_important_goes_and_the_last_is_cut() -> None:
    hits = hits_of(ALDER, 8, 2, 5)
    passages = await process_context(hits, LINEAR, ScriptedTools([ALDER]))
    build = partial(answer_prompt, "Why?")

    roomy = ScriptedTools([ALDER], window=4000)
    assert fit_passages(passages, hits, build, "generate", roomy) == passages

    tight = ScriptedTools([ALDER], window=800)
    kept = fit_passages(passages, hits, build, "generate", tight)
    assert [passage.chunk_ids[0] for passage in kept] == [hits[1].chunk.chunk_id, hits[0].chunk.chunk_id]

    narrow = ScriptedTools([ALDER], window=500)
    (cut,) = fit_passages(passages, hits, build, "generate", narrow)
    assert prompt_fits(build([cut]), "generate", narrow)
    assert hits[0].chunk.text.startswith(cut.text)
    assert cut.text == ALDER.text[cut.start_char : cut.end_char]
    assert 0 < len(cut.text) < len(hits[0].chunk.text)


def test_a_question_too_long_for_the_window_says_what_to_do() -> None:
    hits = hits_of(ALDER, 1)
    tools = ScriptedTools([ALDER], window=400)
    build = partial(answer_prompt, "why " * 300)
    with pytest.raises(QuestionError, match=r"no room .* window of 400 tokens.*Ask a shorter question"):
        fit_passages([passage_of(hits[0])], hits, build, "generate", tools)
