"""Measure how often a gold page is among the passages shown, from one report and from an archive.

    okralong index ARCHIVE --from PDFS
    python -m benchmarks.right_page ARCHIVE --side tune --variants 'NAME:KEY=VALUE;KEY=VALUE' ... --out FILE

The questions are in ``marks/right_pages.jsonl``: ``question``, ``pdf`` (the SHA-1 of the report, which is its file's
name in the Enterprise RAG Challenge), ``pages`` (counted from 1) that state the answer, and ``side``. Reports whose
names begin with 0 to 4 are ``tune``, the others ``check``. ``--challenge`` adds the pairs of the challenge's own
questions, as ``benchmarks.needed_numbers`` reads them.

A page counts as shown as there: ``LEAST`` characters of it are in the context. No generator is called. A variant is the
default policy with keys set; the first one is the default itself. Tokens are o200k tokens of the passages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.needed_numbers import OURS, Asked, Bench, Row, read_challenge, report
from okralong.lab.datasets.encoder import cached_encoder
from okralong.lab.evidence.retrievals import Remembered, Retrievals
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.config import load_config
from okralong.pipelines.methods.registry import FullPolicy

MARKS = Path(__file__).parent / "marks" / "right_pages.jsonl"
SCOPES = {"one report": "", "archive": ""}


def read_marks(side: str, archive: Archive) -> list[Asked]:
    """Return the marked questions of a side, or of both for "all". Exits if the archive lacks a report."""
    ids = {Path(doc_id).stem: doc_id for doc_id in archive.doc_ids()}
    found = []
    for row in map(json.loads, MARKS.read_text(encoding="utf-8").splitlines()):
        if side not in ("all", row["side"]):
            continue
        if row["pdf"] not in ids:
            sys.exit(f"The archive has no document {row['pdf']}. Index the reports of the challenge.")
        found.append(Asked(row["question"], ids[row["pdf"]], pages=frozenset(map(str, row["pages"]))))
    return found


async def measured(bench: Bench, asked: Sequence[Asked], name: str, scopes: Sequence[str]) -> list[Row]:
    """Return the rows of one variant."""
    rows = []
    for scope in scopes:
        for each in asked:
            row = await bench.row(each, OURS, scope)
            rows.append(Row(each, name, scope, row.missing, row.shown, row.of, row.tokens))
    return rows


def main() -> None:
    """Measure and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive")
    parser.add_argument("--side", choices=["tune", "check", "all"], default="tune")
    parser.add_argument("--challenge", type=Path, help="JSON lines of questions with gold pages")
    parser.add_argument("--variants", nargs="*", default=[], metavar="NAME:KEY=VALUE;KEY=VALUE", help="values are JSON")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="keys of every variant, as JSON")
    parser.add_argument("--scopes", nargs="+", choices=list(SCOPES), default=list(SCOPES))
    parser.add_argument("--missing", action="store_true", help="list the questions without a gold page")
    parser.add_argument("--work", type=Path, help="folder for cached vectors; beside the archive if left out")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    archive = Archive.open(given.archive)
    asked = list(read_challenge(given.challenge, archive)) if given.challenge else read_marks(given.side, archive)
    retrievals = Retrievals(archive, cached_encoder(given.work or Path(f"{given.archive.rstrip('/')}.vectors")))
    retrievals.prepare([each.question for each in asked])
    analyzer = Remembered(load_analyzer(AnalyzerConfig()))
    rows: list[Row] = []
    for variant in ["default:", *given.variants]:
        name, _, keys = variant.partition(":")
        pairs = (each.partition("=") for each in [*given.set, *keys.split(";")] if each)
        policy = load_config(FullPolicy, "policy/default.yaml", {key: json.loads(value) for key, _, value in pairs})
        rows += asyncio.run(measured(Bench(archive, retrievals, policy, analyzer), asked, name, given.scopes))
    side = "the challenge's questions" if given.challenge else f"side {given.side}"
    parts = [f"{len(asked)} questions, {side}, {len(archive.doc_ids())} reports", report(rows, SCOPES)]
    if given.missing:
        parts += [
            f"- {row.method}, {row.scope}: {row.asked.question} [{row.asked.doc_id[-44:-34]}] pages "
            f"{' '.join(sorted(row.asked.pages))} ({row.tokens})"
            for row in rows
            if row.missing
        ]
    text = "\n\n".join([*parts, ""])
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
