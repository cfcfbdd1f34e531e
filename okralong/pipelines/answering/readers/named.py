"""Find the documents that a question names, and the rows of their statements that it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from okralong.pipelines.answering.ask import Ask
from okralong.pipelines.answering.needed_rows import rows_needed, rows_passages
from okralong.pipelines.answering.policy import NEAR
from okralong.pipelines.answering.retrieve import names_in
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.archive.cover import read_cover
from okralong.pipelines.archive.name_words import CONNECTORS, company_key, pieces_of
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Document, Passage
from okralong.pipelines.statements.text_tables import tables_of

LONGEST_QUESTION: Final = 2_000  # project default: a question for a line item has a hundred characters
"""The most characters of a question that code analyzes."""
MOST_NAMED: Final = 3  # project default
"""The most documents whose rows are shown for one question."""
TITLE_PAGE: Final = 2500  # project default
"""Characters at the beginning of a document that name its company."""
_SHORT_NAME: Final = 3  # project default
"""A name of at most this many letters, as 3M, must be a word of its own."""
_NAME: Final = re.compile(
    r"(?P<of>\s(?:of|for|by|at|from|in)\s+(?:the\s+)?)?(?<!\w)(?P<name>[A-Z\d][\w.&/-]*"
    r"(?:,?\s+(?:(?:of|and|the|for|de|&)\s+)*(?!(?:19|20)\d\d\b)[A-Z\d(][\w.&/()-]*)*)"
    r"(?P<possessive>['\u2019]s\b|(?<=s)['\u2019])?"
)
"""Capitalized words that may be a name, with the preposition before them."""


async def named_document(tools: Tools, question: str) -> tuple[Document, str] | None:
    """Return the document that a question is about, and the question without the document's name.

    This is the only document of the scope, or the one that the question means best. Return None if there is neither.
    """
    if tools.scope_size == 1:
        document = await tools.full_text((await tools.documents())[0][0])
        return document, without_name(question, document)
    meant = _best_meant(tools, question)
    if len(meant) != 1:
        return None
    document = await tools.full_text(meant[0])
    return document, without_name(question, document)


def without_name(question: str, document: Document) -> str:
    """Return a question without the document's own name: "the revenue of Alder" becomes "the revenue"."""
    said = set(names_in(question))
    if not said:
        return question
    company = read_cover(document.text, document.title, document.facts).company
    own = [pieces_of(each) for each in (document.doc_id, document.title, company, document.text[:TITLE_PAGE])]

    def plain(match: re.Match[str]) -> str:
        name = match["name"].rstrip(".,")
        if said.isdisjoint(re.split(r"[\s,.]+", name)) or not _is_called(own, name):
            return match[0]
        ended = "," if match["name"].endswith(",") else ""
        if match["of"]:
            return f"{match['of'].rstrip()} the{ended}" if match["possessive"] else ended
        return f"the{ended}" if match["possessive"] else f"the company{ended}"

    return _NAME.sub(plain, question)


async def needed_rows(ask: Ask, tokens: int) -> list[Passage]:
    """Return the rows of tables that the question needs, one passage per table, with at most ``tokens`` tokens.

    The rows are from the only document of the scope, or from the documents that the question means. There are no rows
    if it means no document, or more than ``MOST_NAMED``.
    """
    tools = ask.tools
    if len(ask.question) > LONGEST_QUESTION:
        return []
    if tools.scope_size == 1:
        doc_ids = [(await tools.documents())[0][0]]
    else:
        meant = _best_meant(tools, ask.question)
        doc_ids = meant if len(meant) <= MOST_NAMED else []
    found: list[Passage] = []
    for doc_id in doc_ids:
        document = await tools.full_text(doc_id)
        found += await off_loop(len(document.text), partial(_rows_of, document, ask.question, tokens // len(doc_ids)))
    return found


def _best_meant(tools: Tools, question: str) -> list[str]:
    """Return the documents that a question means best, or about as well, also if retrieval does not look for them."""
    near = NEAR if tools.policy.fusion.named is not None else 1.0
    shares = tools.named(question)
    return sorted(
        (doc_id for doc_id, share in shares.items() if share >= near * max(shares.values())),
        key=lambda doc_id: (-shares[doc_id], doc_id),
    )


def _rows_of(document: Document, question: str, tokens: int) -> list[Passage]:
    name = " ".join([document.doc_id, document.title, *names_in(question)])
    rows = rows_needed(question, tables_of(document), name)
    return rows_passages(document, rows, tokens)


def _is_called(own: Sequence[Sequence[str]], name: str) -> bool:
    """Return whether a name is in a document's names or on its cover, whatever its blanks and legal forms."""
    key = company_key(name)
    return any(
        key in words or (len(key) > _SHORT_NAME and key in "".join(word for word in words if word not in CONNECTORS))
        for words in own
    )
