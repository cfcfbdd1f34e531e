"""Methods on the invented town: the real strategy over a real archive, measured against what it truly shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from okralong.lab.datasets.gold import gold_analysis
from okralong.lab.datasets.pooling import PooledQuestion
from okralong.lab.evidence.bench import Bench, PolicyRun, Row, ranked, run_plain, run_policy
from okralong.lab.evidence.config import LabelField, PlainMethod, Retriever
from okralong.lab.evidence.measure import measure
from okralong.lab.evidence.tools import BenchTools, given
from okralong.lab.evidence.writers import GoldWriter, as_question
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.retrieve import primary_retrieval
from okralong.pipelines.archive.search import search
from okralong.pipelines.archive.terms import analyze_query
from okralong.pipelines.core.types import Analysis, Answer, Hit, Passage, Pattern, QuestionError
from okralong.pipelines.methods.okralong import orchestrate
from tests.fakes.tools import analysis, paper_policy

SMALL = {"factoid__count": 1, "split__count": 1, "primary__granularity": 64, "context__extension_tokens": 0}
"""Little enough is shown that something can be missing."""
SMALL_CHUNKS = {"factoid__granularity_present": 64, "factoid__granularity_absent": 64}


def gold_run(**overrides: Any) -> PolicyRun:
    return PolicyRun(paper_policy(**SMALL, **SMALL_CHUNKS, **overrides), None, GoldWriter())


def asked(bench: Bench, kind: str) -> list[PooledQuestion]:
    return [question for question in bench.pooled.questions if question.item.gold.source_type == kind]


def sentences(bench: Bench, question: PooledQuestion) -> list[str]:
    return [bench.texts[span.doc_id][span.start_char : span.end_char] for span in question.evidence]


async def answered(bench: Bench, question: PooledQuestion, run: PolicyRun, said: Analysis) -> tuple[Answer, BenchTools]:
    asked, queries = question.item.gold.question.question, question.item.gold_queries
    tools = BenchTools(bench.retrievals, run.policy, question.doc_ids, queries, given(said), run.writer)
    return await orchestrate(asked, tools, precise=False), tools


def assert_measured(bench: Bench, question: PooledQuestion, row: Row, context: tuple[Passage, ...]) -> None:
    """The row's figures by plain search for each gold sentence in what was shown."""
    shown = [any(sentence in passage.text for passage in context) for sentence in sentences(bench, question)]
    assert (row.shown.pieces, row.shown.pieces_shown) == (len(shown), sum(shown))
    assert row.shown.all_evidence == all(shown)
    assert row.shown.context_tokens == sum(passage.n_tokens for passage in context) > 0
    assert row.recall == measure(question, context, bench.texts).evidence_recall


async def test_labels_of_an_analyzer_are_replaced(town: Bench) -> None:
    """A constant type gives every question its workflow; gold labels over it give the gold analyzer's rows."""
    gold = gold_run()
    expected = await run_policy(town, "gold", gold, 1.0)
    constant: dict[LabelField, str] = {"type": "extractive"}
    rules = replace(gold, analyzer=KeywordRules(), labels=constant)
    linear = await run_policy(town, "gold", rules, 1.0)
    assert {row.workflow for row in linear} == {"linear"} != {row.workflow for row in expected}
    labels: dict[LabelField, str] = {"type": "gold", "pattern": "gold", "evidence": "gold"}
    assert await run_policy(town, "gold", replace(rules, labels=labels), 1.0) == expected


async def test_the_split_workflow_asks_the_gold_queries(town: Bench) -> None:
    run = gold_run()
    rows = {row.query_id: row for row in await run_policy(town, "gold", run, 1.0)}
    assert len(rows) == 6
    for question in asked(town, "comparison"):
        answer, tools = await answered(town, question, run, analysis("multi-source"))
        assert tools.queries[1:] == [as_question(query) for query in question.item.gold_queries]
        row = rows[question.item.gold.question.query_id]
        assert (row.workflow, row.queries, row.calls, row.type) == ("split", 3, 1, "multi-source")
        assert row.documents == question.item.documents
        assert row.recall == 1.0
        answer, _ = await answered(town, question, run, _label(town, question))
        assert_measured(town, question, row, answer.context)


