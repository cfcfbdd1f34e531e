"""Draw a side for each component by the rules' shares, then settle the sides of everything that a set can show."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from okralong.lab.datasets.base import DataSet
from okralong.lab.datasets.split import (
    SIDES,
    Side,
    Split,
    document_hash,
    gold_texts,
    strictest,
    text_hash,
)
from okralong.lab.datasets.split_components import Member, SplitRules, components
from okralong.pipelines.core.types import InputError

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
