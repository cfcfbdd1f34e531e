"""Marks: the right answer, the right place, the right refusal, the right form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from okralong.lab.datasets.pooling import Span
from okralong.lab.training.reader_marks import FIGURES, best_sentence, difference, figure, mark, well_formed
from okralong.lab.training.rows.tables import ReadingRow
from okralong.pipelines.core.types import Passage

SHOWN = Passage("d", 10, 70, "Alder had sales of 12.5 million. Birch sold nothing at all. So", 0, 1.0)
ROW = ReadingRow(
    query_id="q",
    source="set part",
    documents=("d",),
    role="generate",
    type="extractive",
    question="What did Alder sell?",
    system="s",
    user="u",
    reply="r",
    answers=("12.5 million",),
    answerable=True,
    calculator=False,
    passages=(SHOWN,),
    evidence=(Span("d", 10, 42),),
)
HELD = replace(ROW, answers=("unanswerable",), answerable=False, documents=("e",), evidence=())


def test_a_right_answer_with_a_right_and_a_wrong_source() -> None:
    said = 'Evidence: [1] "sales of 12.5 million"\nEvidence: [1] "Birch sold nothing at all"\nAnswer: 12.5 million'
    found = mark(ROW, said)
    assert (found.f1, found.exact, found.numeric) == (1.0, 1.0, True)
    assert (found.cited, found.right, found.pieces, found.found) == (2, 1, 1, 1)
    assert mark(ROW, "Answer: =(10 + 2.5) million").exact == 1.0
    assert mark(ROW, "").f1 == 0.0
    assert mark(HELD, "Answer: unanswerable").exact == 1.0


def test_figures_are_sums_over_rows_and_gains_are_paired() -> None:
    rows = [ROW, HELD, replace(ROW, documents=("f",))]
    good = [mark(ROW, "Answer: 12.5 million"), mark(HELD, "Answer: unanswerable"), mark(ROW, "Answer: unanswerable")]
    bad = [mark(row, "Answer: Birch") for row in rows]
    assert figure(FIGURES["F1"], rows, good).value == pytest.approx(2 / 3)
    assert figure(FIGURES["F1, evidence in view"], rows, good).value == pytest.approx(0.5)
    assert figure(FIGURES["unanswerable precision"], rows, good).value == pytest.approx(0.5)
    assert figure(FIGURES["unanswerable recall"], rows, good).value == 1.0
    assert figure(FIGURES["unanswerable precision"], rows, bad).value is None
    assert figure(FIGURES["citation precision"], rows, bad).value is None
    gain = difference(FIGURES["F1"], rows, good, bad)
    assert gain.value == pytest.approx(2 / 3)
    assert difference(FIGURES["F1"], rows, good, good).high == 0.0


def test_the_trivial_reader_says_the_nearest_sentence_and_cites_it() -> None:
    def embed(texts: list[str]) -> np.ndarray:
        return np.array([[float("Birch" in text), float("Alder" in text)] for text in texts], dtype=np.float32)

    found = best_sentence(ROW, embed)
    assert found.answer == "Alder had sales of 12.5 million."
    assert (found.cited, found.right) == (1, 1)
    assert 0 < found.f1 < 1


@pytest.mark.parametrize(
    ("role", "reply", "right"),
    [
        ("generate", 'Evidence: [2] "y"\nAnswer: x', True),
        ("generate", 'Answer: x\nEvidence: [2] "y"', False),
        ("generate", "Answer: unanswerable", True),
        ("generate", "The answer is x", False),
        ("generate", "Evidence: y\nAnswer: x", False),
        ("step", 'Evidence: [1] "y"\nQuery: Who is z?\nAnswer: none', True),
        ("step", "Evidence: none\nQuery: none\nAnswer: z", True),
        ("step", "Answer: z", False),
        ("split", "Who is z?\nWho is y?", True),
        ("split", "1. z and y", False),
    ],
)
def test_the_form_of_a_reply(role: str, reply: str, right: bool) -> None:
    assert well_formed(role, reply) is right
