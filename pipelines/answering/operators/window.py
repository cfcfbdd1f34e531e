"""Keeping a prompt inside the generator's window: the least important passages go, the last one is cut.

The window is counted in the generator's own tokens. A prompt that is too long would be an error of the endpoint, or
worse, would be cut by it without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Hit, Message, Passage, QuestionError

MESSAGE_OVERHEAD = 16
"""Tokens that a chat template may put around a message (role markers and line ends); ours, on the safe side."""

BuildPrompt = Callable[[Sequence[Passage]], list[Message]]


def prompt_fits(messages: Sequence[Message], role: str, tools: Tools) -> bool:
    """Whether the prompt and the longest reply of ``role`` fit the window together."""
    prompt = sum(tools.count(message.content) + message.vector_rows + MESSAGE_OVERHEAD for message in messages)
    return prompt + tools.completion_limit(role) <= tools.window


def fit_passages(
    passages: Sequence[Passage], hits: Sequence[Hit], build: BuildPrompt, role: str, tools: Tools
) -> list[Passage]:
    """As many of ``passages`` as fit, in their order; those go first that hold the least important of ``hits``.

    ``hits`` are in the order of importance. The most important passage is cut at its end if it alone is too long.
    Raises QuestionError when not even a word of it fits beside the question.
    """
    rank = {hit.chunk.chunk_id: place for place, hit in enumerate(hits)}

    def place_of(passage: Passage) -> int:
        return min((rank[chunk_id] for chunk_id in passage.chunk_ids if chunk_id in rank), default=len(rank))

    kept = list(passages)
    while len(kept) > 1 and not prompt_fits(build(kept), role, tools):
        kept.remove(max(kept, key=place_of))
    if not kept or prompt_fits(build(kept), role, tools):
        return kept
    return [_cut_to_fit(kept[0], build, role, tools)]


def _cut_to_fit(passage: Passage, build: BuildPrompt, role: str, tools: Tools) -> Passage:
    low, high = 0, len(passage.text)
    while low < high:
        middle = (low + high + 1) // 2
        if prompt_fits(build([_head(passage, middle)]), role, tools):
            low = middle
        else:
            high = middle - 1
    if low == 0:
        raise QuestionError(
            f"The question leaves no room for any passage in the generator's window of {tools.window} tokens, of which "
            f"a reply may take {tools.completion_limit(role)}. Ask a shorter question, lower the completion limit of "
            "the config's llm section, or name a model with a larger window."
        )
    return _head(passage, low)


def _head(passage: Passage, length: int) -> Passage:
    text = passage.text[:length]
    return replace(passage, text=text, end_char=passage.start_char + length, n_tokens=count_tokens(text))
