"""Making a split: data sets and rules in, the sides of everything and an account of them out."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from okralong.pipelines.core.types import BrokenError, InputError
from okralong.pipelines.evaluation.datasets.values import DataSet
from okralong.pipelines.evaluation.split.aliases import find_aliases
from okralong.pipelines.evaluation.split.components import components, members
from okralong.pipelines.evaluation.split.draw import draw
from okralong.pipelines.evaluation.split.keys import SIDES, question_hash
from okralong.pipelines.evaluation.split.leaks import leaks
from okralong.pipelines.evaluation.split.rules import SplitRules
from okralong.pipelines.evaluation.split.sides import settle
from okralong.pipelines.evaluation.split.split import Split

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
