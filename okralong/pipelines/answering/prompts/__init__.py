"""The prompts of the method ``okralong``, the contracts (the form) of their replies, and the parsers."""

from okralong.pipelines.answering.prompt_text import same_words
from okralong.pipelines.answering.prompts.answer import (
    ANSWER_INSTRUCTIONS,
    FORMULA,
    RESULT,
    SHORT_INSTRUCTIONS,
    UNANSWERABLE,
    ParsedAnswer,
    answer_prompt,
    clean,
    ends_within_answer,
    parse_answer,
    says_unanswerable,
)
from okralong.pipelines.answering.prompts.demonstrations import DEMONSTRATIONS, demonstrations, with_demonstration
from okralong.pipelines.answering.prompts.split import SPLIT_INSTRUCTIONS, parse_split, read_split, split_prompt
from okralong.pipelines.answering.prompts.step import STEP_INSTRUCTIONS, ParsedStep, parse_step, read_step, step_prompt
from okralong.pipelines.answering.prompts.typed import TYPED_INSTRUCTIONS, VALUE_MARK, reply_schema, reply_tokens
from okralong.pipelines.answering.prompts.typed_replies import MOST_VALUES, SaidValue, read_typed

__all__ = [
    "ANSWER_INSTRUCTIONS",
    "DEMONSTRATIONS",
    "FORMULA",
    "MOST_VALUES",
    "RESULT",
    "SHORT_INSTRUCTIONS",
    "SPLIT_INSTRUCTIONS",
    "STEP_INSTRUCTIONS",
    "TYPED_INSTRUCTIONS",
    "UNANSWERABLE",
    "VALUE_MARK",
    "ParsedAnswer",
    "ParsedStep",
    "SaidValue",
    "answer_prompt",
    "clean",
    "demonstrations",
    "ends_within_answer",
    "parse_answer",
    "parse_split",
    "parse_step",
    "read_split",
    "read_step",
    "read_typed",
    "reply_schema",
    "reply_tokens",
    "same_words",
    "says_unanswerable",
    "split_prompt",
    "step_prompt",
    "with_demonstration",
]
