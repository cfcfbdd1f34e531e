"""Answers to passages that are known to contain the answer or not, by spans and by a small generator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.answers import HEAD, Marked, Replies, answers, line, read_answers, write_answers
from okralong.lab.training.rows.tables import RankingRow
from okralong.pipelines.core.types import Answer, Citation, Passage, Reading
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.sara.generator import MixedGenerator
from tests.fakes.tiny_llama import write_tiny_llama

TEXT = "Alder sold bread in 2023."


def marked(number: int, right: bool) -> Marked:
    """An answer in words that the passage has, where it is right, and in others, where it is not."""
    passage = Passage("d", 0, len(TEXT), TEXT, 6, 1.0)
    answer = Answer("answered", "bread" if right else "rails", context=(passage,))
    reading = Reading(1.0, 0.3 + 0.4 * (number % 3) / 2, 11, 16, 0.9)
    at = (f"set {number % 2}", f"q{number}", "What did Alder sell?", ("bread",), answer, (TEXT,), (reading,))
    return Marked(*at, float(right), float(right), f"d{number % 10}")


CITED = Citation("d", 0, 12, "Alder sold")
PASSAGES = (Passage("d", 0, 25, TEXT, 6, 1.0), Passage("e", 0, 27, "Fernhill sold boats in 2023", 6, 1.0))
READINGS = (Reading(1.0, 0.2, 11, 16, 0.8), Reading(2.0, 0.9, 0, 8, 0.9))
TEXTS = [each.text for each in PASSAGES]


async def test_known_passages_are_answered_by_span_and_by_a_generator(tmp_path: Path) -> None:
    row = RankingRow(
        "q1", "set dev", ("d",), "What did Alder sell?", tuple(TEXTS), (1.0, 0.0), (1, 0), (11, -1), (16, -1)
    )
    none = replace(row, query_id="q2", starts=(-1, -1), ends=(-1, -1), answerable=(0, 0))
    readings = [replace(READINGS[0], answerable=0.99), READINGS[1]]
    spans = await answers([row, none], [readings] * 2, None, 2, "rank")
    assert [(each.answer.answer, each.golds, each.f1) for each in spans] == [
        ("bread", ("bread",), 1.0),
        ("bread", (), 0.0),
    ]
    assert [passage.doc_id for passage in spans[0].answer.context] == ["p1", "p0"], "by relevance"
    llm = LlmConfig.model_validate(
        {"base_url": "embedded", "model": str(tmp_path), "window": 2048, "max_completion_tokens": {"generate": 6}}
    )
    write_tiny_llama(tmp_path, 2048)
    model = MixedGenerator(
        AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path), 2048
    )
    written = await answers([row, none], [readings] * 2, Replies(model, llm), 1, "drawn")
    assert all(each.reply or each.answer.status == "failed" for each in written)
    assert all(len(each.texts) == 1 for each in written)
    file = tmp_path / "rows.jsonl"
    write_answers(file, [*spans, *written])
    assert read_answers(file) == [*spans, *written]
    assert len(line("all", read_answers(file))) == len(HEAD)
