"""What the split knows things by: short hashes that follow from the words alone, so no text is committed."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, field_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.schemas import SPLIT
from okralong.pipelines.core.types import BrokenError, ConfigError, InputError
from okralong.pipelines.lab.datasets.base import DataSet, Item, Text, text_id
from okralong.pipelines.reporting.metrics import plain_words

Side: TypeAlias = Literal["train", "validation", "tune", "test"]

SIDES: Final[tuple[Side, ...]] = ("train", "validation", "tune", "test")
"""From the freest to the strictest. Models are trained on train; validation chooses temperatures and thresholds, tune
the policy's values; figures come from test."""

KEY_DIGITS: Final = 10
"""Hex digits of a key, 5 bytes: among 40,000 keys two are equal by chance once in 1,400 manifests."""


def question_hash(question: str) -> str:
    """The key of a question's text: case, punctuation and spacing do not count."""
    return text_id(question)[:KEY_DIGITS]


def document_hash(document: str) -> str:
    """The key of a document's name. A name without letters and digits counts as it is written."""
    words = " ".join(plain_words(document)) or document
    return hashlib.sha256(f"document {words}".encode()).hexdigest()[:KEY_DIGITS]


def text_hash(identity: str) -> str:
    """The key of a text by its ``text_id``."""
    return identity[:KEY_DIGITS]


def strictest(sides: Iterable[Side]) -> Side:
    """The strictest of ``sides``, which must not be empty."""
    return max(sides, key=SIDES.index)


def gold_texts(item: Item) -> tuple[str, ...]:
    """The text_ids that hold an item's evidence or its cells, each once."""
    return tuple(dict.fromkeys([*(e.text_id for e in item.evidence), *(c.text_id for c in item.cells)]))


# --------
# Questions that must stay together: those that share a document or a text that holds evidence.
#
# An equal question text does not join. Wordings such as "Summarize the meeting" are asked about hundreds of documents
# and would weld them into one; instead such a text gets one side afterwards (``sides.py``).

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


# --------
# Which sources go to which sides, in what shares: ``configs/split/rules.yaml``.

RULES: Final = "split/rules.yaml"
"""The shipped rules."""


class Rule(Settings):
    """``sources`` are sets ("tatqa") or files of sets ("hotpotqa/dev"); ``shares`` are parts of their questions."""

    sources: tuple[str, ...] = Field(min_length=1, strict=False)
    shares: dict[Side, float]
    why: str

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
    """The first rule that covers any question of a component decides; the last lines say who has no public names.

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


# --------
# Documents under several names. Some sets do not say which filing, paper or paragraph they show; others do.
#
# TAT-QA's contexts carry only a table's number, but most of their questions recur in UDA, which names the filing.
# LongBench's prompts hold whole paragraphs and papers of other sets, word for word.

BLOCK_WORDS: Final = 12
"""Words of a block that is looked for as a whole. Ours: long enough not to be a turn of phrase."""
BLOCKS_FOUND: Final = 0.5
"""Share of a text's blocks that must be found for it to stand inside another. Ours: survives cut ends."""


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
        rule = rules.rule_of(member.name, member.part)
        if rule is None:
            raise InputError(
                f"No rule of the split covers {member.source}. Add it to the sources of a rule in a copy of "
                "configs/split/rules.yaml, and give that file with --rules."
            )
        by_rule[rule].append(member.source)
    first = min(by_rule)
    return first, by_rule[first]


def _shuffled(group: Component, seed: int) -> str:
    smallest = min(min((*member.documents, *member.texts), default=member.question) for member in group)
    return hashlib.sha256(f"{seed} {smallest}".encode()).hexdigest()


# --------
# From the components' sides to the sides of all that a set can show: questions, documents, texts.
#
# A thing has a side when all that is known of it agrees. Whatever stands between two sides is left out, never shared.


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


# --------
# The manifest file: one Parquet row a key, 5 bytes each, with what it was made from in its metadata.

MANIFEST: Final = "split/manifest.parquet"
"""The shipped manifest, among the configs."""

_PREFIX: Final = b"okralong.split."


def write_manifest(file: Path, sides: Sides, about: Mapping[str, str]) -> None:
    """Write ``sides``; ``about`` goes into the file's metadata. The same values make the same bytes."""
    kinds: dict[str, Mapping[str, Side]] = {
        "question": sides.questions,
        "document": sides.documents,
        "text": sides.texts,
    }
    rows = [(kind, side, key) for kind, by_key in kinds.items() for key, side in by_key.items()]
    rows.sort(key=lambda row: (list(kinds).index(row[0]), SIDES.index(row[1]), row[2]))
    columns = [[kind for kind, _, _ in rows], [side for _, side, _ in rows], [bytes.fromhex(k) for _, _, k in rows]]
    said = {_PREFIX + name.encode(): value.encode() for name, value in about.items()}
    table = pa.table(columns, schema=SPLIT.with_metadata({**SPLIT.metadata, **said}))
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, compression="zstd", compression_level=19, use_dictionary=["kind", "side"])


