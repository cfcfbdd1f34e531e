"""A simulated generator with its own style: how verbose it is, how it splits and steps, how often it finds nothing.

Its replies keep the prompts' contracts and contain no information. Equal prompts get equal replies, as from a real
generator at temperature 0, so the calls of a pilot are calls of the run.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from tests.fakes.openai_server import Messages

KEPT = 0.6
"""Share of the question's words that a simulated sub-question keeps."""
QUERY_WORDS = 8


@dataclass(frozen=True)
class Manner:
    """Parameters of a style.

    ``words`` is the mean length of an answer in tokens and ``spread`` its coefficient of variation; ``numbers`` are the
    probabilities of one to four sub-questions; the others are shares, like the priors of an estimate.
    """

    seed: int
    words: float
    spread: float
    numbers: tuple[float, ...]
    answers: float
    gives_up: float
    unanswerable: float

    @classmethod
    def drawn(cls, seed: int) -> Manner:
        """Draw a style from wide ranges, not from the priors of an estimate."""
        random = np.random.default_rng(seed)
        return cls(
            seed=seed,
            words=float(np.exp(random.uniform(np.log(15), np.log(110)))),
            spread=float(random.uniform(0.2, 0.8)),
            numbers=tuple(random.dirichlet([1.0, 4.0, 2.0, 2.0]).tolist()),
            answers=float(random.uniform(0.2, 0.9)),
            gives_up=float(random.uniform(0.05, 0.5)),
            unanswerable=float(random.uniform(0.0, 0.5)),
        )

    def reply(self, messages: Messages) -> str:
        """Return the reply to a prompt, by its role."""
        digest = hashlib.sha256(json.dumps([self.seed, messages]).encode()).digest()
        random = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        system, user = messages[0]["content"], messages[-1]["content"]
        if "Break the question" in system:
            return self._split(user, random)
        if "Query: one question" in system:
            return self._step(user, random)
        if random.random() < self.unanswerable:
            return "Answer: unanswerable"
        return f"Answer:{self._filler(random)}"

    def _split(self, question: str, random: np.random.Generator) -> str:
        words = question.rstrip("?").split()
        number = int(random.choice(len(self.numbers), p=self.numbers)) + 1
        size = max(2, round(len(words) * KEPT))
        starts = np.linspace(0, len(words) - size, number).round().astype(int)
        return "\n".join(f"{' '.join(words[start : start + size])}?" for start in starts)

    def _step(self, shown: str, random: np.random.Generator) -> str:
        quoted = f'Evidence: [1] "{self._filler(random).strip()}"'
        if random.random() < self.answers:
            return f"{quoted}\nQuery: none\nAnswer: word"
        if random.random() < self.gives_up:
            return f"{quoted}\nQuery: none\nAnswer: none"
        words = shown.split()
        start = int(random.integers(0, max(1, len(words) - QUERY_WORDS)))
        return f"{quoted}\nQuery: {' '.join(words[start : start + QUERY_WORDS])}\nAnswer: none"

    def _filler(self, random: np.random.Generator) -> str:
        length = random.gamma(1 / self.spread**2, self.words * self.spread**2)
        return " word" * max(1, round(length))
