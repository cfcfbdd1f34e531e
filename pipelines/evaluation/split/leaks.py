"""The check that a split keeps its word, by what its readers would be given and not by how it was made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from okralong.pipelines.evaluation.datasets.values import DataSet
from okralong.pipelines.evaluation.split.keys import SIDES, Side, gold_texts, question_hash
from okralong.pipelines.evaluation.split.split import Split
from okralong.pipelines.reporting.metrics import plain_words


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
