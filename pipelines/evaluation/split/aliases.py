"""Documents under several names. Some sets do not say which filing, paper or paragraph they show; others do.

TAT-QA's contexts carry only a table's number, but most of their questions recur in UDA, which names the filing.
LongBench's prompts hold whole paragraphs and papers of other sets, word for word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from okralong.pipelines.evaluation.datasets.values import DataSet
from okralong.pipelines.evaluation.split.keys import question_hash
from okralong.pipelines.evaluation.split.rules import SplitRules
from okralong.pipelines.reporting.metrics import plain_words

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
