"""Making a split: data sets and rules in, the sides of everything and an account of them out.

Questions that share a document or a text that holds evidence form a component, which stays together; each component is
drawn to a side by the shares of its rule. Whatever stands between two sides afterwards is left out, never shared.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, NamedTuple

from pydantic import Field, field_validator

from okralong.lab.datasets.base import DataSet, Item
from okralong.lab.datasets.split import (
    SIDES,
    Side,
    Split,
    document_hash,
    gold_texts,
    leaks,
    question_hash,
    strictest,
    text_hash,
)
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import BrokenError, InputError
from okralong.pipelines.reporting.metrics import plain_words
from okralong.pipelines.reporting.statistics import joined_by_documents
from okralong.pipelines.reporting.tables import markdown_table

RULES: Final = "split/rules.yaml"
"""The shipped rules: which sources go to which sides, in what shares."""

LEFT_OUT: Final = "left out"

BLOCK_WORDS: Final = 12
"""Words of a block that is looked for as a whole. Ours: long enough not to be a turn of phrase."""
BLOCKS_FOUND: Final = 0.5
"""Share of a text's blocks that must be found for it to stand inside another. Ours: survives cut ends."""


class Rule(Settings):
    """``sources`` are sets ("tatqa") or files of sets ("hotpotqa/dev"); ``shares`` are parts of their questions.

    ``round`` is for sets that are added to a split in use: the rules of round 1 are drawn as if there were no others,
    and what a later round adds to one of their components takes that component's side, so nothing moves that a model
    was trained or measured on.
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
        """Whether the file ``part`` of the set ``name`` is among the sources."""
        return name in self.sources or f"{name}/{part}" in self.sources


class SplitRules(Settings):
    """The first rule that covers any question of a component decides, within the earliest round of its questions; the
    last lines say who has no public names.

    ``named_by_questions``: a set whose documents have names of its own, and the sources whose questions tell which
    public document is meant. ``named_by_passages``: sets whose texts hold whole texts of other sets.
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
        """The number of the first rule for a file of a set; None when there is none."""
        return next((number for number, rule in enumerate(self.rules) if rule.covers(name, part)), None)

    def fingerprint(self) -> str:
        """A hash that changes with any value of the rules."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Account:
    """What a split came to.

    ``counts`` are questions by source and side (or "left out"); ``kept`` the share of their contexts that the items of
    a source may still show; ``shared`` the question texts that two sources both ask; ``named`` by set how many of its
    documents were found under other names, of how many; ``components`` by their number of questions.
    """

    counts: dict[str, dict[str, int]]
    kept: dict[str, float]
    shared: list[tuple[str, str, int]]
    named: dict[str, tuple[int, int]]
    components: list[int]


def build_split(datasets: Sequence[DataSet], rules: SplitRules) -> tuple[Split, Account]:
    """The split of ``datasets`` and its account.

    Raises InputError for no questions, or a source that no rule covers; BrokenError when something would stand on two
    sides.
    """
    if not any(dataset.items for dataset in datasets):
        raise InputError("There are no questions to split. Give a folder with at least one of the catalog's sets.")
    aliases = find_aliases(datasets, rules)
    groups, drawn = draw_in_rounds(members(datasets, aliases), rules)
    sides = settle(datasets, groups, drawn)
    counts = _counts(datasets, sides)
    about = {"seed": str(rules.seed), "rules": rules.fingerprint(), "counts": json.dumps(counts, sort_keys=True)}
    split = replace(sides, about=about)
    if found := leaks(datasets, split):
        raise BrokenError(
            f"The split would leak at {len(found)} places, so it was not written; this is a bug. The first: {found[0]}."
        )
    account = Account(
        counts,
        {_source(each): _kept(each, split) for each in datasets if each.texts},
        _shared(datasets),
        _named(datasets, aliases, rules),
        sorted((len(group) for group in groups), reverse=True),
    )
    return split, account


def _source(dataset: DataSet) -> str:
    return f"{dataset.name}/{dataset.part}"


def _counts(datasets: Sequence[DataSet], split: Split) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for dataset in datasets:
        counts: Counter[str] = Counter(split.side_of(item) or LEFT_OUT for item in dataset.items)
        found[_source(dataset)] = {side: counts[side] for side in (*SIDES, LEFT_OUT)}
    return found


def _kept(dataset: DataSet, split: Split) -> float:
    """Of the texts that the items with a side carry, the share that they may show."""
    carried = [(text, side) for item in dataset.items if (side := split.side_of(item)) for text in item.text_ids]
    shown = sum(split.shows(dataset.texts[text], side) for text, side in carried)
    return shown / len(carried) if carried else 1.0


def _shared(datasets: Sequence[DataSet]) -> list[tuple[str, str, int]]:
    asked: dict[str, set[str]] = defaultdict(set)
    for dataset in datasets:
        asked[_source(dataset)] |= {question_hash(item.gold.question.question) for item in dataset.items}
    pairs = [(one, other, len(asked[one] & asked[other])) for one, other in combinations(asked, 2)]
    return [pair for pair in pairs if pair[2]]


def _named(
    datasets: Sequence[DataSet], aliases: dict[str, tuple[str, ...]], rules: SplitRules
) -> dict[str, tuple[int, int]]:
    found = {}
    for name in dict.fromkeys([*rules.named_by_questions, *rules.named_by_passages]):
        documents = {d for dataset in datasets if dataset.name == name for i in dataset.items for d in i.documents}
        if documents:
            found[name] = (len(documents & set(aliases)), len(documents))
    return found


# --------
# Questions that must stay together.
#
# An equal question text does not join. Wordings such as "Summarize the meeting" are asked about hundreds of documents
# and would weld them into one; instead such a text gets one side afterwards (``settle``).

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
# Documents under several names. Some sets do not say which filing, paper or paragraph they show; others do.
#
# TAT-QA's contexts carry only a table's number, but most of their questions recur in UDA, which names the filing.
# LongBench's prompts hold whole paragraphs and papers of other sets, word for word.


def find_aliases(datasets: Sequence[DataSet], rules: SplitRules) -> dict[str, tuple[str, ...]]:
    """The public names of the documents of those sets that ``rules`` says have none, by the sets' own names."""
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
    """For each document of ``dataset`` the documents that ``naming`` asks the same questions about, by a vote.

    Each question whose text ``naming`` asks about one set of documents only has a vote; equal counts all win.
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
    """For each document of ``holders`` the documents of ``others`` of which a whole text stands inside it."""
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


# --------
# The draw: each component gets a side, so that each rule's shares come out by questions.

Component = Sequence[Member]


def draw_in_rounds(asked: Sequence[Member], rules: SplitRules) -> tuple[list[list[Member]], list[Side]]:
    """The components of all members, and a side for each, drawn round by round.

    A component that holds members of earlier rounds keeps their side (the strictest, where it joins several of their
    components). Raises InputError for a source that no rule covers.
    """
    rounds = [rules.rules[_rule(member, rules)].round for member in asked]
    groups: list[list[Member]] = []
    sides: list[Side] = []
    for number in sorted(set(rounds)):
        before = {id(member): side for group, side in zip(groups, sides, strict=True) for member in group}
        groups = components([member for member, its in zip(asked, rounds, strict=True) if its <= number])
        known = [[before[id(member)] for member in group if id(member) in before] for group in groups]
        drawn = iter(draw([group for group, settled in zip(groups, known, strict=True) if not settled], rules))
        sides = [strictest(settled) if settled else next(drawn) for settled in known]
    return groups, sides


def draw(groups: Sequence[Component], rules: SplitRules) -> list[Side]:
    """A side for each component, in order.

    A component follows the first rule that covers any of its members. Within a rule, the components of each source are
    shuffled by a hash of the seed and given, one by one, to the side that lacks most: of the questions that the rule
    covers and, as much, of all that come with them. So a set of two components has two sides, and a large set misses
    its shares by less than its largest component. Raises InputError for a source that no rule covers.
    """
    strata: dict[tuple[int, str], list[_Ticket]] = defaultdict(list)
    for number, group in enumerate(groups):
        rule, covered = _followed(group, rules)
        ((source, _),) = Counter(sorted(covered)).most_common(1)
        strata[rule, source].append(_Ticket(_shuffled(group, rules.seed), number, len(covered), len(group)))
    sides: list[Side] = ["test"] * len(groups)
    for (rule, _), tickets in strata.items():
        for number, side in _fill(sorted(tickets), rules.rules[rule].shares):
            sides[number] = side
    return sides


class _Ticket(NamedTuple):
    """A component's place in the draw, its number, and how many of its questions the rule covers, and of all."""

    place: str
    number: int
    covered: int
    all: int


