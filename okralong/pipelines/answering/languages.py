"""Find the language by which the numbers and dates of a passage are read, and in which a question is answered.

The shipped analyzer, cross-encoder and readers were trained on English. Outside it the analyzer and the readers are not
asked, and prompts request the answer in the question's language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from babel import Locale, UnknownLocaleError

from okralong.pipelines.core.languages import ENGLISH, UNKNOWN, detect, question_language
from okralong.pipelines.core.types import Citation, Passage

_KEPT: Final = 4096  # project default
"""Texts whose language is kept."""


@lru_cache(maxsize=_KEPT)
def language_of_text(text: str) -> str:
    """Return the language of a passage's text; English if nothing tells it.

    Text without a foreign letter or a common word of another language is English without asking the classifier, which
    takes time to load and which runs over English never need.
    """
    if _FOREIGN.search(text) is None:
        return ENGLISH
    found = detect(text)
    return ENGLISH if found == UNKNOWN else found


_FOREIGN: Final = re.compile(
    r"[\u00c0-\u024f\u0370-\u1fff\u2e80-\ud7ff\uf900-\ufaff]"
    r"|\b(?:der|die|das|und|von|le|les|des|et|el|los|las|del|il|di|della|het|een|van|voor|och|og|do|da|em)\b"
)
"""A letter that English lacks, or a common word of a language that can do without such letters."""


def language_of_passages(passages: Iterable[Passage], citations: Sequence[Citation] = ()) -> str:
    """Return the language of the cited passages, or of all of them if none is cited.

    The passages of a document are judged together, since a table alone may hardly have words.
    """
    cited = {each.doc_id for each in citations}
    texts = [each.text for each in passages if not cited or each.doc_id in cited]
    return language_of_text("\n".join(texts)) if texts else ENGLISH


@lru_cache(maxsize=_KEPT)
def language_asked(question: str) -> str:
    """Return the language of a question; English if nothing tells it."""
    found = question_language(question)
    return ENGLISH if found == UNKNOWN else found


@lru_cache(maxsize=64)
def language_name(language: str) -> str:
    """Return the English name of a language: "German" for "de"."""
    try:
        return Locale("en").languages.get(language) or language
    except UnknownLocaleError:
        return language
