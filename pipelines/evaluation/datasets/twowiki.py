"""2WikiMultihopQA: questions made from Wikidata's relations, over two to four of ten paragraphs (Ho et al. 2020).

The format and what evidence is stand in ``wiki``; its sentences come stripped, so they are joined by a blank. Each row
also has ``evidences``: the [subject, relation, object] triples that lead to the answer. A perfect writer would ask for
the object of each, so the gold queries are "subject relation" in the triples' order ("Ann Alder mother"). Files with
``qa_pairs`` also have each as a whole sentence ("Who is the mother of Ann Alder?"), and its answer as another, of which
the triple has the words that count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from okralong.pipelines.evaluation.datasets.fields import Row
from okralong.pipelines.evaluation.datasets.values import DataSet, Hop
from okralong.pipelines.evaluation.datasets.wiki import read_wiki

NAME: Final = "2wikimultihopqa"


def read(path: Path, part: str) -> DataSet:
    """A file such as ``dev.json``. Raises InputError naming file, row and field."""
    return read_wiki(path, NAME, part, " ", _relations, _sub_questions, _hops)


def _relations(row: Row) -> tuple[str, ...]:
    return tuple(dict.fromkeys(triple.query for triple in _triples(row)))


def _triples(row: Row) -> list[Hop]:
    triples = []
    for triple in row.get("evidences", list):
        match triple:
            case [str(subject), str(relation), str(told)]:
                triples.append(Hop(f"{subject} {relation}", told))
            case _:
                row.bad("evidences", f"holds {triple!r} and not a subject, a relation and an object")
    return triples


def _hops(row: Row) -> tuple[Hop, ...]:
    """The triples; as whole sentences where the pairs are as many and each answer names its triple's object."""
    triples = _triples(row)
    pairs = list(row.rows("qa_pairs", "pair")) if "qa_pairs" in row.values else []
    if len(pairs) != len(triples):
        return tuple(triples)
    return tuple(
        Hop(pair.text("question"), triple.answer) if triple.answer in pair.text("answer") else triple
        for pair, triple in zip(pairs, triples, strict=True)
    )


def _sub_questions(row: Row) -> tuple[str, ...]:
    if "qa_pairs" not in row.values:
        return ()
    return tuple(dict.fromkeys(pair.text("question") for pair in row.rows("qa_pairs", "pair")))