def read_manifest(source: str | Path = MANIFEST) -> tuple[Sides, dict[str, str]]:
    """The sides and what the file says of itself. Raises ConfigError for no such file, or none of this version."""
    path = Path(source)
    shipped = resources.files("okralong.configs").joinpath(str(source))
    if not path.is_file() and not shipped.is_file():
        raise ConfigError(f"There is no split manifest {source}. Make one with `okralong split DATA --out DIR`.")
    try:
        table = pq.read_table(io.BytesIO(path.read_bytes() if path.is_file() else shipped.read_bytes()))
    except pa.ArrowInvalid as error:
        raise ConfigError(f"{source} is no Parquet file: {error}. Make it again with `okralong split`.") from error
    metadata = table.schema.metadata or {}
    if not table.schema.equals(SPLIT) or any(metadata.get(name) != value for name, value in SPLIT.metadata.items()):
        raise ConfigError(f"{source} is no split manifest of this version. Make it again with `okralong split`.")
    by_kind: dict[str, dict[str, Side]] = {"question": {}, "document": {}, "text": {}}
    names = {name: name for name in get_args(Side)}
    for kind, side, key in zip(*(table[column].to_pylist() for column in SPLIT.names), strict=True):
        if by_kind[kind].setdefault(key.hex(), names[side]) != side:
            raise ConfigError(f"{source}: the {kind} {key.hex()} stands on two sides. Make the manifest again.")
    about = {k[len(_PREFIX) :].decode(): v.decode() for k, v in metadata.items() if k.startswith(_PREFIX)}
    return Sides(by_kind["question"], by_kind["document"], by_kind["text"]), about


# --------
# The split as training and evaluation use it: ``Split.load().filter(dataset, "test")``.


@dataclass(frozen=True, slots=True)
class Split:
    """Sides by hash, and what the manifest says of itself (``about``: seed, fingerprint of the rules, counts)."""

    sides: Sides
    about: Mapping[str, str]

    @classmethod
    def load(cls, source: str | Path = MANIFEST) -> Split:
        """The shipped split, or one that ``okralong split`` wrote. Raises ConfigError when it cannot be read."""
        return cls(*read_manifest(source))

    def side_of(self, item: Item) -> Side | None:
        """The item's side; None when it is left out (its question is asked on a stricter side too) or unknown."""
        return self.sides.of_item(item)

    def text_side(self, text_id: str) -> Side | None:
        """The side of a text that several sides carry and its document does not settle; None for all others."""
        return self.sides.texts.get(text_hash(text_id))

    def filter(self, dataset: DataSet, side: Side) -> DataSet:
        """The items of ``side``, and of their texts those that no other side owns. May be empty.

        Raises InputError when ``dataset`` has questions that the manifest does not know: nothing tells whether their
        documents stand elsewhere on another side, so no side is guessed for them.
        """
        unknown = [item for item in dataset.items if not self.sides.knows(item)]
        if unknown:
            raise InputError(
                f"The split does not know {len(unknown)} of the {len(dataset.items)} questions of {dataset.name}/"
                f"{dataset.part} (the first: {unknown[0].gold.question.query_id}). It was made from other files. Make "
                "one from yours with `okralong split DATA --out DIR` and give its manifest.parquet; or, for questions "
                "that nothing is trained or tuned on, use the whole set (side: all, in a sweep of `okralong evaluate`)."
            )
        items = [item for item in dataset.items if self.side_of(item) == side]
        shown = {identity for identity, text in dataset.texts.items() if self.sides.shows(text, side)}
        kept = tuple(replace(item, text_ids=tuple(t for t in item.text_ids if t in shown)) for item in items)
        return replace(dataset, items=kept, texts=_texts_of(dataset, kept, shown) if kept else {})


def _texts_of(dataset: DataSet, kept: tuple[Item, ...], shown: set[str]) -> dict[str, Text]:
    """The texts of the kept items, and those shown texts that belong to no item (a corpus)."""
    named = {identity for item in dataset.items for identity in item.text_ids}
    wanted = {identity for item in kept for identity in (*item.text_ids, *gold_texts(item))}
    return {t: text for t, text in dataset.texts.items() if t in wanted or (t in shown and t not in named)}


