"""Make a split from data sets and rules, and count what is on each side.

Questions that share a document, or a text with evidence, form a component, which is not divided. A side is drawn for
each component by the shares of its rule. Whatever would belong to two sides is left out.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from okralong.lab.datasets.base import DataSet
from okralong.lab.datasets.split import SIDES, Split, leaks, question_hash
from okralong.lab.datasets.split_components import Rule, SplitRules, find_aliases, members
from okralong.lab.datasets.split_draw import draw_in_rounds, settle
from okralong.pipelines.core.types import BrokenError, InputError
from okralong.pipelines.reporting.tables import markdown_table

RULES: Final = "split/rules.yaml"
"""The shipped rules: the shares of the sides for each source."""

LEFT_OUT: Final = "left out"


@dataclass(frozen=True, slots=True)
class Account:
    """The counts of a split.

    Attributes:
        counts: Questions by source and side (or "left out").
        kept: The share of their contexts that the items of a source may still show, by source.
        shared: Pairs of sources, and the number of question texts that they share.
        named: The number of a set's documents that were found under other names, and the number of all, by set.
        components: The number of questions of each component.
    """

    counts: dict[str, dict[str, int]]
    kept: dict[str, float]
    shared: list[tuple[str, str, int]]
    named: dict[str, tuple[int, int]]
    components: list[int]


def build_split(datasets: Sequence[DataSet], rules: SplitRules) -> tuple[Split, Account]:
    """Split ``datasets``, and count what is on each side.

    Raises InputError for no questions, or a source that no rule covers; BrokenError if something would be on two sides.
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
    """Return the share of their texts that items with a side may show."""
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


_HEAD = """# The split: which data are on which side

Made by `okralong split`; do not edit. The manifest next to this card holds hashes only, no question and no text.
Train is for models, validation for their temperatures and thresholds, tune for the policy's values; figures come from
test. Each question, document and paragraph is on one side, across all sets. A question text that several
components ask belongs to the strictest of their sides and is left out elsewhere (a generic wording such as "summarize
the meeting" is therefore in test alone). The counts are of the files that were available, subsets of the public sets.
"""


def card(account: Account, split: Split, rules: SplitRules) -> str:
    """Return the card as Markdown."""
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
