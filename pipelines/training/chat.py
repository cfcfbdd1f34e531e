"""A prompt as the served model sees it: the chat template of its own tokenizer, and the mark that opens the reply."""

from __future__ import annotations

from typing import Any

from okralong.pipelines.answering.analyzers.scaffold import PLAIN_REPLY_MARK, TEMPLATE_DATE


def chat_ids(tokenizer: Any, system: str, user: str) -> list[int]:
    """The tokens of both messages up to where the reply begins; a base model, without template, reads plain text."""
    if tokenizer.chat_template is None:
        text = f"{system}\n\n{user}{PLAIN_REPLY_MARK}"
        bos = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
    else:
        chat = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        text = tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=True, date_string=TEMPLATE_DATE
        )
        bos = []
    return [*bos, *(int(token) for token in tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])]
