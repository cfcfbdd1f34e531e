"""Find the documents that a question names, and the rows of their statements that it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from okralong.pipelines.answering.ask import Ask
from okralong.pipelines.answering.needed_rows import rows_needed, rows_passages
from okralong.pipelines.answering.retrieve import names_in
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Document, Hit, Passage
from okralong.pipelines.statements.text_tables import tables_of

LONGEST_QUESTION: Final = 2_000  # project default: a question for a line item has a hundred characters
"""The most characters of a question that code analyzes."""
MOST_NAMED: Final = 3  # project default
"""The most documents whose rows are shown for one question."""
_MOST_TITLES: Final = 4  # project default
"""The most documents whose title page is read for one question."""
TITLE_PAGE: Final = 2500  # project default
"""Characters at the beginning of a document that name its company."""
_ANOTHER: Final = 0.5  # project default
"""A question also names a further document, besides the best one, if it contains this share of its name."""
_NAME_WORD: Final = re.compile(r"[A-Z\d][\w&-]*")
_PERIOD_WORD: Final = re.compile(r"(?:first|second|third|fourth|quarter|[Qq][1-4]|(?:19|20)\d\d)$")
_NAME: Final = r"(?P<name>[A-Z\d][\w.&'\u2019/\\-]*,?(?:\s+(?:[A-Z\d(\\&][\w.&'\u2019/()\\-]*,?|of|and|the|for|de))*)"
_OF_NAME: Final = re.compile(
    rf"\s+(?:of|for|by|at)\s+(?:the\s+)?{_NAME}(?P<rest>(?:,?\s(?:for|in|during|as\sof|at\sthe\send\sof)\s[^?]*)?\s*\?*\s*)$"
)
_ITS: Final = re.compile(rf"\b(?:is|was|are|were)\s+{_NAME}(?:(?<=s)['\u2019]|['\u2019]s)\s+(?P<rest>)")


async def named_document(tools: Tools, question: str) -> tuple[Document, str] | None:
    """Return the document that a question is about, and the question without the document's name.

    This is the only document of the scope, or the one that the question names best. Return None if there is neither.
    """
    named = _OF_NAME.search(question) or _ITS.search(question)
    if tools.scope_size == 1:
        document = await tools.full_text((await tools.documents())[0][0])
        return document, _unnamed(question, named) if named and _is_called(document, named["name"]) else question
    if named is None:
        return None
    best = _best_named(tools, question[named.start() :])
    if len(best) != 1:
        return None
    document = await tools.full_text(best[0])
    return (document, _unnamed(question, named)) if _is_called(document, named["name"]) else None


async def needed_rows(ask: Ask, tokens: int, hits: Sequence[Hit] = ()) -> list[Passage]:
    """Return the rows of tables that the question needs, one passage per table, with at most ``tokens`` tokens.

    The rows are from the only document of the scope, or from the documents that the question names; those of ``hits``
    may have the name on their title page only. There are no rows if it names no document, or more than ``MOST_NAMED``.
    """
    if len(ask.question) > LONGEST_QUESTION:
        return []
    tools, names = ask.tools, names_in(ask.question)
    if tools.scope_size > 1 and names and not tools.named(" ".join(names)):
        doc_ids = await _titled(tools, names, hits)
    else:
        doc_ids = await _named_documents(tools, ask.question)
    found: list[Passage] = []
    for doc_id in doc_ids:
        document = await tools.full_text(doc_id)
        found += await off_loop(len(document.text), partial(_rows_of, document, ask.question, tokens // len(doc_ids)))
    return found


async def _titled(tools: Tools, names: Sequence[str], hits: Sequence[Hit]) -> list[str]:
    """Return the documents of ``hits`` that have most of the names on their title page."""
    held: dict[str, int] = {}
    for doc_id in list(dict.fromkeys(hit.chunk.doc_id for hit in hits))[:_MOST_TITLES]:
        title = set(re.findall(r"\w[\w&-]*", (await tools.full_text(doc_id)).text[:TITLE_PAGE].casefold()))
        held[doc_id] = sum(name.casefold() in title for name in names)
    most = max(held.values(), default=0)
    found = [doc_id for doc_id, count in held.items() if count == most > 0]
    return found if len(found) <= MOST_NAMED else []


def _rows_of(document: Document, question: str, tokens: int) -> list[Passage]:
    name = " ".join([document.doc_id, document.title, *names_in(question)])
    rows = rows_needed(question, tables_of(document), name)
    return rows_passages(document, rows, tokens)


async def _named_documents(tools: Tools, question: str) -> list[str]:
    """Return the documents that fit the names and times in a question best.

    A question about two companies names two documents, so those that fit its other names are added. The result is empty
    if there are more than ``MOST_NAMED``.
    """
    if tools.scope_size == 1:
        return [(await tools.documents())[0][0]]
    words = re.findall(r"\w[\w&-]*", question)
    names = [word for word in words if _NAME_WORD.match(word) or _PERIOD_WORD.match(word)]
    found = _best_named(tools, " ".join(names))
    known = set(re.findall(r"[a-z\d]+", " ".join(found).casefold()))
    others = [word for word in names if word.casefold() not in known and not _PERIOD_WORD.match(word)]
    found += [doc_id for doc_id in _best_named(tools, " ".join(others), _ANOTHER) if doc_id not in found]
    return found if len(found) <= MOST_NAMED else []


def _best_named(tools: Tools, words: str, least: float = 0.0) -> list[str]:
    """Return the documents that the words name best, or about as well; none unless the best share exceeds ``least``."""
    near = tools.policy.fusion.named.near if tools.policy.fusion.named is not None else 1.0
    shares = tools.named(words)
    most = max(shares.values(), default=0.0)
    return [doc_id for doc_id, share in shares.items() if share >= near * most] if most > least else []


def _is_called(document: Document, name: str) -> bool:
    """Return whether a name consists of words in the document's names, or occurs on its title page."""
    names = set(re.findall(r"[a-z]+", f"{document.doc_id} {document.title}".casefold()))
    words = re.findall(r"[a-z]+", name.casefold())
    cover = " ".join(document.text[:TITLE_PAGE].casefold().split())
    return bool(words) and (names.issuperset(words) or " ".join(name.casefold().split()).rstrip(".,") in cover)


def _unnamed(question: str, named: re.Match[str]) -> str:
    ahead = "" if named.re is _OF_NAME else f"{question[named.start() : named.start('name')]}the "
    return f"{question[: named.start()]}{ahead}{named['rest']}{question[named.end() :]}"
