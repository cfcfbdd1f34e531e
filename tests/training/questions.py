"""Invented questions whose types are plain from their words: enough to see whether a training learns."""

from __future__ import annotations

from okralong.lab.training.recipe import Example, example
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.core.types import QuestionType, RetrieverScores

FIRMS = ("Alder Orchards", "Lantern Works", "Skerry Ferries", "Wend Mills", "Hagg Quarry", "Carrow Looms", "Fell Dairy")
ASKED: dict[QuestionType, tuple[str, ...]] = {
    "extractive": ("Who leads {0}?", "In which town is {0}?"),
    "arithmetic": (
        "By what percentage did the sales of {0} rise from 2022 to 2023?",
        "What is the average rent of {0}?",
    ),
    "multi-source": ("Which was founded first, {0} or {1}?", "Which has more people, {0} or {1}?"),
}


def invented_examples(first: int = 0, last: int = len(FIRMS)) -> list[Example]:
    """Examples over the firms ``first`` to ``last``; the passage holds the evidence when its scores are high."""
    found = []
    for number, firm in enumerate(FIRMS[first:last]):
        other = FIRMS[(first + number + 1) % len(FIRMS)]
        for kind, wordings in ASKED.items():
            for held, wording in enumerate(wordings):
                scores = RetrieverScores((20.0, 5.0), (0.9, 0.3)) if held else RetrieverScores((2.0, 1.9), (0.2, 0.2))
                question = wording.format(firm, other)
                passages = (f"{firm} is a firm by the sea.",) if held else ("A boat crosses the sound.",)
                found.append(example(AnalysisInput(question, passages, scores), kind, None, bool(held)))
    return found
