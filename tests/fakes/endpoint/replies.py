"""What the model says: scripted, or made from the prompt alone, so that the same prompt has the same reply in any run.

Made replies keep each role's contract. A reading reply quotes a line of one of the passages shown, so that its citation
can be checked, and answers with that line's last words.
"""

from __future__ import annotations

import re

from okralong.pipelines.answering.analyzers.analysis import EVIDENCE, PATTERNS, TYPES, format_reply
from okralong.pipelines.answering.prompts import UNANSWERABLE
from tests.fakes.endpoint.draws import draw
from tests.fakes.endpoint.prompts import Prompt
from tests.fakes.endpoint.scenario import Replies

REFUSAL = "I'm sorry, but I can't help with that."
FILLER = " and so on"
"""What a reply that runs into its limit goes on with."""

_PASSAGE = re.compile(r'<passage id="(\d+)"[^>\n]*>\n')
_END = "\n</passage>"
_LINE = re.compile(r"[^\n\"\u201c\u201d\u201e\u00ab\u00bb<>\[\]]{20,200}")
"""A stretch of a line that stands in a quotation without closing it."""


def reply_to(prompt: Prompt, replies: Replies, seed: int) -> str:
    """The reply's whole text."""
    for rule in replies.rules:
        if rule.role in (None, prompt.role) and rule.contains in prompt.text:
            return rule.text
    if prompt.role == "read" and prompt.question in replies.answers:
        return replies.answers[prompt.question]
    return _made(prompt, replies, seed)


def _made(prompt: Prompt, replies: Replies, seed: int) -> str:
    question = prompt.question.rstrip("? \n") or "it"
    if prompt.role == "analyze":
        labels = (_pick(options, seed, question, n) for n, options in enumerate((TYPES, PATTERNS, EVIDENCE)))
        return format_reply(*labels)
    if prompt.role == "split":
        return f"What is the first part of {question}?\nWhat is the second part of {question}?"
    if prompt.role == "other":
        return f"An answer to: {prompt.text[:80]}"
    if prompt.role == "classify":
        return _pick(("A", "B", "C"), seed, question)
    evidence, answer = _quoted(prompt.text, seed)
    if prompt.role == "summarize":
        return f"It is said: {answer or 'nothing'}."
    if prompt.role == "sentence":
        concludes = draw(seed, "sentence", prompt.text) < 0.5
        return (
            f"So the answer is: {answer or UNANSWERABLE}" if concludes else f"It is said that {answer or 'so'} is so."
        )
    if prompt.role == "compress":
        mark = "[COMPLETE]" if draw(seed, "compress", prompt.text) < 0.3 else "[INCOMPLETE]"
        return f"Summary: It is said: {answer or 'nothing'}.\nEvaluation: {mark} as far as can be seen"
    if prompt.role == "step":
        if not answer or draw(seed, "step", prompt.text) < 0.5:
            return f"Evidence: none\nQuery: What more is known of {question}?\nAnswer: none"
        return f"{evidence}\nQuery: none\nAnswer: {answer}"
    if not answer or draw(seed, "unanswerable", prompt.text) < replies.unanswerable_share:
        return "Answer: unanswerable"
    return f"{evidence}\nAnswer: {answer}"


def _quoted(text: str, seed: int) -> tuple[str, str]:
    """An evidence line from one of the passages, and an answer from it; empty where no passage has a line to quote."""
    openings = list(_PASSAGE.finditer(text))
    if not openings:
        return "", ""
    opening = openings[int(draw(seed, "passage", text) * len(openings))]
    line = _LINE.search(text, opening.end(), max(opening.end(), text.find(_END, opening.end())))
    if line is None:
        return "", ""
    words = line[0].strip()
    return f'Evidence: [{opening[1]}] "{words}"', " ".join(words.rstrip(".").split()[-4:])


def _pick(options: tuple[str, ...], seed: int, *drawn_for: str | int) -> str:
    return options[int(draw(seed, *drawn_for) * len(options))]
