"""Cutting a reply at its labels ("Answer:", "Evidence:"), however the model dressed them up."""

from __future__ import annotations

import re

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_DRESS = r"^[ \t>#*_-]*"
_COLON = r"(?:[ \t]*\d+)?[ \t*_]*:[ \t*_]*"


def label_pattern(words: str) -> re.Pattern[str]:
    """A pattern that finds any of ``words`` (a regular expression) as a label at the start of a line."""
    return re.compile(rf"{_DRESS}(?P<label>{words}){_COLON}", re.MULTILINE | re.IGNORECASE)


def cut_at_labels(pattern: re.Pattern[str], text: str) -> tuple[str, list[tuple[str, str]]]:
    """``(text before the first label, [(label in lower case, what follows up to the next label)])``."""
    labels = list(pattern.finditer(text))
    if not labels:
        return text.strip(), []
    ends = [*(label.start() for label in labels[1:]), len(text)]
    sections = [
        (label["label"].casefold(), text[label.end() : end].strip()) for label, end in zip(labels, ends, strict=True)
    ]
    return text[: labels[0].start()].strip(), sections


def strip_thought(reply: str) -> str:
    """``reply`` without the <think> block that reasoning models put first."""
    return _THOUGHT.sub("", reply).strip()
