"""Answer typed questions of the Enterprise RAG Challenge over an archive and score them as the challenge does.

    okralong index ARCHIVE --from PDFS
    python -m benchmarks.erc ARCHIVE --challenge FOLDER --side dev --run RUN

FOLDER has the challenge's ``round2_questions.jsonl``, ``companies.json`` and ``round1_answers.json``. Side "dev" asks
about companies of reports whose file names begin with 0 to 4 or c to f; "held" about the others. Of round 1 only
questions that name one of ``--companies`` are asked. No key is needed.

A number is right within 1 %, a truth value and a name if they are equal, names by the share that both lists have. An
answer "unanswerable" is N/A. *Pages* is the share of questions with gold pages whose answer cites one of them.
*Wrong among confident* counts answers, N/A included, whose confidence exceeds ``CONFIDENT``.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from okralong.jobs.api import answer
from okralong.pipelines.reporting.tables import markdown_table

DEV: Final = frozenset("01234cdef")
CONFIDENT: Final = 0.8
TOLERANCE: Final = 0.01
TYPES: Final = {"number": "number", "boolean": "boolean", "name": "", "names": ""}
NOT_AVAILABLE: Final = "N/A"


@dataclass(frozen=True)
class Asked:
    """A question of the challenge. ``pages`` are pairs of a report and a page from 0, any of which may be cited."""

    query_id: str
    question: str
    kind: str
    golds: tuple[str, ...]
    pages: frozenset[tuple[str, int]] = frozenset()


def questions_of(folder: Path, side: str, companies: Sequence[str] = ()) -> list[Asked]:
    """Return the questions of a side, and those of round 1 that name one of ``companies``."""
    reports: Mapping[str, Any] = json.loads((folder / "companies.json").read_text(encoding="utf-8"))
    known = {each["company"] for name, each in reports.items() if (name[0] in DEV) == (side == "dev")}
    found: list[Asked] = []
    for line in (folder / "round2_questions.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if known.issuperset(row["companies"]):
            pages = frozenset((page["pdf"], int(page["page"])) for pool in row["pages"] for page in pool)
            found.append(Asked(row["query_id"], row["question"], row["kind"], tuple(row["answers"]), pages))
    for number, row in enumerate(json.loads((folder / "round1_answers.json").read_text(encoding="utf-8"))):
        if any(company.casefold() in row["question"].casefold() for company in companies):
            golds = tuple(map(str, row["answer"] if isinstance(row["answer"], list) else [row["answer"]]))
            found.append(Asked(f"r1-{number:02}", row["question"], row["schema"], golds))
    return found


def mark(asked: Asked, said: str) -> float:
    """Return the challenge's mark, 0 to 1, of an answer in the challenge's form."""
    return max((_mark(asked.kind, said, gold) for gold in asked.golds), default=0.0)


def _mark(kind: str, said: str, gold: str) -> float:
    one, other = _plain(said), _plain(gold)
    if one == other or _plain(NOT_AVAILABLE) in (one, other):
        return float(one == other)
    if kind == "number":
        try:
            mine, true = (float(each.replace(",", "").rstrip("%")) for each in (said, gold))
        except ValueError:
            return 0.0
        return float(abs(mine - true) <= TOLERANCE * abs(true))
    if kind == "names":
        mine_, true_ = ({_plain(name) for name in re.split(r"[;,\n]", text)} for text in (said, gold))
        return len(mine_ & true_) / len(mine_ | true_)
    return 0.0


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[\w/.]+", text.casefold()))


def said_in(row: Mapping[str, Any], kind: str) -> str:
    """Return an answer of a run in the challenge's form: a number in full, true or false, words, or N/A."""
    if row["status"] != "answered":
        return NOT_AVAILABLE
    if kind == "boolean":
        return {"yes": "True", "no": "False"}.get(row["value"] or "", NOT_AVAILABLE)
    if kind == "number":
        return str(row["value"] or "") or NOT_AVAILABLE
    return str(row["answer"])


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
    rows = [{"query_id": q.query_id, "question": q.question, "answer_type": TYPES[q.kind]} for q in asked]
    result = answer(options.archive, rows, options.run)
    by_id = {row["query_id"]: row for row in result.to_arrow().to_pylist()}
    print(report_of(asked, by_id))
    for each in asked if options.show else ():
        row = by_id[each.query_id]
        said = said_in(row, each.kind)
        print(f"{mark(each, said):.1f} {each.query_id} {each.question} | {'; '.join(each.golds)} | {said} | {row}")


def report_of(asked: Sequence[Asked], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of marks by kind."""
    lines = []
    for kind in (*dict.fromkeys(each.kind for each in asked), "all"):
        own = [each for each in asked if kind in (each.kind, "all")]
        said = {each.query_id: said_in(rows[each.query_id], each.kind) for each in own}
        marks = {each.query_id: mark(each, said[each.query_id]) for each in own}
        sure = [each for each in own if (rows[each.query_id]["confidence"] or 0.0) > CONFIDENT]
        refused = [each for each in own if said[each.query_id] == NOT_AVAILABLE]
        paged = [each for each in own if each.pages]
        lines.append(
            [
                kind,
                f"{sum(marks.values()):.1f} of {len(own)}",
                f"{sum(marks[each.query_id] for each in refused):.0f} of {len(refused)}",
                f"{sum(_cites(each, rows[each.query_id]) for each in paged)} of {len(paged)}",
                f"{sum(marks[each.query_id] < 1 for each in sure)} of {len(sure)}",
            ]
        )
    return markdown_table(["kind", "right", "N/A that are right", "pages", "wrong among confident"], lines)


def _cites(asked: Asked, row: Mapping[str, Any]) -> bool:
    cited = f"{row['doc_id']}, page {row['page']}\n{row['more_citations'] or ''}"
    return any(re.search(rf"^{name}\b[^\n]*?\bpage {page + 1}\b", cited, re.MULTILINE) for name, page in asked.pages)


if __name__ == "__main__":
    main()
