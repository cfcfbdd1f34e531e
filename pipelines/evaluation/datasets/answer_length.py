"""A guess at what a paper's question asks for, where the file does not say: by the length of its shortest answer."""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.evaluation.recall import MOST_WORDS


def length_label(answers: Sequence[str]) -> str:
    """The label "short answer" when some answer has at most ``MOST_WORDS`` words, else "long answer"."""
    return "short answer" if min(len(answer.split()) for answer in answers) <= MOST_WORDS else "long answer"