# --------
# The check that a split keeps its word, by what its readers would be given and not by how it was made.


def leaks(datasets: Iterable[DataSet], split: Split) -> list[str]:
    """What stands on two sides after ``split.filter``, one line each; empty for a sound split.

    Looked at are question texts, documents (those asked about and those shown), every shown text, and whether an item
    has lost a text that holds its evidence.
    """
    where: dict[tuple[str, str], dict[Side, str]] = defaultdict(dict)
    found = []
    for dataset in datasets:
        for side in SIDES:
            part = split.filter(dataset, side)
            source = f"{part.name}/{part.part}"
            for text in part.texts.values():
                where["text", text.text_id][side] = source
                where["document", _same(text.document)][side] = source
            for item in part.items:
                question = item.gold.question
                where["question", question_hash(question.question)][side] = f"{source} {question.query_id}"
                for document in item.documents:
                    where["document", _same(document)][side] = f"{source} {question.query_id}"
                lost = [t for t in gold_texts(item) if not split.sides.shows(dataset.texts[t], side)]
                found += [f"{source} {question.query_id} on {side} has lost its gold text {each}" for each in lost]
    for (kind, key), places in where.items():
        if len(places) > 1:
            shown = key if kind != "text" else f"{key[:60]}..."
            listed = ", ".join(f"{side} ({places[side]})" for side in SIDES if side in places)
            found.append(f"the {kind} {shown!r} stands on {listed}")
    return found


def _same(words: str) -> str:
    return " ".join(plain_words(words)) or words


# --------
# Making a split: data sets and rules in, the sides of everything and an account of them out.

LEFT_OUT = "left out"


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
        raise InputError("There are no questions to split. Give a folder with at least one of the catalogued sets.")
    aliases = find_aliases(datasets, rules)
    groups = components(members(datasets, aliases))
    sides = settle(datasets, groups, draw(groups, rules))
    counts = _counts(datasets, Split(sides, {}))
    about = {"seed": str(rules.seed), "rules": rules.fingerprint(), "counts": json.dumps(counts, sort_keys=True)}
    split = Split(sides, about)
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
        counts = Counter(split.side_of(item) or LEFT_OUT for item in dataset.items)
        found[_source(dataset)] = {side: counts[side] for side in (*SIDES, LEFT_OUT)}
    return found


def _kept(dataset: DataSet, split: Split) -> float:
    """Of the texts that the items with a side carry, the share that they may show."""
    carried = [(text, side) for item in dataset.items if (side := split.side_of(item)) for text in item.text_ids]
    shown = sum(split.sides.shows(dataset.texts[text], side) for text, side in carried)
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
        f"Seed {rules.seed}, rules {rules.fingerprint()}. {len(split.sides.questions):,} question texts, "
        f"{len(split.sides.documents):,} documents, {len(split.sides.texts):,} further texts with a side of their own; "
        f"{len(sizes):,} components, the largest of {', '.join(map(str, sizes[:5]))} questions.",
        "## Questions by source and side",
        _table(["source", *SIDES, LEFT_OUT, "all"], _count_rows(account.counts)),
        "## Rules",
        "The first line that covers any question of a component decides for all of it, so the counts above differ from "
        "the shares where sets share documents.",
        _table(
            ["sources", "shares", "why"],
            ([", ".join(r.sources), ", ".join(f"{s} {v:g}" for s, v in r.shares.items()), r.why] for r in rules.rules),
        ),
        "## Question texts that two sources both ask",
        _table(["source", "source", "shared"], ([one, other, f"{n:,}"] for one, other, n in account.shared)),
        "## Contexts",
        "The share of the texts in the items' own contexts that they may still show. The rest are distractors which "
        "belong to another side.",
        _table(["source", "kept"], ([source, f"{kept:.1%}"] for source, kept in account.kept.items())),
        "## Documents found under public names",
        _table(["set", "found", "of"], ([name, str(n), str(of)] for name, (n, of) in account.named.items())),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _count_rows(counts: Mapping[str, Mapping[str, int]]) -> Iterable[Sequence[str]]:
    columns = (*SIDES, LEFT_OUT)
    totals = dict.fromkeys(columns, 0)
    for source, by_side in counts.items():
        yield [source, *(f"{by_side[column]:,}" for column in columns), f"{sum(by_side.values()):,}"]
        totals = {column: totals[column] + by_side[column] for column in columns}
    yield ["all", *(f"{totals[column]:,}" for column in columns), f"{sum(totals.values()):,}"]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)
