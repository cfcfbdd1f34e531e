"""Draw a side for each component by the rules' shares, then derive the sides of all questions, documents and texts."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from okralong.lab.datasets.base import DataSet
from okralong.lab.datasets.split import SIDES, Side, Split, document_hash, gold_texts, strictest, text_hash
from okralong.lab.datasets.split_components import Member, SplitRules, components
from okralong.pipelines.core.types import InputError

Component = Sequence[Member]


def draw_in_rounds(asked: Sequence[Member], rules: SplitRules) -> tuple[list[list[Member]], list[Side]]:
    """Return the components of all members and a side for each, drawn round by round.

    A component with members of earlier rounds gets their side (the strictest one, if it joins several of their
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
    """Draw a side for each component, in order.

    A component follows the first rule that covers any of its members. Within a rule, the components of each source are
    shuffled by a hash of the seed. Each in turn is put on the side with the largest deficit; the deficit counts, with
    equal weights, the questions that the rule covers and all questions of the components. So a set of two components is
    on two sides, and a large set differs from its shares by less than its largest component. Raises InputError for a
    source that no rule covers.
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
    """A component's place in the draw, its number, and its numbers of questions: covered by the rule, and all."""

    place: str
    number: int
    covered: int
    all: int


def _fill(tickets: Sequence[_Ticket], shares: Mapping[Side, float]) -> Iterator[tuple[int, Side]]:
    """Yield the component of each ticket, and its side.

    Each step minimizes the distance to the shares in both counts (the sum of squared deficits, relative to the total).
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
    """Return the rule that a component follows, and the source of each member that the rule covers."""
    by_rule: dict[int, list[str]] = defaultdict(list)
    for member in group:
        by_rule[_rule(member, rules)].append(member.source)
    first = min(by_rule)
    return first, by_rule[first]


def _rule(member: Member, rules: SplitRules) -> int:
    """Return the number of the rule that covers a member. Raises InputError if no rule does."""
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
# From the sides of components to the sides of questions, documents and texts.


def settle(datasets: Sequence[DataSet], groups: Sequence[Sequence[Member]], drawn: Sequence[Side]) -> Split:
    """Derive the sides of everything from the sides of the components.

    A question that is asked in several components gets the strictest side. So does a document that is only a
    distractor, but in items of several sides, and a text that has several documents.
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
    """Return the sides of the texts whose side is not that of their documents."""
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
    """Yield (document, text, side) for each text and each side whose items have it in their context.

    Texts that no item names (a corpus) belong to every side of their set.
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
    """Return the strictest side of each key, and whether it has several sides."""
    found: dict[str, set[Side]] = defaultdict(set)
    for key, side in pairs:
        found[key].add(side)
    return {key: (strictest(sides), len(sides) > 1) for key, sides in found.items()}
