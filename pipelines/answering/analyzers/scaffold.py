"""The analyzer's reply as pieces of tokens: fixed scaffold, label, scaffold, label, scaffold, label.

Training and scoring build the reply from the same pieces, so that a label is scored with the very tokens it was
trained with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okralong.pipelines.answering.analysis import FIELDS, AnalysisInput, analyzer_prompt

Ids = list[int]

PLAIN_REPLY_MARK = "\n\nReply: "
"""Opens the reply of a base model, which has no chat template; ours."""

TEMPLATE_DATE = "26 Jul 2024"
"""Given to chat templates that print a date (Llama 3.2 prints today's unless told): a prompt must not age."""


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
        scaffold = _ids(tokenizer, f'{opening}"{key}": "')
        fields.append(Field(key, scaffold, {label: _ids(tokenizer, label) for label in labels}))
        opening = '", '
    return fields


def reply_ids(tokenizer: Any, labels: dict[str, str]) -> Ids:
    """A whole reply as tokens, end-of-turn token included: the target of training. ``labels`` maps key to label."""
    ids: Ids = []
    for field in reply_fields(tokenizer):
        ids += field.scaffold + field.labels[labels[field.key]]
    return [*ids, *_ids(tokenizer, '"}'), int(tokenizer.eos_token_id)]


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
    messages = analyzer_prompt(asked)
    if tokenizer.chat_template is None:
        bos = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
        return bos + _ids(tokenizer, "\n\n".join(message.content for message in messages) + PLAIN_REPLY_MARK)
    chat = [{"role": message.role, "content": message.content} for message in messages]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, date_string=TEMPLATE_DATE)
    return _ids(tokenizer, text)


def _ids(tokenizer: Any, text: str) -> Ids:
    return [int(token) for token in tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]]