def _fill(tickets: Sequence[_Ticket], shares: Mapping[Side, float]) -> Iterator[tuple[int, Side]]:
    """Each ticket's component with its side. The greedy step is the one that comes nearest to the shares in both
    counts (least squares of what is lacking, as parts of the whole).
    """
    covered, everything = sum(ticket.covered for ticket in tickets), sum(ticket.all for ticket in tickets)
    lacking = {side: (shares[side], shares[side]) for side in SIDES if shares.get(side)}
    for ticket in tickets:
        own, whole = ticket.covered / covered, ticket.all / everything
        gains = {side: own * lack + whole * more for side, (lack, more) in lacking.items()}
        side = max(gains, key=lambda each: gains[each])
        lacking[side] = (lacking[side][0] - own, lacking[side][1] - whole)
        yield ticket.number, side


def _followed(group: Component, rules: SplitRules) -> tuple[int, list[str]]:
    """The rule of a component, and the source of each member that it covers."""
    by_rule: dict[int, list[str]] = defaultdict(list)
    for member in group:
        by_rule[_rule(member, rules)].append(member.source)
    first = min(by_rule)
    return first, by_rule[first]


def _rule(member: Member, rules: SplitRules) -> int:
    """The number of the rule that covers a member. Raises InputError when there is none."""
    rule = rules.rule_of(member.name, member.part)
    if rule is None:
        raise InputError(
            f"No rule of the split covers {member.source}. Add it to the sources of a rule in a copy of "
            "configs/split/rules.yaml, and give that file with --rules."
        )
    return rule