async def test_the_step_workflow_asks_the_gold_queries_one_by_one(town: Bench) -> None:
    run = gold_run()
    rows = {row.query_id: row for row in await run_policy(town, "gold", run, 0.5)}
    for question in asked(town, "bridge"):
        answer, tools = await answered(town, question, run, analysis("multi-bridge"))
        row = rows[question.item.gold.question.query_id]
        assert (row.workflow, row.point) == ("step", 0.5)
        wanted = [question.item.gold.question.question, *map(as_question, question.item.gold_queries)]
        assert tools.queries[1:] == wanted[: len(tools.queries) - 1]
        assert row.queries == len(set(tools.queries)) >= 2
        assert row.calls == tools.calls >= row.queries - 1
        assert_measured(town, question, row, answer.context)


async def test_the_linear_workflow_looks_up_once_and_asks_nobody(town: Bench) -> None:
    linear = {"workflow__multi-bridge": "linear", "workflow__multi-source": "linear"}
    run = gold_run(**linear)
    rows = {row.query_id: row for row in await run_policy(town, "linear", run, 1.0)}
    for question in town.pooled.questions:
        row = rows[question.item.gold.question.query_id]
        assert (row.workflow, row.queries, row.calls) == ("linear", 1, 0)
        answer, _ = await answered(town, question, run, _label(town, question))
        assert_measured(town, question, row, answer.context)
    assert {row.shown.all_evidence for row in rows.values()} == {False}


async def test_gold_labels_choose_the_size_by_what_the_primary_chunks_hold(town: Bench) -> None:
    sizes = {"factoid__granularity_present": 64, "factoid__granularity_absent": 256, "context__recover_tables": False}
    linear = {"workflow__multi-bridge": "linear", "workflow__multi-source": "linear", "primary__count": 2}
    run = PolicyRun(paper_policy(**{**SMALL, **sizes, **linear}), None, GoldWriter())
    rows = {row.query_id: row for row in await run_policy(town, "gold", run, 1.0)}
    at_hand = set()
    for question in town.pooled.questions:
        _, tools = await answered(town, question, run, analysis("extractive"))
        primary, scores = await primary_retrieval(tools, "again", question.item.gold.question.question)
        assert list(scores.exact) == sorted(scores.exact, reverse=True)
        held = all(any(s in hit.chunk.text for hit in primary) for s in sentences(town, question))
        row = rows[question.item.gold.question.query_id]
        assert (row.shown.context_tokens <= 64) == held
        at_hand.add(held)
    assert at_hand == {True, False}


def _label(bench: Bench, question: PooledQuestion) -> Analysis:
    """Type and pattern as in gold; whether evidence was at hand changes nothing under SMALL_CHUNKS."""
    size, text = 64, question.item.gold.question.question
    shares = []
    for retriever in ("exact", "semantic"):
        hits = _five(bench, question, text, size, retriever)
        shares.append(measure(question, [passage_of(hit) for hit in hits], bench.texts).evidence_recall or 0.0)
    exact, semantic = shares
    pattern: Pattern = "exact" if exact > semantic else "semantic" if semantic > exact else "same"
    return gold_analysis(question.item.gold.question.type, pattern, evidence=True)


def _five(bench: Bench, question: PooledQuestion, text: str, size: int, retriever: str) -> list[Hit]:
    shard = bench.retrievals.archive.shard(size, 0)
    if retriever == "semantic":
        return shard.semantic(bench.retrievals.encoder.encode([text])[0], question.doc_ids, 5)
    return shard.exact(analyze_query(text), question.doc_ids, None, 5)


