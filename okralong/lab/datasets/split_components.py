"""Find the questions that must be on one side: rules, public names of documents, components that share documents."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import Field, field_validator

from okralong.lab.datasets.base import DataSet, Item
from okralong.lab.datasets.split import Side, document_hash, gold_texts, question_hash, text_hash
from okralong.pipelines.core.config import Settings
from okralong.pipelines.reporting.metrics import plain_words
from okralong.pipelines.reporting.statistics import joined_by_documents

BLOCK_WORDS: Final = 12  # project default
"""Number of words of a block, which is searched for as a whole. It is too long to be a common phrase."""
BLOCKS_FOUND: Final = 0.5  # project default
"""A text is found in another one if this share of its blocks occurs there. This tolerates truncated ends."""


class Rule(Settings):
    """The shares of the sides for some sources.

    ``sources`` are sets ("tatqa") or files of sets ("hotpotqa/dev"); ``shares`` are shares of their questions.
    ``round`` is for sets that are added to a split that is in use. The rules of round 1 are applied as if there were no
    others, and what is later added to a component gets the component's side, so that data that was used in training or
    evaluation never changes its side.
    """

    sources: tuple[str, ...] = Field(min_length=1, strict=False)
    shares: dict[Side, float]
    why: str
    round: int = Field(default=1, ge=1)

    @field_validator("shares")
    @classmethod
    def _whole(cls, shares: dict[Side, float]) -> dict[Side, float]:
        if min(shares.values(), default=0.0) < 0 or abs(sum(shares.values()) - 1) > 1e-9:
            raise ValueError("the shares must be positive and add up to 1")
        return shares

    def covers(self, name: str, part: str) -> bool:
        """Return whether the file ``part`` of the set ``name`` is among the sources."""
        return name in self.sources or f"{name}/{part}" in self.sources


class SplitRules(Settings):
    """The rules of a split.

    A component follows the first rule that covers any of its questions, among the rules of their earliest round.
    ``named_by_questions`` maps a set whose documents have private names to the sources whose questions reveal the
    public ones. ``named_by_passages`` lists sets whose texts contain whole texts of other sets.
    """

    seed: int
    rules: tuple[Rule, ...] = Field(min_length=1, strict=False)
    named_by_questions: dict[str, tuple[str, ...]] = Field(default_factory=dict, strict=False)
    named_by_passages: tuple[str, ...] = Field(default=(), strict=False)

    @field_validator("named_by_questions", mode="before")
    @classmethod
    def _tuples(cls, value: object) -> object:
        return {k: tuple(v) for k, v in value.items()} if isinstance(value, dict) else value

    def rule_of(self, name: str, part: str) -> int | None:
        """Return the number of the first rule for a file of a set, or None."""
        return next((number for number, rule in enumerate(self.rules) if rule.covers(name, part)), None)

    def fingerprint(self) -> str:
        """Return a hash that changes with any value of the rules."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


# --------
# Questions that must be on one side.
#
# Equal question texts do not join components: "Summarize the meeting" is asked about hundreds of documents and would
# join them all. Such a text is assigned one side afterwards (``settle``).

Aliases = Mapping[str, Sequence[str]]
"""The other names of documents, by name."""


@dataclass(frozen=True, slots=True)
class Member:
    """An item with its source, and the keys of its documents and of its texts with evidence."""

    name: str
    part: str
    item: Item
    question: str
    documents: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def source(self) -> str:
        """The set and file, as rules name them."""
        return f"{self.name}/{self.part}"


def members(datasets: Iterable[DataSet], aliases: Aliases) -> list[Member]:
    """Return all items, in order. Their documents include those of their gold texts, and other names of all these."""
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
    """Group the members so that no document and no text with evidence is in two groups.

    Items without documents and texts are grouped by their question. Groups are in the order of their first members.
    """
    rests_on = [
        (*(f"document {key}" for key in member.documents), *(f"text {key}" for key in member.texts))
        or (f"question {member.question}",)
        for member in asked
    ]
    groups: dict[str, list[Member]] = defaultdict(list)
    for member, name in zip(asked, joined_by_documents(rests_on), strict=True):
        groups[name].append(member)
    return list(groups.values())


# --------
# Documents with several names.
#
# TAT-QA's contexts have only the id of a table, but most of their questions also occur in UDA, which names the filing.
# LongBench's prompts contain whole paragraphs and papers of other sets literally.


def find_aliases(datasets: Sequence[DataSet], rules: SplitRules) -> dict[str, tuple[str, ...]]:
    """Return the public names of documents, for the sets that ``rules`` lists, by the sets' own names."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for name, sources in rules.named_by_questions.items():
        naming = [dataset for dataset in datasets if {dataset.name, f"{dataset.name}/{dataset.part}"} & set(sources)]
        for dataset in (dataset for dataset in datasets if dataset.name == name):
            for document, names in by_questions(dataset, naming).items():
                found[document].update(dict.fromkeys(names))
    holders = [dataset for dataset in datasets if dataset.name in rules.named_by_passages]
    others = [dataset for dataset in datasets if dataset.name not in rules.named_by_passages]
    for document, names in by_passages(holders, others).items():
        found[document].update(dict.fromkeys(names))
    return {document: tuple(names) for document, names in found.items()}


def by_questions(dataset: DataSet, naming: Iterable[DataSet]) -> dict[str, tuple[str, ...]]:
    """Return, for each document of ``dataset``, those about which ``naming`` asks the same questions, by a vote.

    A question has a vote if ``naming`` asks it about only one set of documents. Of equal counts, all are returned.
    """
    asked: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for other in naming:
        for item in other.items:
            asked[question_hash(item.gold.question.question)].add(item.documents)
    votes: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for item in dataset.items:
        candidates = asked.get(question_hash(item.gold.question.question), set())
        if len(candidates) == 1:
            for document in item.documents:
                votes[document].update(candidates)
    return {document: _winners(counts) for document, counts in votes.items()}


def by_passages(holders: Iterable[DataSet], others: Iterable[DataSet]) -> dict[str, tuple[str, ...]]:
    """Return, for each document of ``holders``, the documents of ``others`` of which it contains a whole text."""
    holding: dict[str, dict[str, None]] = defaultdict(dict)
    for text in (text for dataset in holders for text in dataset.texts.values()):
        words = plain_words(text.text)
        for start in range(len(words) - BLOCK_WORDS + 1):
            holding[" ".join(words[start : start + BLOCK_WORDS])][text.document] = None
    inside: dict[str, dict[str, None]] = defaultdict(dict)
    for text in (text for dataset in others if holding for text in dataset.texts.values()):
        words = plain_words(text.text)
        starts = range(0, len(words) - BLOCK_WORDS + 1, BLOCK_WORDS)
        blocks = [" ".join(words[start : start + BLOCK_WORDS]) for start in starts]
        seen = Counter(holder for block in blocks for holder in holding.get(block, ()))
        for holder in (holder for holder, count in seen.items() if count >= BLOCKS_FOUND * len(blocks)):
            inside[holder][text.document] = None
    return {holder: tuple(names) for holder, names in inside.items()}


def _winners(counts: Counter[tuple[str, ...]]) -> tuple[str, ...]:
    most = max(counts.values())
    return tuple(dict.fromkeys(name for documents, count in counts.items() if count == most for name in documents))
