"""Questions files with gold data, which ``okralong answer`` and the scoring read.

In addition to the columns of a questions file, a row has ``dataset``, ``label`` (the set's own kind of question),
``parts`` (for answer recall), ``documents`` (the sources that the question is about, which the bootstrap draws
together) and ``pools`` (of gold pages, one of each of which has to be cited). In a plain questions file, the answers
are the parts, and ``doc_ids`` the documents. ``evidence`` and ``pools`` have ranges, "doc_id:start:end"; evidence in
another form yields no recall.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from okralong.lab.datasets.answers import one_part
from okralong.lab.datasets.gold import Gold, Parts
from okralong.lab.datasets.pooling import PooledQuestion, Span
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.reporting.sources import evidence_span
from okralong.pipelines.reporting.statistics import joined_by_documents
from okralong.pipelines.run.questions import question_row, read_questions


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question with its gold data. Questions linked by a chain of shared documents have the same ``cluster``."""

    gold: Gold
    evidence: tuple[Span, ...]
    cluster: str
    pools: tuple[tuple[Span, ...], ...] = ()


def write_gold_questions(folder: Folder, name: str, questions: Iterable[PooledQuestion]) -> None:
    """Write the file ``name`` in ``folder``. The ``doc_ids`` of a question are the documents it was pooled into."""
    rows = []
    for each in questions:
        gold = each.item.gold
        asked = replace(gold.question, doc_ids=each.doc_ids, evidence=_written(each.evidence))
        known = {
            "dataset": gold.dataset,
            "label": gold.source_type,
            "parts": gold.parts,
            "documents": each.item.documents or each.doc_ids,
            "pools": [_written(pool) for pool in each.pools],
        }
        rows.append(json.dumps({**question_row(asked), **known}, ensure_ascii=False) + "\n")
    folder.write_bytes(name, "".join(rows).encode())


def _written(spans: Sequence[Span]) -> tuple[str, ...]:
    return tuple(f"{span.doc_id}:{span.start_char}:{span.end_char}" for span in spans)


def read_gold_questions(path: str | Path) -> list[GoldQuestion]:
    """Read the questions of such a file, or of a plain questions file, in order.

    Raises InputError for an unreadable file, a row that cannot be asked, or malformed gold data.
    """
    questions, bad = read_questions(path, strict=False)
    if bad:
        raise InputError(f"{bad[0].message} Scores need every question of the file.")
    extra = _extra_columns(path)
    golds, documents, places, pools = [], [], [], []
    for question in questions:
        more = extra.get(question.query_id, {})
        try:
            parts: Parts = (
                tuple(tuple(map(str, _listed(part))) for part in _listed(more["parts"]))
                if "parts" in more
                else one_part(question.answers)
            )
            named = _listed(more.get("documents") or question.doc_ids)
            about = tuple(map(str, named)) or (f"{path}#{question.query_id}",)
            pools.append(tuple(_places(tuple(map(str, _listed(pool)))) for pool in _listed(more.get("pools", ()))))
        except TypeError as error:
            raise InputError(
                f"{path}: the question {question.query_id!r} has no gold that can be read: {error}. `parts` is a list "
                "of lists of wordings, `documents` a list of names, `pools` a list of lists of ranges. Correct the "
                "row, or leave these columns out."
            ) from error
        golds.append(Gold(question, str(more.get("dataset", "")), str(more.get("label", "")), parts))
        documents.append(about)
        places.append(_places(question.evidence))
    clusters = joined_by_documents(documents)
    return [GoldQuestion(*row) for row in zip(golds, places, clusters, pools, strict=True)]


def _listed(value: Any) -> Sequence[Any]:
    """Return the value if it is a list. Raises TypeError otherwise, because a string would be split into letters."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{value!r} is not a list")
    return value


def _extra_columns(path: str | Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the columns of a jsonl file that a questions file does not have; none for other kinds of files."""
    if Path(path).suffix.lower() not in (".jsonl", ".ndjson"):
        return {}
    where = Folder.of(Path(path).parent)
    lines = where.read_bytes(Path(path).name).decode("utf-8-sig").split("\n")
    rows = (json.loads(line) for line in lines if line.strip())
    return {str(row["query_id"]): row for row in rows if row.get("query_id") not in (None, "")}


def _places(evidence: Sequence[str]) -> tuple[Span, ...]:
    """Return the ranges, or none if one is malformed, so that recall never refers to only a part of the evidence."""
    found = [span for each in evidence if (span := evidence_span(each)) is not None]
    return tuple(Span(*span) for span in found) if len(found) == len(evidence) else ()
