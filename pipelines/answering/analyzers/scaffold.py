"""The analyzer's reply as pieces of tokens: fixed scaffold, label, scaffold, label, scaffold, label.

Training and scoring build the reply from the same pieces, so that a label is scored with the very tokens it was
trained with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okralong.pipelines.answering.analysis import FIELDS, AnalysisInput, analyzer_prompt
from okralong.pipelines.models.weights import chat_ids, text_ids

Ids = list[int]


@dataclass(frozen=True, slots=True)
class Field:
    """One key of the reply: the scaffold tokens before its label, and the tokens of each allowed label."""

    key: str
    scaffold: Ids
    labels: dict[str, Ids]


def reply_fields(tokenizer: Any) -> list[Field]:
    """The reply's three keys in order, as tokens of ``tokenizer``."""
    fields = []
    opening = "{"
    for key, labels in FIELDS:
        scaffold = text_ids(tokenizer, f'{opening}"{key}": "')
        fields.append(Field(key, scaffold, {label: text_ids(tokenizer, label) for label in labels}))
        opening = '", '
    return fields


def reply_ids(tokenizer: Any, labels: dict[str, str]) -> Ids:
    """A whole reply as tokens, end-of-turn token included: the target of training. ``labels`` maps key to label."""
    ids: Ids = []
    for field in reply_fields(tokenizer):
        ids += field.scaffold + field.labels[labels[field.key]]
    return [*ids, *text_ids(tokenizer, '"}'), int(tokenizer.eos_token_id)]


def prompt_ids(tokenizer: Any, asked: AnalysisInput, limit: int) -> Ids:
    """The prompt up to where the reply begins, at most ``limit`` tokens.

    A prompt that is too long loses its last passages, then the end of its question, so that one odd input does not
    fail the batch that it came with.
    """
    passages, question = asked.passages, asked.question
    while True:
        ids = _render(tokenizer, AnalysisInput(question, passages))
        if len(ids) <= limit:
            return ids
        if passages:
            passages = passages[:-1]
        elif len(question) > 1:
            question = question[: len(question) // 2]
        else:
            return ids[-limit:]


def opening_ids(tokenizer: Any) -> Ids:
    """What every prompt begins with: the tokens that two prompts without a word in common share."""
    one, other = (_render(tokenizer, asked) for asked in (AnalysisInput("?", ("!",)), AnalysisInput("!", ())))
    return one[: next(at for at, (token, another) in enumerate(zip(one, other, strict=False)) if token != another)]


def _render(tokenizer: Any, asked: AnalysisInput) -> Ids:
    return chat_ids(tokenizer, analyzer_prompt(asked))
