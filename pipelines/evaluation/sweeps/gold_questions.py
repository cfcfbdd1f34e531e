"""The questions of a set as a file that ``okralong answer`` asks and that scoring reads.

Beside the columns of a questions file a row has ``dataset``, ``parts`` (what answer recall looks for) and ``documents``
(the sources that the question is about, which are drawn together). A plain questions file will do: its parts are then
its answers, its documents the ``doc_ids``. ``evidence`` are ranges, "doc_id:start:end"; anything else there is not
known by its place, and no recall of it is measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.evaluation.datasets.answer_parts import one_part
from okralong.pipelines.evaluation.datasets.pooling import PooledQuestion, Span
from okralong.pipelines.evaluation.gold import Gold
from okralong.pipelines.evaluation.recall import Parts
from okralong.pipelines.reporting.statistics import joined_by_documents
from okralong.pipelines.run.prepare import read_questions

_RANGE: Final = re.compile(r"(.+):(\d+):(\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question with its gold. ``cluster`` is one name for all questions of the file that a chain of shared documents
    joins."""

    gold: Gold
    evidence: tuple[Span, ...]
    cluster: str


def write_gold_questions(folder: Folder, name: str, questions: Iterable[PooledQuestion]) -> None:
    """Write the file ``name`` in ``folder``, asked of the documents that the questions were pooled into."""
    rows = []
    for each in questions:
        spans = tuple(f"{span.doc_id}:{span.start_char}:{span.end_char}" for span in each.evidence)
        gold = each.item.gold
        asked = replace(gold.question, doc_ids=each.doc_ids, evidence=spans)
        known = {"dataset": gold.dataset, "parts": gold.parts, "documents": each.item.documents or each.doc_ids}
        rows.append(json.dumps({**asdict(asked), **known}, ensure_ascii=False) + "\n")
    folder.write_bytes(name, "".join(rows).encode())


def read_gold_questions(path: str | Path) -> list[GoldQuestion]:
    """The questions of such a file, or of a plain questions file, in its order.

    Raises InputError for a file that cannot be read, for a row that cannot be asked, and for one whose gold is none.
    """
    questions, bad = read_questions(path)
    if bad:
        raise InputError(f"{bad[0].message} Scores need every question of the file.")
    extra = _extra_columns(path)
    golds, documents, places = [], [], []
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
        except TypeError as error:
            raise InputError(
                f"{path}: the question {question.query_id!r} has no gold that can be read: {error}. `parts` is a list "
                "of lists of wordings, `documents` a list of names. Mend the row, or leave both columns out."
            ) from error
        golds.append(Gold(question, str(more.get("dataset", "")), parts=parts))
        documents.append(about)
        places.append(_places(question.evidence))
    clusters = joined_by_documents(documents)
    return [GoldQuestion(*row) for row in zip(golds, places, clusters, strict=True)]


def _listed(value: Any) -> Sequence[Any]:
    """The value, a list. Raises TypeError for any other: of a text the letters would be taken one by one."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{value!r} is no list")
    return value


def _extra_columns(path: str | Path) -> Mapping[str, Mapping[str, Any]]:
    """What a jsonl file says beside the columns of a questions file; other kinds of file have no such columns."""
    if Path(path).suffix.lower() not in (".jsonl", ".ndjson"):
        return {}
    where = Folder.of(Path(path).parent)
    lines = where.read_bytes(Path(path).name).decode("utf-8-sig").split("\n")
    rows = (json.loads(line) for line in lines if line.strip())
    return {str(row["query_id"]): row for row in rows if row.get("query_id") not in (None, "")}


def _places(evidence: Sequence[str]) -> tuple[Span, ...]:
    """The ranges; none at all when one of them is no range, so that no recall is of half of the evidence."""
    found = [_RANGE.fullmatch(each) for each in evidence]
    if not all(found):
        return ()
    return tuple(Span(match[1], int(match[2]), int(match[3])) for match in found if match)
