"""Small invented data sets: questions about documents that have one text each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from okralong.lab.datasets.base import DataSet, Evidence, Item, make_text
from okralong.lab.datasets.gold import Gold
from okralong.lab.datasets.split import Side
from okralong.lab.datasets.split_components import Rule, SplitRules
from okralong.pipelines.core.types import Question

Asked = tuple[str, Sequence[str], Sequence[str]]
"""A question, the documents whose texts hold its evidence, and those whose texts only stand beside them."""


def text_of(document: str) -> str:
    return f"All that is known about {document}, the famous one."


def data_set(name: str, part: str, asked: Iterable[Asked], loose: Sequence[str] = ()) -> DataSet:
    """A set in which each document has the one text of ``text_of``; ``loose`` documents belong to no item."""
    texts = {document: make_text(document, text_of(document)) for document in loose}
    items = []
    for number, (question, gold, beside) in enumerate(asked):
        own = {document: make_text(document, text_of(document)) for document in (*gold, *beside)}
        texts |= own
        items.append(
            Item(
                Gold(Question(f"{name}-{part}-{number}", question), name),
                tuple(gold),
                tuple(text.text_id for text in own.values()),
                tuple(Evidence(own[document].text_id, 0, 5) for document in gold),
            )
        )
    return DataSet(name, part, {text.text_id: text for text in texts.values()}, tuple(items))


def rule(sources: Sequence[str], round: int = 1, **shares: float) -> Rule:
    sides: tuple[Side, ...] = ("train", "validation", "tune", "test")
    given = {side: shares[side] for side in sides if side in shares}
    return Rule(sources=tuple(sources), shares=given, why="for the test", round=round)


def rules(*each: Rule, seed: int = 1) -> SplitRules:
    return SplitRules(seed=seed, rules=each)


TEST_FIRST = rules(
    rule(["exam"], test=1.0),
    rule(["dev"], tune=0.5, test=0.5),
    rule(["lessons"], train=1.0),
)
"""``exam`` is test, ``dev`` tune or test, ``lessons`` train, unless they share something."""
