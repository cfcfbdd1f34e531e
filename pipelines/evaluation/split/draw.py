"""The draw: each component gets a side, so that each rule's shares come out by questions."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from okralong.pipelines.core.types import InputError
from okralong.pipelines.evaluation.split.components import Member
from okralong.pipelines.evaluation.split.keys import SIDES, Side
from okralong.pipelines.evaluation.split.rules import SplitRules

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
