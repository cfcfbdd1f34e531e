"""From the components' sides to the sides of all that a set can show: questions, documents, texts.

A thing has a side when all that is known of it agrees. Whatever stands between two sides is left out, never shared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from okralong.pipelines.evaluation.datasets.values import DataSet, Item, Text
from okralong.pipelines.evaluation.split.components import Member
from okralong.pipelines.evaluation.split.keys import (
    Side,
    document_hash,
    gold_texts,
    question_hash,
    strictest,
    text_hash,
)


@dataclass(frozen=True, slots=True)
class Sides:
    """Sides by key. ``texts`` has only those texts that their documents' sides do not settle."""

    questions: Mapping[str, Side]
    documents: Mapping[str, Side]
    texts: Mapping[str, Side] = field(default_factory=dict)

    def knows(self, item: Item) -> bool:
        """Whether the item's question text was there when the split was drawn."""
        return question_hash(item.gold.question.question) in self.questions

    def of_item(self, item: Item) -> Side | None:
        """The item's side; None for a question that is unknown, or asked on a stricter side than its documents are."""
        question = self.questions.get(question_hash(item.gold.question.question))
        documents = (self.documents.get(document_hash(name)) for name in item.documents)
        texts = (self.texts.get(text_hash(identity)) for identity in gold_texts(item))
        return _agreed([question, *documents, *texts]) if question else None

    def shows(self, text: Text, side: Side) -> bool:
        """Whether an item of ``side`` that carries the text may show it."""
        known = [self.documents.get(document_hash(text.document)), self.texts.get(text_hash(text.text_id))]
        return all(each in (None, side) for each in known)


def settle(datasets: Sequence[DataSet], groups: Sequence[Sequence[Member]], drawn: Sequence[Side]) -> Sides:
    """The sides of everything, given the side of each component.

    A question asked in several components is the strictest one's. A document that nobody asks about, but that items of
    several sides carry as a distractor, is the strictest one's too, and so is a text that has several documents.
    """
    questions: dict[str, Side] = {}
    documents: dict[str, Side] = {}
    gold: dict[str, Side] = {}
    for group, side in zip(groups, drawn, strict=True):
        for member in group:
            questions[member.question] = strictest([side, questions.get(member.question, side)])
            documents.update(dict.fromkeys(member.documents, side))
            gold.update(dict.fromkeys(member.texts, side))
    asked = Sides(questions, documents, gold)
    carried = list(_carried(datasets, asked))
    contested = _strictest_of((document, side) for document, _, side in carried if document not in documents)
    documents |= {document: side for document, (side, several) in contested.items() if several}
    return Sides(questions, documents, _texts(carried, documents, gold))


def _texts(
    carried: Sequence[tuple[str, str, Side]], documents: Mapping[str, Side], gold: Mapping[str, Side]
) -> dict[str, Side]:
    """The sides of the texts that must be kept, because a document of theirs says otherwise or nothing."""
    owners: dict[str, set[str]] = defaultdict(set)
    carriers: dict[str, set[Side]] = defaultdict(set)
    for document, text, side in carried:
        owners[text].add(document)
        carriers[text].add(side)
    kept: dict[str, Side] = {}
    for text, names in owners.items():
        said = [documents[name] for name in names if name in documents]
        side = gold.get(text) or strictest(said or carriers[text])
        silent = len(said) < len(names) and carriers[text] != {side}
        if silent or set(said) - {side}:
            kept[text] = side
    return kept


def _carried(datasets: Iterable[DataSet], asked: Sides) -> Iterable[tuple[str, str, Side]]:
    """Document, text and side for every text and each side that carries it.

    Texts that no item names (a corpus that all are asked over) are carried by every side of their set.
    """
    for dataset in datasets:
        loose = set(dataset.texts) - {identity for item in dataset.items for identity in item.text_ids}
        seen: dict[tuple[str, Side], None] = {}
        for item in dataset.items:
            side = asked.of_item(item)
            if side:
                seen.update(dict.fromkeys((identity, side) for identity in (*item.text_ids, *gold_texts(item))))
        every = dict.fromkeys(side for _, side in seen)
        seen.update(dict.fromkeys((identity, side) for identity in sorted(loose) for side in every))
        for identity, side in seen:
            yield document_hash(dataset.texts[identity].document), text_hash(identity), side


def _strictest_of(pairs: Iterable[tuple[str, Side]]) -> dict[str, tuple[Side, bool]]:
    """By key, the strictest side and whether there are several."""
    found: dict[str, set[Side]] = defaultdict(set)
    for key, side in pairs:
        found[key].add(side)
    return {key: (strictest(sides), len(sides) > 1) for key, sides in found.items()}


def _agreed(sides: Iterable[Side | None]) -> Side | None:
    known = {side for side in sides if side}
    return known.pop() if len(known) == 1 else None
