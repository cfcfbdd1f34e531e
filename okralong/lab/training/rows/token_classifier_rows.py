"""Make the token classifier's training rows: passages, labeled with the words that questions and answers name.

The authors of LLMLingua-2 let GPT-4 compress each passage, and label the words that it keeps (Pan et al. 2024, section
3). Here nothing is paid for: a word is kept if it is in the gold evidence of a question, and in the question or its
answer. The classifier does not see the question, so it learns what people usually ask about in such passages.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from okralong.lab.datasets.base import DataSet, Item
from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.gold import COMMON, findable, words
from okralong.lab.datasets.registry import read_dataset
from okralong.lab.datasets.split import Side
from okralong.lab.evidence.sets import Say
from okralong.lab.training.recipe import ANSWERED, ASKED, LEFT
from okralong.lab.training.rows.sources import Limit, RowsSettings, SetPart, chunks_of
from okralong.lab.training.rows.tables import MODEL_SIDES, KeepRow
from okralong.pipelines.models.token_classifier import words_in


class KeepConfig(RowsSettings):
    """The content of ``configs/training/keep.yaml``: sets and options for the token classifier's rows.

    Texts are split into chunks of ``granularity`` o200k tokens. Chunks with evidence become rows, up to a set's
    ``limit`` on each side; those of fewer than ``least_words`` words are skipped.
    """

    sets: list[SetPart] = Field(min_length=1)
    granularity: Annotated[int, Field(ge=16, le=1024)] = 256
    least_words: Limit = 20


def build_keep(config: KeepConfig, data: Path, say: Say) -> dict[Side, list[KeepRow]]:
    """Make the rows of every side except "tune", in a random order.

    Raises ConfigError or InputError naming what cannot be read.
    """
    split, catalog = config.load_split(data), load_catalog(config.catalog)
    rows: dict[Side, list[KeepRow]] = {side: [] for side in MODEL_SIDES}
    seen: set[str] = set()
    for each in config.sets:
        dataset = read_dataset(catalog.source(each.name, each.part), data)
        for side in rows:
            found = rows_of(split.filter(dataset, side), config, seen)
            random.Random(f"{config.seed}:{each.name}").shuffle(found)
            rows[side] += found[: each.limit]
        counted = ", ".join(f"{side} {len(found):,} rows so far" for side, found in rows.items())
        say(f"  {each.name} {each.part}: {counted}")
    for found in rows.values():
        config.shuffle(found)
    return rows


def rows_of(dataset: DataSet, config: KeepConfig, seen: set[str]) -> list[KeepRow]:
    """Make the rows of a set from texts that are not in ``seen``, and add these to it: a text is used only once."""
    wanted: dict[str, list[Wanted]] = {}
    for item in dataset.items:
        for piece in item.evidence:
            wanted.setdefault(piece.text_id, []).append(Wanted.of(item, piece.start_char, piece.end_char))
    rows: list[KeepRow] = []
    for identity in sorted(wanted.keys() - seen):
        seen.add(identity)
        text = dataset.texts[identity]
        for chunk in chunks_of(text.document, text.text, config.granularity):
            labels = labels_of(chunk.text, chunk.start_char, wanted[identity])
            if any(labels) and len(labels) >= config.least_words:
                rows.append(KeepRow(f"{dataset.name} {dataset.part}", (text.document,), chunk.text, tuple(labels)))
    return rows


@dataclass(frozen=True)
class Wanted:
    """The words that a question names in its evidence, the range ``[start, end)`` of a text.

    These are the words of the question, the words that only its answers have, and whole answers that can be searched
    literally.
    """

    start: int
    end: int
    asked: frozenset[str]
    answered: frozenset[str]
    wordings: tuple[re.Pattern[str], ...] = field(default=())

    @classmethod
    def of(cls, item: Item, start: int, end: int) -> Wanted:
        """Return the wanted words for one piece of an item's evidence."""
        question = item.gold.question
        asked = frozenset(words(question.question)) - COMMON
        answered = frozenset(word for answer in question.answers for word in words(answer)) - COMMON - asked
        patterns = (r"\s+".join(map(re.escape, answer.split())) for answer in findable(question.answers))
        found = tuple(re.compile(rf"(?<!\w){each}(?!\w)", re.IGNORECASE) for each in patterns)
        return cls(start, end, asked, answered, found)


def labels_of(text: str, offset: int, wanted: Sequence[Wanted]) -> list[int]:
    """Return the label of each word of ``text``, a chunk that begins at ``offset`` of the text with the evidence."""
    places = words_in(text)
    labels = [LEFT] * len(places)
    for each in wanted:
        start, end = max(0, each.start - offset), min(len(text), each.end - offset)
        if start >= end:
            continue
        answers = [match.span() for wording in each.wordings for match in wording.finditer(text, start, end)]
        for number, (first, last) in enumerate(places):
            if first < start or last > end:
                continue
            said = set(words(text[first:last]))
            if said & each.answered or any(first < stop and begin < last and said for begin, stop in answers):
                labels[number] = ANSWERED
            elif said & each.asked:
                labels[number] = max(labels[number], ASKED)
    return labels
