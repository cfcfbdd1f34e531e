"""A prompt as a model's own tokens: its chat template, and the mark that opens the reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from okralong.pipelines.core.types import Message

PLAIN_REPLY_MARK: Final = "\n\nReply: "
"""Opens the reply of a base model, which has no chat template; ours."""

TEMPLATE_DATE: Final = "26 Jul 2024"
"""Given to chat templates that print a date (Llama 3.2 prints today's unless told): a prompt must not age."""


def chat_ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """The tokens of ``messages`` up to where the reply begins; a base model, without template, reads plain text."""
    if tokenizer.chat_template is None:
        bos = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
        return bos + text_ids(tokenizer, "\n\n".join(message.content for message in messages) + PLAIN_REPLY_MARK)
    chat = [{"role": message.role, "content": message.content} for message in messages]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, date_string=TEMPLATE_DATE)
    return text_ids(tokenizer, text)


def text_ids(tokenizer: Any, text: str) -> list[int]:
    """The tokens of ``text`` and no others."""
    return [int(token) for token in tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]]
