"""Answer questions of the Enterprise RAG Challenge over an archive, and mark them as its sweep does.

    okralong index ARCHIVE --from PDFS
    python -m benchmarks.erc ARCHIVE --challenge FOLDER --side dev --run RUN

In addition to ``sweeps/enterprise_rag_challenge.yaml`` this has two sides, questions of round 1, and the answers that
are wrong with a high confidence. FOLDER is as in ``okralong/lab/datasets/erc.py``, with ``round1_answers.json``. Side
"dev" asks about reports whose file names begin with 0 to 4 or c to f; "held" about the others. Of round 1 only
questions that name one of ``--companies`` are asked. No key is needed.

*Pages* is the share of questions with gold pages whose answer cites one of them. *Wrong among confident* counts
answers, N/A included, whose confidence exceeds ``CONFIDENT``.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from okralong.jobs.api import answer
from okralong.lab.datasets.erc import ANSWER_TYPES, Asked, gold_answer, read_asked
from okralong.lab.sweeps.challenge import said_in, value_mark
from okralong.pipelines.reporting.metrics import UNANSWERABLE
from okralong.pipelines.reporting.tables import markdown_table

DEV: Final = frozenset("01234cdef")
CONFIDENT: Final = 0.8


def questions_of(folder: Path, side: str, companies: Sequence[str] = ()) -> list[Asked]:
    """Return the questions of a side, and those of round 1 that name one of ``companies``."""
    found = [
        each
        for each in read_asked(folder)
        if each.reports and all((name[0] in DEV) == (side == "dev") for name in each.reports)
    ]
    for number, row in enumerate(json.loads((folder / "round1_answers.json").read_text(encoding="utf-8"))):
        if any(company.casefold() in row["question"].casefold() for company in companies):
            golds = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
            answers = tuple(gold_answer(str(gold)) for gold in golds)
            found.append(Asked(f"r1-{number:02}", row["question"], row["schema"], answers))
    return found


def main() -> None:
    """Answer the questions and print the marks by kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive")
    parser.add_argument("--challenge", type=Path, required=True)
    parser.add_argument("--side", choices=("dev", "held"), default="dev")
    parser.add_argument("--companies", nargs="*", default=[])
    parser.add_argument("--run", required=True)
    parser.add_argument("--show", action="store_true", help="print each answer")
    options = parser.parse_args()
    asked = questions_of(options.challenge, options.side, options.companies)
    rows = [{"query_id": q.query_id, "question": q.question, "answer_type": ANSWER_TYPES[q.kind]} for q in asked]
    result = answer(options.archive, rows, options.run)
    by_id = {row["query_id"]: row for row in result.to_arrow().to_pylist()}
    print(report_of(asked, by_id))
    for each in asked if options.show else ():
        row = by_id[each.query_id]
        mark, said = value_mark(each.kind, row, each.answers), said_in(row, each.kind)
        print(f"{mark:.1f} {each.query_id} {each.question} | {'; '.join(each.answers)} | {said} | {row}")


def report_of(asked: Sequence[Asked], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of marks by kind."""
    lines = []
    marks = {each.query_id: value_mark(each.kind, rows[each.query_id], each.answers) for each in asked}
    for kind in (*dict.fromkeys(each.kind for each in asked), "all"):
        own = [each for each in asked if kind in (each.kind, "all")]
        sure = [each for each in own if (rows[each.query_id]["confidence"] or 0.0) > CONFIDENT]
        refused = [each for each in own if said_in(rows[each.query_id], each.kind) == UNANSWERABLE]
        paged = [each for each in own if each.pools]
        lines.append(
            [
                kind,
                f"{sum(marks[each.query_id] for each in own):.1f} of {len(own)}",
                f"{sum(marks[each.query_id] for each in refused):.0f} of {len(refused)}",
                f"{sum(_cites(each, rows[each.query_id]) for each in paged)} of {len(paged)}",
                f"{sum(marks[each.query_id] < 1 for each in sure)} of {len(sure)}",
            ]
        )
    return markdown_table(["kind", "right", "N/A that are right", "pages", "wrong among confident"], lines)


def _cites(asked: Asked, row: Mapping[str, Any]) -> bool:
    cited = f"{row['doc_id']}, page {row['page']}\n{row['more_citations'] or ''}"
    pages = {page for pool in asked.pools for page in pool}
    return any(re.search(rf"^{name}\b[^\n]*?\bpage {page + 1}\b", cited, re.MULTILINE) for name, page in pages)


if __name__ == "__main__":
    main()
