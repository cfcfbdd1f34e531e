"""Questions that must stay together: those that share a document or a text that holds evidence.

An equal question text does not join. Wordings such as "Summarize the meeting" are asked about hundreds of documents
and would weld them into one; instead such a text gets one side afterwards (``sides.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from okralong.pipelines.evaluation.datasets.values import DataSet, Item
from okralong.pipelines.evaluation.split.keys import document_hash, gold_texts, question_hash, text_hash

Aliases = Mapping[str, Sequence[str]]
"""Other names of a document, by its name."""


@dataclass(frozen=True, slots=True)
class Member:
    """An item with where it is from, and the keys of what it rests on: its documents and the texts with evidence."""

    name: str
    part: str
    item: Item
    question: str
    documents: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def source(self) -> str:
        """Set and file as the rules write them."""
        return f"{self.name}/{self.part}"


def members(datasets: Iterable[DataSet], aliases: Aliases) -> list[Member]:
    """Every item of every set, in order. The documents of its gold texts and their other names count as its own."""
    found = []
    for dataset in datasets:
        for item in dataset.items:
            gold = gold_texts(item)
            names = dict.fromkeys([*item.documents, *(dataset.texts[identity].document for identity in gold)])
            known = dict.fromkeys(other for name in names for other in (name, *aliases.get(name, ())))
            found.append(
                Member(
                    dataset.name,
                    dataset.part,
                    item,
                    question_hash(item.gold.question.question),
                    tuple(map(document_hash, known)),
                    tuple(map(text_hash, gold)),
                )
            )
    return found


def components(asked: Sequence[Member]) -> list[list[Member]]:
    """The members, grouped so that no document and no text with evidence stands in two groups.

    An item that rests on nothing is grouped with its equals by its question. Groups come in the order of their first
    members.
    """
    parents: dict[tuple[str, str], tuple[str, str]] = {}

    def root(node: tuple[str, str]) -> tuple[str, str]:
        parents.setdefault(node, node)
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    firsts = []
    for member in asked:
        nodes = [("document", key) for key in member.documents] + [("text", key) for key in member.texts]
        first, *others = nodes or [("question", member.question)]
        for node in others:
            parents[root(node)] = root(first)
        firsts.append(first)
    groups: dict[tuple[str, str], list[Member]] = {}
    for member, first in zip(asked, firsts, strict=True):
        groups.setdefault(root(first), []).append(member)
    return list(groups.values())