def _shuffled(group: Component, seed: int) -> str:
    smallest = min(min((*member.documents, *member.texts), default=member.question) for member in group)
    return hashlib.sha256(f"{seed} {smallest}".encode()).hexdigest()


# --------
# From the components' sides to the sides of all that a set can show: questions, documents, texts.


def settle(datasets: Sequence[DataSet], groups: Sequence[Sequence[Member]], drawn: Sequence[Side]) -> Split:
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
    asked = Split(questions, documents, gold)
    carried = list(_carried(datasets, asked))
    contested = _strictest_of((document, side) for document, _, side in carried if document not in documents)
    documents |= {document: side for document, (side, several) in contested.items() if several}
    return Split(questions, documents, _texts(carried, documents, gold))


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


def _carried(datasets: Iterable[DataSet], asked: Split) -> Iterable[tuple[str, str, Side]]:
    """Document, text and side for every text and each side that carries it.

    Texts that no item names (a corpus that all are asked over) are carried by every side of their set.
    """
    for dataset in datasets:
        loose = set(dataset.texts) - {identity for item in dataset.items for identity in item.text_ids}
        seen: dict[tuple[str, Side], None] = {}
        for item in dataset.items:
            side = asked.side_of(item)
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


# --------
# The card beside a manifest: what stands where, in tables that a person reads.

_HEAD = """# The split: what stands on which side

Made by `okralong split`; do not edit. The manifest beside this card holds hashes only, no question and no text.
Train is for models, validation for their temperatures and thresholds, tune for the policy's values; figures come from
test. A question, a document and a paragraph stand on one side each, across all sets. A question text that several
components ask belongs to the strictest of their sides and is left out elsewhere (a generic wording such as "summarize
the meeting" is therefore in test alone). The counts are of the files that were at hand, which are subsets of the public
sets.
"""


def card(account: Account, split: Split, rules: SplitRules) -> str:
    """The card as Markdown."""
    sizes = account.components
    sections = [
        _HEAD,
        f"Seed {rules.seed}, rules {rules.fingerprint()}. {len(split.questions):,} question texts, "
        f"{len(split.documents):,} documents, {len(split.texts):,} further texts with a side of their own; "
        f"{len(sizes):,} components, the largest of {', '.join(map(str, sizes[:5]))} questions.",
        "## Questions by source and side",
        markdown_table(["source", *SIDES, LEFT_OUT, "all"], _count_rows(account.counts)),
        "## Rules",
        "The first line that covers any question of a component decides for all of it, so the counts above differ from "
        "the shares where sets share documents. The lines of a later round are drawn after those of the round before, "
        "and move nothing of it.",
        markdown_table(["round", "sources", "shares", "why"], map(_rule_row, rules.rules)),
        "## Question texts that two sources both ask",
        markdown_table(["source", "source", "shared"], ([one, other, f"{n:,}"] for one, other, n in account.shared)),
        "## Contexts",
        "The share of the texts in the items' own contexts that they may still show. The rest are distractors which "
        "belong to another side.",
        markdown_table(["source", "kept"], ([source, f"{kept:.1%}"] for source, kept in account.kept.items())),
        "## Documents found under public names",
        markdown_table(["set", "found", "of"], ([name, str(n), str(of)] for name, (n, of) in account.named.items())),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _rule_row(rule: Rule) -> Sequence[str]:
    shares = ", ".join(f"{side} {share:g}" for side, share in rule.shares.items())
    return [str(rule.round), ", ".join(rule.sources), shares, rule.why]


def _count_rows(counts: Mapping[str, Mapping[str, int]]) -> Iterable[Sequence[str]]:
    columns = (*SIDES, LEFT_OUT)
    totals = dict.fromkeys(columns, 0)
    for source, by_side in counts.items():
        yield [source, *(f"{by_side[column]:,}" for column in columns), f"{sum(by_side.values()):,}"]
        totals = {column: totals[column] + by_side[column] for column in columns}
    yield ["all", *(f"{totals[column]:,}" for column in columns), f"{sum(totals.values()):,}"]