@pytest.mark.parametrize("retriever", ["exact", "semantic", "reciprocal_rank"])
async def test_a_plain_method_shows_the_first_chunks(town: Bench, retriever: Retriever) -> None:
    method = PlainMethod(retriever=retriever, granularity=64, count=2, counts=[1, 2, 5])
    rows = await run_plain(town, "plain", method)
    assert [row.point for row in rows] == [1.0, 2.0, 5.0] * 6
    for number, question in enumerate(town.pooled.questions):
        text = question.item.gold.question.question
        vector = town.retrievals.encoder.encode([text])[0]
        found = await search(town.retrievals.archive.clients(64), text, vector, question.doc_ids, 5)
        hits = ranked(found, retriever)
        for row in rows[3 * number : 3 * number + 3]:
            assert row.query_id == question.item.gold.question.query_id
            assert (row.workflow, row.queries, row.calls) == ("linear", 1, 0)
            assert_measured(town, question, row, tuple(passage_of(hit) for hit in hits[: int(row.point)]))
        one, _, five = (row.recall or 0.0 for row in rows[3 * number : 3 * number + 3])
        assert five >= one
    assert sum(row.recall or 0.0 for row in rows[2::3]) > sum(row.recall or 0.0 for row in rows[::3])


async def test_reciprocal_ranks_join_both_lists(town: Bench) -> None:
    question = town.pooled.questions[0]
    found = await town.retrievals.find(question.item.gold.question.question, question.doc_ids, 64, 5)
    exact, semantic = ([hit.chunk.chunk_id for hit in side] for side in (found.exact, found.semantic))

    def score(chunk_id: str) -> float:
        return sum(1 / (60 + 1 + side.index(chunk_id)) for side in (exact, semantic) if chunk_id in side)

    joined = [hit.chunk.chunk_id for hit in ranked(found, "reciprocal_rank")]
    assert sorted(joined) == sorted({*exact, *semantic})
    assert [score(chunk_id) for chunk_id in joined] == sorted(map(score, joined), reverse=True)


async def test_fewer_chunks_are_the_first_of_many(town: Bench) -> None:
    question = town.pooled.questions[0]
    few = await town.retrievals.find("the old bridge", question.doc_ids, 64, 3)
    many = await town.retrievals.find("the old bridge", question.doc_ids, 64, 150)
    assert (few.exact, few.semantic) == (many.exact[:3], many.semantic[:3])
    assert len(many.semantic) > 3


async def test_rules_analyze_too(town: Bench) -> None:
    run = replace(gold_run(), analyzer=KeywordRules())
    rows = await run_policy(town, "rules", run, 1.0)
    for question, row in zip(town.pooled.questions, rows, strict=True):
        (said,) = KeywordRules().analyze([AnalysisInput(question.item.gold.question.question, ())])
        assert row.workflow == run.policy.workflow[said.type]
        assert row.type == question.item.gold.question.type
    assert {row.workflow for row in rows if row.type == "multi-source"} == {"split"}


async def test_the_scope_is_the_question_s_own(town: Bench) -> None:
    question = town.pooled.questions[0]
    _, tools = await answered(town, question, gold_run(), analysis("extractive"))
    (doc_id,) = question.doc_ids
    assert (await tools.full_text(doc_id)).text == town.texts[doc_id]
    assert [found for found, _ in await tools.documents()] == [doc_id]
    assert len(await tools.embed(["one", "two"])) == 2
    with pytest.raises(QuestionError, match="outside"):
        await tools.full_text("elsewhere")


async def test_a_plan_is_followed_once_whoever_made_it(town: Bench) -> None:
    class Said:
        """Any analysis, for all questions."""

        name = "said"

        def __init__(self, said: Analysis) -> None:
            self.said = said

        def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
            return [self.said] * len(batch)

    bench = replace(town, followed={})
    bridges, facts = (replace(gold_run(), analyzer=Said(analysis(kind))) for kind in ("multi-bridge", "extractive"))
    first = await run_policy(bench, "first", bridges, 1.0)
    known = dict(bench.followed)
    assert len(known) == len(first) == 6
    again = await run_policy(bench, "again", replace(bridges, analyzer=Said(analysis("multi-bridge"))), 2.0)
    assert bench.followed == known
    assert again == [replace(row, method="again", point=2.0) for row in first]
    assert {row.workflow for row in await run_policy(bench, "others", facts, 1.0)} == {"linear"}
    assert len(bench.followed) == 12
    assert await run_policy(replace(town, followed={}), "first", bridges, 1.0) == first
    fewer = replace(bridges, policy=paper_policy(**{**SMALL, **SMALL_CHUNKS, "step__max_steps": 1}))
    await run_policy(bench, "fewer", fewer, 1.0)
    assert len(bench.followed) == 18
