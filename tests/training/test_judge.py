"""Weights that were hidden in answers are found again, and tell right answers from wrong ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.answers import HEAD, Marked, Replies, answers, line, read_answers, write_answers
from benchmarks.confidence import area, calibration, fitted, in_all_ways, judged_by, own_word, passage_alone
from benchmarks.confidence_features import answer_features, fit_judge
from okralong.lab.training.rows.tables import RankingRow
from okralong.pipelines.answering.confidence import support
from okralong.pipelines.core.types import Answer, Citation, InputError, Passage, Reading
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.sara.generator import MixedGenerator
from tests.fakes.tiny_llama import write_tiny_llama

TEXT = "Alder sold bread in 2023."


def test_hidden_weights_are_found() -> None:
    draw = np.random.default_rng(1)
    values = draw.normal(size=(4000, 2))
    chance = 1 / (1 + np.exp(-(0.5 + 2 * values[:, 0] - values[:, 1])))
    marks = (draw.random(4000) < chance).astype(np.float64)
    rows = [{"one": float(a), "other": float(b), "idle": 3.0} for a, b in values]
    found = fit_judge(rows, marks)
    assert found.weights["one"] == pytest.approx(2.0, rel=0.15)
    assert found.weights["other"] == pytest.approx(-1.0, rel=0.15)
    said = np.array([found.probability(row) for row in rows])
    assert float(np.abs(said - chance).mean()) < 0.03


def test_half_marks_count_as_half_right() -> None:
    rows = [{"one": float(n % 2)} for n in range(400)]
    marks = np.array([0.25 if n % 2 else 0.75 for n in range(400)])
    found = fit_judge(rows, marks)
    assert found.probability({"one": 0.0}) == pytest.approx(0.75, abs=0.03)
    assert found.probability({"one": 1.0}) == pytest.approx(0.25, abs=0.03)


def test_too_little_to_fit_on_is_refused() -> None:
    with pytest.raises(InputError, match=r"mean mark of 1\.00"):
        fit_judge([{"one": 1.0}] * 9, np.ones(9))
    with pytest.raises(InputError, match="0 answers"):
        fit_judge([], np.zeros(0))


def marked(number: int, right: bool) -> Marked:
    """An answer in words that the passage has, where it is right, and in others, where it is not."""
    passage = Passage("d", 0, len(TEXT), TEXT, 6, 1.0)
    answer = Answer("answered", "bread" if right else "rails", context=(passage,))
    reading = Reading(1.0, 0.3 + 0.4 * (number % 3) / 2, 11, 16, 0.9)
    at = (f"set {number % 2}", f"q{number}", "What did Alder sell?", ("bread",), answer, (TEXT,), (reading,))
    return Marked(*at, float(right), float(right), f"d{number % 10}")


def test_a_judge_tells_right_answers_from_wrong_ones() -> None:
    answers = [marked(n, right=n % 7 < 4) for n in range(140)]
    learned = fitted(answers)
    found = judged_by("spans", learned, answers)
    own, random = area(found.confidence, found.wrong)
    assert own < 0.5 * random
    brier, error = calibration(found)
    assert brier.value is not None
    assert brier.value < 0.02
    assert error < 0.1
    passage, _ = area(judged_by("spans", passage_alone, answers).confidence, found.wrong)
    said, _ = area(judged_by("spans", own_word, answers).confidence, found.wrong)
    assert own <= said < 0.5 * passage, "what the answer says is judged too"
    assert [each.name for each in in_all_ways("spans", learned, answers)] == [
        f"spans{part}, {way}" for part in ("", " set 0", " set 1") for way in ("own word", "passage alone", "fitted")
    ]


CITED = Citation("d", 0, 12, "Alder sold")
PASSAGES = (Passage("d", 0, 25, TEXT, 6, 1.0), Passage("e", 0, 27, "Fernhill sold boats in 2023", 6, 1.0))
READINGS = (Reading(1.0, 0.2, 11, 16, 0.8), Reading(2.0, 0.9, 0, 8, 0.9))
TEXTS = [each.text for each in PASSAGES]


def test_what_is_known_of_an_answer() -> None:
    given = Answer("answered", "bread", (CITED,), context=PASSAGES)
    cited = answer_features("What did Alder sell in 2023?", given, TEXTS, READINGS)
    assert (cited["cited"], cited["verbatim"], cited["told"], cited["agrees_any"]) == (1.0, 1.0, 1.0, 1.0)
    assert cited["agrees"] == 0.0, "the more probable passage says something else"
    assert cited["cited_holds"] < 0 < cited["holds"]
    assert (cited["cited_relevance"], cited["named"], cited["named_best"]) == (-1.0, 1.0, 0.5)
    assert support("", given, TEXTS, READINGS, compared=False) == 0.2
    other = replace(given, answer="7,777 crowns", citations=())
    known = answer_features("What did Alder sell in 2023?", other, TEXTS, READINGS)
    assert (known["cited"], known["verbatim"], known["told"]) == (0.0, 0.0, 0.0)
    assert support("", other, TEXTS, READINGS, compared=False) == 0.9


@pytest.mark.parametrize(
    ("question", "answer", "fits", "asks_sum"),
    [
        ("Did Alder sell bread?", "yes", 1.0, 0.0),
        ("Did Alder sell bread?", "bread", -1.0, 0.0),
        ("In which year did Alder open?", "May 1998", 1.0, 0.0),
        ("How many boats were sold?", "the boats of Fernhill", -1.0, 0.0),
        ("Who leads Fernhill?", "Mara Lind", 1.0, 0.0),
        ("Where is Fernhill?", "in a valley", 0.0, 0.0),
        ("What was the change in revenue?", "1,204", 0.0, 1.0),
    ],
)
def test_an_answer_of_another_kind_than_asked_is_known(
    question: str, answer: str, fits: float, asks_sum: float
) -> None:
    known = answer_features(question, Answer("answered", answer), [], [])
    assert (known["fits"], known["sum"]) == (fits, asks_sum)


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
