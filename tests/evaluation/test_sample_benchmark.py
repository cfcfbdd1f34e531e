"""The benchmark over reserved samples: names that do not collide, and scores by type."""

from __future__ import annotations

from typing import Any

from benchmarks.sample import Scored, named, report, scored
from okralong.pipelines.core.types import Question
from okralong.pipelines.reporting.sources import gold_spans
from okralong.pipelines.samples.questions import generate

SEED = 11
GOLD = Question("9000-q1-extractive", "How much?", ("9000-a",), ("$5 million",), ("9000-a:10:20",), "extractive")


def _answer(start: int, end: int, **changes: Any) -> dict[str, Any]:
    cited = {"doc_id": "9000-a", "start_char": start, "end_char": end}
    return {"status": "answered", "answer": "$5 million", "citations": [cited], **changes}


def test_names_of_several_samples_differ_and_evidence_is_still_found() -> None:
    texts, questions = named(generate(2, 6, SEED, 1_500), SEED)
    others, _ = named(generate(2, 6, SEED + 1, 1_500), SEED + 1)
    assert not texts.keys() & others.keys()
    for question in questions:
        assert question.query_id.startswith(f"{SEED}-")
        assert set(question.doc_ids) <= texts.keys()
        for doc_id, start, end in gold_spans(question):
            assert texts[doc_id][start:end].strip()


def test_an_answer_is_scored_by_its_words_and_by_the_place_that_it_cites() -> None:
    right = scored(GOLD, _answer(0, 11))
    assert (right.seed, right.type, right.exact, right.cites, right.refused) == (9000, "extractive", 1.0, True, False)
    assert not scored(GOLD, _answer(20, 30)).cites
    refused = scored(GOLD, _answer(0, 11, status="unanswerable", answer="", citations=None))
    assert (refused.exact, refused.f1, refused.refused) == (0.0, 0.0, True)


def test_the_report_separates_questions_without_an_answer() -> None:
    rows = [
        Scored(9000, "extractive", False, 1.0, 1.0, True),
        Scored(9001, "extractive", True, 0.0, 0.0),
        Scored(9001, "no answer", True),
    ]
    lines = report(rows).splitlines()
    assert lines[2].startswith("| extractive | 2 | 0.50 [0.00, 1.00] | 0.50 [0.00, 1.00] |")
    assert "| **all with an answer** | 2 |" in lines[3]
    assert lines[4] == "| without an answer | 1 |  |  |  | 1.00 |"
