"""Pool short texts into long documents. Long texts become documents as they are.

The context of a HotpotQA question has 600 to 900 words, which any method can show in full. Retrieval is tested only if
the contexts of several questions are mixed. Pooling never changes a text, so a range of a text is, with an offset, a
range of the document.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from typing import Final

from okralong.lab.datasets.base import DataSet, Item, Text
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import InputError, Section

JOINT: Final = "\n\n"  # project default
"""The separator between two texts in a document."""

MOST_ID_CHARS: Final = 80  # project default
"""Most characters of a source's name in a doc_id."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Span:
    """The range ``[start_char, end_char)`` of a document."""

    doc_id: str
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class CellSpan:
    """A gold cell, as the ranges in the document of its row and of the column heads."""

    row: Span
    header: Span


@dataclass(frozen=True, slots=True)
class PooledDocument:
    """A document to index. ``placed`` maps a text_id to the offset at which that text begins.

    ``sections`` are the beginnings of its pages, for a text that is a document by itself.
    """

    doc_id: str
    text: str
    placed: Mapping[str, int]
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class PooledQuestion:
    """An item with the documents of its scope, and its evidence, cells and pools of pages as ranges in them."""

    item: Item
    doc_ids: tuple[str, ...]
    evidence: tuple[Span, ...]
    cells: tuple[CellSpan, ...]
    pools: tuple[tuple[Span, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Pooled:
    """Documents, and the questions on them in the order of the items.

    ``left_out`` are the query_ids of items for which the set has no text.
    """

    documents: tuple[PooledDocument, ...]
    questions: tuple[PooledQuestion, ...]
    left_out: tuple[str, ...] = ()


def pool(
    items: Sequence[Item],
    texts: Mapping[str, Text],
    tokens: int,
    seed: int,
    spare: Iterable[Text] = (),
    name: str = "pool",
) -> Pooled:
    """Pool the texts of ``items`` into documents ``{name}-0000``, ... of at least ``tokens`` o200k tokens each.

    All texts of an item are in one document, and a document has a text only once; items with the same texts are in the
    same document. Items are shuffled by the seed, independently of the order given. The last document is filled up with
    texts of the others, then with ``spare`` texts that it does not have; texts that no item names are not used. The
    texts in a document are shuffled by the seed, too.

    Raises InputError if all texts together have fewer than ``tokens`` tokens.
    """
    groups: dict[frozenset[str], list[str]] = {}
    for item in sorted(items, key=lambda item: item.gold.question.query_id):
        if own := own_texts(item):
            groups.setdefault(frozenset(own), own)
    if not groups:
        return _ask(items, (), {})
    known = {text_id: texts[text_id].text for own in groups.values() for text_id in own}
    own_ids = sorted(known)
    for text in spare:
        known.setdefault(text.text_id, text.text)
    spare_ids = sorted(known.keys() - set(own_ids))
    sizes = {text_id: count_tokens(text) for text_id, text in known.items()}
    order = list(groups)
    for shuffled in (order, own_ids, spare_ids):
        random.Random(f"{seed}:{name}").shuffle(shuffled)
    fillers = own_ids + spare_ids

    documents: list[PooledDocument] = []
    home: dict[frozenset[str], str] = {}
    for members in _fill(order, sizes, tokens):
        doc_id = f"{name}-{len(documents):04d}"
        home.update((group, doc_id) for group in members)
        placed = list(dict.fromkeys(text_id for group in members for text_id in groups[group]))
        filler = filterfalse(frozenset(placed).__contains__, fillers)
        documents.append(_document(doc_id, placed, filler, known, sizes, tokens, f"{seed}:{doc_id}"))
    by_id = {document.doc_id: document for document in documents}
    return _ask(items, documents, {group: dict.fromkeys(group, by_id[doc_id]) for group, doc_id in home.items()})


def whole(dataset: DataSet) -> Pooled:
    """Make a document of each text that an item names, for sets with long texts.

    Its doc_id is the text's ``document`` in characters that are safe in file names and globs; if several texts share
    it, the text_id is appended.
    """
    used = dict.fromkeys(text_id for item in dataset.items for text_id in own_texts(item))
    texts = [dataset.texts[text_id] for text_id in used]
    names = Counter(_safe(text.document).casefold() for text in texts)
    documents: dict[str, PooledDocument] = {}
    for text in texts:
        safe = _safe(text.document)
        doc_id = safe if names[safe.casefold()] == 1 else f"{safe}-{text.text_id}"
        documents[text.text_id] = PooledDocument(doc_id, text.text, {text.text_id: 0}, text.sections)
    groups = {frozenset(own_texts(item)) for item in dataset.items}
    return _ask(dataset.items, documents.values(), {g: {text_id: documents[text_id] for text_id in g} for g in groups})


def own_texts(item: Item) -> list[str]:
    """Return the text_ids that an item's document must have: its context, and the texts of its evidence and cells."""
    return list(dict.fromkeys([*item.text_ids, *(e.text_id for e in item.evidence), *(c.text_id for c in item.cells)]))


def _fill(order: Sequence[frozenset[str]], sizes: Mapping[str, int], tokens: int) -> Iterator[list[frozenset[str]]]:
    """Group items into documents. Only the last document may be too short."""
    members: list[frozenset[str]] = []
    held: set[str] = set()
    for group in order:
        members.append(group)
        held |= group
        if sum(sizes[text_id] for text_id in held) >= tokens:
            yield members
            members, held = [], set()
    if members:
        yield members


def _document(
    doc_id: str,
    placed: list[str],
    filler: Iterator[str],
    known: Mapping[str, str],
    sizes: Mapping[str, int],
    tokens: int,
    seed: str,
) -> PooledDocument:
    """Make a document, adding filler until the joined text, which may be shorter than its parts, has enough tokens."""
    total = sum(sizes[text_id] for text_id in placed)
    while True:
        if total >= tokens:
            order = list(placed)
            random.Random(seed).shuffle(order)
            text = JOINT.join(known[text_id] for text_id in order)
            if count_tokens(text) >= tokens:
                break
        added = next(filler, None)
        if added is None:
            raise InputError(
                f"The set and its spare texts have {len(known)} texts of {sum(sizes.values()):,} tokens in all, too "
                f"few to pool documents of {tokens:,} tokens. Choose shorter documents or give more texts."
            )
        placed.append(added)
        total += sizes[added]
    starts, at = {}, 0
    for text_id in order:
        starts[text_id] = at
        at += len(known[text_id]) + len(JOINT)
    return PooledDocument(doc_id, text, starts)


def _ask(
    items: Sequence[Item],
    documents: Iterable[PooledDocument],
    homes: Mapping[frozenset[str], Mapping[str, PooledDocument]],
) -> Pooled:
    """Return the items as questions on the documents. ``homes`` maps an item's set of texts to the document of each."""
    questions, left_out = [], []
    for item in items:
        own = own_texts(item)
        if not own:
            left_out.append(item.gold.question.query_id)
            continue
        home = homes[frozenset(own)]
        questions.append(
            PooledQuestion(
                item,
                tuple(dict.fromkeys(home[text_id].doc_id for text_id in own)),
                tuple(_span(home, e.text_id, (e.start_char, e.end_char)) for e in item.evidence),
                tuple(CellSpan(_span(home, c.text_id, c.row), _span(home, c.text_id, c.header)) for c in item.cells),
                tuple(tuple(_span(home, p.text_id, (p.start_char, p.end_char)) for p in pool) for pool in item.pools),
            )
        )
    return Pooled(tuple(documents), tuple(questions), tuple(left_out))


def _span(home: Mapping[str, PooledDocument], text_id: str, place: tuple[int, int]) -> Span:
    document = home[text_id]
    start = document.placed[text_id]
    return Span(document.doc_id, start + place[0], start + place[1])


def _safe(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return _UNSAFE.sub("_", plain)[:MOST_ID_CHARS].strip("._-") or "text"
