"""Take documents from questions, which makes them unanswerable, and give questions the types of their gold answers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from okralong.lab.datasets.base import Item
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.reporting.metrics import gold_quantity, normalise

_YES_NO: Final = frozenset({"yes", "no"})


def withhold(items: Sequence[Item], share: float, seed: str) -> tuple[list[Item], frozenset[str]]:
    """Return the items, some of which have lost their texts with evidence, and the ids of the texts that are gone.

    About ``share`` of the groups of items with the same evidence are chosen, by a hash of ``seed`` and their texts. All
    items that need a text of theirs are then unanswerable. An item that has no text left is asked of the texts of
    another one. Unanswerable items of the set are not chosen.
    """
    needed = {item.gold.question.query_id: frozenset(each.text_id for each in item.evidence) for item in items}
    chosen = [texts for texts in set(needed.values()) if texts and _drawn(texts, seed) < share]
    gone = frozenset(text_id for texts in chosen for text_id in texts)
    kept = [own for item in items if (own := _without(item, gone).text_ids)]
    if not gone or not kept:
        return list(items), frozenset()
    return [
        _without(item, gone, kept[int(_drawn([item.gold.question.query_id], seed) * len(kept))])
        if gone.intersection((*needed[item.gold.question.query_id], *item.text_ids))
        else item
        for item in items
    ], gone


def _without(item: Item, gone: frozenset[str], other: Sequence[str] = ()) -> Item:
    """Return the item without the texts ``gone``, on ``other`` texts if none is left; unanswerable if it needs one."""
    left = tuple(text_id for text_id in item.text_ids if text_id not in gone) or tuple(other)
    if gone.isdisjoint(each.text_id for each in item.evidence):
        return replace(item, text_ids=left)
    question = replace(item.gold.question, answers=(UNANSWERABLE,))
    gold = replace(item.gold, question=question, parts=())
    return replace(item, gold=gold, text_ids=left, evidence=(), cells=(), calculation="", sub_questions=(), hops=())


def _drawn(names: Sequence[str] | frozenset[str], seed: str) -> float:
    """Return a number from 0 to 1, without 1, that depends on the seed and the names alone."""
    digest = hashlib.sha256(" ".join([seed, *sorted(names)]).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 256**6


def typed(item: Item) -> Item:
    """Return the item with the answer type of its gold answer if that is an amount, or yes or no."""
    answers = item.gold.question.answers
    kind = ""
    if answers and all(normalise(answer) in _YES_NO for answer in answers):
        kind = "boolean"
    elif answers and all(gold_quantity(answer) is not None for answer in answers):
        kind = "percent" if any("%" in answer for answer in answers) else "number"
    return replace(item, gold=replace(item.gold, question=replace(item.gold.question, answer_type=kind)))
