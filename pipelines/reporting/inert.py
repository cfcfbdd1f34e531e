"""Texts of documents, models and files as a page may hold them: bounded, and without characters that act unseen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from okralong.pipelines.answering.prompts import HIDDEN

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def plain(text: object) -> str:
    """``text`` of the same length; control and bidirectional characters are blanks, halves of characters "�".

    Tags stay as they are: the page writes all text as text nodes, never as markup.
    """
    return _SURROGATE.sub("\ufffd", HIDDEN.sub(" ", str(text)))


def plained(value: Any) -> Any:
    """JSON values with all their texts ``plain``: what every piece of data passes on its way into a page."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(key): plained(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plained(each) for each in value]
    return value


def bounded(text: object, limit: int) -> str:
    """The text's first ``limit`` characters, and after a cut how many more there were."""
    whole = str(text)
    return whole if len(whole) <= limit else f"{whole[:limit]} … [{len(whole) - limit:,} more characters]"
