"""Figures by document length: means over sets, paired changes, medians, and the stages of real questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.document_length.figures import Asked, Shown, shown, together, typical
from benchmarks.document_length.longer import longer, without_repeats
from benchmarks.document_length.report import Measured, Size, report
from benchmarks.document_length.sets import LENGTHS, SETS, some_questions
from benchmarks.document_length.stages import REPEATS, STAGES, Stopwatch, measure_stages
from okralong.lab.datasets.base import Item
from okralong.lab.datasets.gold import Gold
from okralong.lab.datasets.pooling import CellSpan, Pooled, PooledDocument, PooledQuestion, Span
from okralong.lab.evidence.bench import Bench, Row
from okralong.lab.evidence.bench import Shown as Evidence
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.reporting.statistics import Estimate
from tests.fakes.tools import paper_policy

SHORT, LONG = 10_000, 50_000


def row(query_id: str, recall: float | None, tokens: int) -> Row:
    seen = Evidence(recall, 2, 2 if recall == 1 else 0, recall == 1, None, None, tokens)
    return Row("set", "ours", 1.0, query_id, (f"source of {query_id}",), "extractive", "linear", 1, 0, 2 * tokens, seen)


def asked(recalls: Sequence[float | None], tokens: int, document: int) -> Asked:
    rows = [row(f"q{number}", recall, tokens) for number, recall in enumerate(recalls)]
    return Asked(rows, [document] * len(rows))


def test_sets_weigh_alike_and_a_change_is_by_question() -> None:
    large = {SHORT: asked([1.0, 1.0, 1.0, 0.0], 800, 11_000), LONG: asked([1.0, 0.5, 1.0, 0.0], 900, 51_000)}
    small = {SHORT: asked([1.0, 0.0], 1_000, 13_000), LONG: asked([0.0, 0.0], 1_500, 53_000)}
    found = shown([large, small], LONG, SHORT, seed=7)
    assert (found.document, found.tokens, found.prompts) == (52_000, 1_200, 2_400)
    assert found.recall.value == pytest.approx((0.625 + 0.0) / 2)
    assert found.all_evidence == pytest.approx((0.5 + 0.0) / 2)
    change = found.change
    assert change.value == pytest.approx((-0.125 - 0.5) / 2)
    assert change.low is not None
    assert change.high is not None
    assert change.low < -0.3125 < change.high <= 0
    assert shown([large, small], SHORT, SHORT, seed=7).change == Estimate(0.0, 0.0, 0.0)


def test_other_questions_and_unmarked_ones_are_refused() -> None:
    short = asked([1.0, 0.0], 800, 11_000)
    with pytest.raises(ValueError, match="different questions"):
        shown([{SHORT: short, LONG: asked([1.0], 800, 51_000)}], LONG, SHORT, seed=7)
    with pytest.raises(ValueError, match="marks no evidence"):
        shown([{SHORT: asked([1.0, None], 800, 11_000)}], SHORT, SHORT, seed=7)


def test_the_median_of_sums_is_not_the_sum_of_medians() -> None:
    seconds = {"retrieval": [1.0, 2.0, 9.0], "analysis": [5.0, 1.0, 1.0], "context": [0.0, 0.0, 4.0]}
    assert typical(seconds) == {"retrieval": 2.0, "analysis": 1.0, "context": 0.0, "all": 6.0}
    assert together([seconds, {stage: [7.0] for stage in seconds}])["analysis"] == [5.0, 1.0, 1.0, 7.0]


def test_every_set_begins_at_the_shortest_length() -> None:
    assert {own.pool_tokens for own, _ in SETS.values()} == {LENGTHS[0]}
    assert list(LENGTHS) == sorted(LENGTHS)


def short(texts: Sequence[str]) -> Pooled:
    """A document of each text, with a question whose evidence is its first word and whose cell is its last."""
    documents = [PooledDocument(f"d{n}", text, {f"t{n}": 0}) for n, text in enumerate(texts)]
    questions = []
    for number, text in enumerate(texts):
        first, last = text.index(" "), text.rindex(" ") + 1
        asked_of = Question(f"q{number}", "What?", type="extractive")
        item = Item(Gold(asked_of, "set", "fact", ()), (f"source {number}",))
        row, header = Span(f"d{number}", last, len(text)), Span(f"d{number}", 0, first)
        questions.append(PooledQuestion(item, (f"d{number}",), (header,), (CellSpan(row, header),)))
    return Pooled(tuple(documents), tuple(questions), ("left",))


def read(pooled: Pooled, span: Span) -> str:
    (text,) = (document.text for document in pooled.documents if document.doc_id == span.doc_id)
    return text[span.start_char : span.end_char]


def test_longer_documents_hold_the_shorter_ones_whole() -> None:
    texts = [f"first{n} " + "corn and rye " * 20 + f"last{n}" for n in range(5)]
    pooled = short(texts)
    enough = count_tokens(texts[0]) + 5
    found = longer(pooled, enough)
    assert [sum(text in document.text for text in texts) for document in found.documents] == [2, 2, 2]
    assert texts[0] in found.documents[2].text, "the last is filled up from the first on"
    assert all(count_tokens(document.text) >= enough for document in found.documents)
    for number, question in enumerate(found.questions):
        assert question.doc_ids == (found.documents[number // 2].doc_id,)
        assert read(found, question.evidence[0]) == f"first{number}"
        assert read(found, question.cells[0].row) == f"last{number}"
        assert read(found, question.cells[0].header) == f"first{number}"
        (home,) = (document for document in found.documents if document.doc_id == question.doc_ids[0])
        assert home.text[home.placed[f"t{number}"] :].startswith(texts[number])
    assert found.left_out == ("left",)


def test_spare_documents_come_last_and_too_little_is_refused() -> None:
    texts = [f"first{n} " + "corn and rye " * 20 + f"last{n}" for n in range(3)]
    pooled, spare = short(texts[:2]), PooledDocument("spare", texts[2], {"spare": 0})
    (only,) = longer(pooled, 3 * count_tokens(texts[0]) - 20, [spare]).documents
    assert only.text == "\n\n".join(texts)
    with pytest.raises(InputError, match="fewer than 5,000 tokens"):
        longer(pooled, 5_000, [spare])


def test_a_document_that_repeats_a_text_is_left_out_with_its_questions() -> None:
    pooled = short(["one two", "three four", "five six"])
    again = replace(pooled.documents[1], placed={"t1": 0, "t0": 11})
    found = without_repeats(replace(pooled, documents=(pooled.documents[0], again, pooled.documents[2])))
    assert [document.doc_id for document in found.documents] == ["d0", "d2"]
    assert [_id(question) for question in found.questions] == ["q0", "q2"]
    assert without_repeats(pooled) == pooled


def test_the_same_questions_are_drawn_however_they_are_pooled(town: Bench) -> None:
    pooled = town.pooled
    mixed = replace(pooled, questions=tuple(reversed(pooled.questions)))
    drawn = [{_id(question) for question in some_questions(each, 4).questions} for each in (pooled, mixed)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 4
    assert len(some_questions(pooled, 40).questions) == len(pooled.questions)


def test_stages_of_real_questions(town: Bench) -> None:
    policy = paper_policy(primary__granularity=64)
    watch = Stopwatch(town, policy, KeywordRules())
    questions = town.pooled.questions[:2]
    found = measure_stages({SHORT: watch, LONG: watch}, {SHORT: questions, LONG: questions[::-1]})
    for length in (SHORT, LONG):
        assert list(found[length]) == list(STAGES)
        assert all(len(each) == 2 and min(each) > 0 for each in found[length].values())
    reading = watch.first_reading()
    assert len(reading) == len(town.pooled.documents)
    assert min(reading) > 0
    with pytest.raises(ValueError, match="different questions"):
        measure_stages({SHORT: watch, LONG: watch}, {SHORT: questions, LONG: questions[:1]})


def test_the_page_has_each_figure_beside_its_ratio() -> None:
    at_short = Shown(11_000, 800, 1_600, Estimate(0.8, 0.7, 0.9), 0.5, Estimate(0.0, 0.0, 0.0))
    at_long = Shown(51_000, 1_000, 2_400, Estimate(0.6, None, None), 0.25, Estimate(-0.2, -0.3, -0.1))
    shown_by = {"ours": {SHORT: at_short, LONG: at_long}}
    seconds = {
        length: {stage: [by * 0.002, by * 0.004, by * 0.006] for stage in STAGES}
        for length, by in ((SHORT, 1), (LONG, 2))
    }
    one = Measured(
        sizes=[Size("one all", 3, 5, {SHORT: (2, 11_000.0), LONG: (1, 51_000.0)})],
        shown={"": shown_by, "one all": shown_by},
        seconds={"one all": seconds},
        reading={"one all": {SHORT: [0.001], LONG: [0.003]}},
        embedding=0.0094,
    )
    page = report(one)
    assert "| one all | 3 | 5 | 2 of 11,000 | 1 of 51,000 |" in page
    assert "| ours | 10,000 | 800 (1.00) | 1,600 (1.00) | 7.3 % | 0.800 [0.700, 0.900] | - | 0.500 |" in page
    long = "| ours | 50,000 | 1,000 (1.25) | 2,400 (1.50) | 2.0 % | 0.600 | -0.200 [-0.300, -0.100] | 0.250 |"
    assert page.count(long) == 1
    assert "| 50,000 | 8.00 (2.00) | 8.00 (2.00) | 8.00 (2.00) | 24.00 (2.00) | 3.00 (3.00) |" in page
    assert f"3 questions, each {REPEATS} times" in page
    assert "(9.4 ms, " in page
    two = replace(
        one,
        sizes=[*one.sizes, replace(one.sizes[0], name="two all")],
        shown={**one.shown, "two all": shown_by},
        seconds={**one.seconds, "two all": seconds},
        reading={**one.reading, "two all": one.reading["one all"]},
    )
    assert report(two).count(long) == 3
    assert "--data DATA --sets one two --out" in report(two)
    assert "6 questions, each" in report(two)


def _id(question: PooledQuestion) -> str:
    return question.item.gold.question.query_id
