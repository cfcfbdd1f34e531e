"""Measure how many of the numbers that questions need are shown in the context, from one report and from an archive.

    okralong index ARCHIVE --from PDFS
    python -m benchmarks.needed_numbers ARCHIVE --questions QUESTIONS --challenge ROUND2_QUESTIONS --out FILE

QUESTIONS has JSON lines with ``question``, ``doc`` (the doc_id, or the name of its file without the suffix) and
``numbers``, as the report writes them. Each question is asked of its report and of the whole archive. A number counts
as shown if a passage of its report has it, between characters that are no part of a number.

ROUND2_QUESTIONS is the file of the Enterprise RAG Challenge: JSON lines with ``question`` and ``pages``, pools of
``{"pdf": ..., "page": number from 0}``. Each pair of a question and a report in the archive counts once; it is shown if
the context has at least ``LEAST`` characters of one of its pages. Pairs of reports that the archive lacks are left out.

No model is called for answers: the analyzer is the shipped one, and a question that is split is asked as a whole, or
in the parts that ``queries`` of its line gives. "ours, tables off" is the method with the tables taken from the
documents. Tokens are o200k tokens of the passages shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from okralong.lab.datasets.encoder import cached_encoder
from okralong.lab.evidence.bench import ranked
from okralong.lab.evidence.measure import solid
from okralong.lab.evidence.retrievals import Remembered, Retrievals, reader_of
from okralong.lab.evidence.tools import BenchTools, analyzed_by
from okralong.lab.evidence.writers import GoldWriter
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, Passage
from okralong.pipelines.methods.okralong import orchestrate
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.reporting.tables import markdown_table

PLAIN = {"Std-RAG 5 x 512": "semantic", "hybrid 5 x 512": "reciprocal_rank"}
PLAIN_COUNT, PLAIN_SIZE = 5, 512
OFF, OURS = "ours, tables off", "ours"
LEAST = 20
"""Characters of a page, without white space, that must be shown. # project default: a row"""


@dataclass(frozen=True)
class Asked:
    """A question with what its context should show of one document: numbers as written, or one of some pages."""

    question: str
    doc_id: str
    numbers: tuple[str, ...] = ()
    pages: frozenset[str] = frozenset()
    queries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """The result for one question: the numbers shown, or whether a page is, of how many, and the tokens."""

    asked: Asked
    method: str
    scope: str
    missing: tuple[str, ...]
    shown: int
    of: int
    tokens: int


class WithoutTables(BenchTools):
    """Tools whose documents have no tables."""

    async def full_text(self, doc_id: str) -> Document:
        """See ``Tools``."""
        return replace(await super().full_text(doc_id), tables=())


def read_questions(path: Path, archive: Archive) -> list[Asked]:
    """Return the questions with numbers. Exits if the archive lacks a report."""
    ids = _ids(archive)
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        doc_id = ids.get(_stem(row["doc"]))
        if doc_id is None:
            sys.exit(f"{path}: the archive has no document {row['doc']}.")
        found.append(Asked(row["question"], doc_id, tuple(row["numbers"]), queries=tuple(row.get("queries", ()))))
    return found


def read_challenge(path: Path, archive: Archive) -> Iterator[Asked]:
    """Yield each pair of a question and a report of the archive that has gold pages."""
    ids = _ids(archive)
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        pages: dict[str, set[str]] = {}
        for each in (each for pool in row["pages"] for each in pool):
            if (doc_id := ids.get(each["pdf"])) is not None:
                pages.setdefault(doc_id, set()).add(str(each["page"] + 1))
        for doc_id, numbers in pages.items():
            yield Asked(row["question"], doc_id, pages=frozenset(numbers))


def _ids(archive: Archive) -> dict[str, str]:
    return {_stem(doc_id): doc_id for doc_id in archive.doc_ids()}


def _stem(name: str) -> str:
    return re.sub(r"\.pdf$", "", name.rpartition("/")[2], flags=re.IGNORECASE)


def missing_of(asked: Asked, context: Sequence[Passage], document: Document) -> tuple[str, ...]:
    """Return the numbers that are not shown, or the pages if none of them is."""
    own = [passage for passage in context if passage.doc_id == asked.doc_id]
    if asked.pages:
        return () if any(_shows_page(passage, asked.pages, document) for passage in own) else tuple(asked.pages)
    text = "\n".join(passage.shown_text for passage in own)
    return tuple(each for each in asked.numbers if not re.search(rf"(?<![\d.,]){re.escape(each)}(?!\d|[.,]\d)", text))


def _shows_page(passage: Passage, pages: frozenset[str], document: Document) -> bool:
    starts = [section for section in document.sections if section.kind == "page"]
    for section, end in zip(starts, [*(each.start_char for each in starts[1:]), len(document.text)], strict=False):
        if section.name in pages:
            shown = (document.text[max(section.start_char, start) : min(end, stop)] for start, stop in passage.places)
            if sum(map(solid, shown)) >= LEAST:
                return True
    return False


@dataclass(frozen=True)
class Bench:
    """The archive with what all methods share."""

    archive: Archive
    retrievals: Retrievals
    policy: FullPolicy
    analyzer: Remembered

    async def context(self, asked: Asked, method: str, doc_ids: tuple[str, ...]) -> Sequence[Passage]:
        """Return the passages that a method shows."""
        if method in PLAIN:
            found = await self.retrievals.find(asked.question, doc_ids, PLAIN_SIZE, PLAIN_COUNT)
            return [passage_of(hit) for hit in ranked(found, PLAIN[method])[:PLAIN_COUNT]]
        make = WithoutTables if method == OFF else BenchTools
        tools = make(
            self.retrievals,
            self.policy,
            doc_ids,
            asked.queries or (asked.question,),
            analyzed_by(self.analyzer),
            GoldWriter(),
            reader=reader_of(self.policy),
        )
        return (await orchestrate(asked.question, tools, precise=False)).context

    async def row(self, asked: Asked, method: str, scope: str) -> Row:
        """Measure one question."""
        doc_ids = (asked.doc_id,) if scope == "one report" else ()
        context = await self.context(asked, method, doc_ids)
        missing = missing_of(asked, context, self.archive.document(asked.doc_id))
        of = len(asked.numbers) or 1
        tokens = sum(count_tokens(passage.shown_text) for passage in context)
        return Row(asked, method, scope, missing, 0 if asked.pages and missing else of - len(missing), of, tokens)


def report(rows: Sequence[Row], names: Mapping[str, str]) -> str:
    """Return the table of shares and mean tokens; ``names`` are the kinds of rows by scope."""
    table = []
    for method in dict.fromkeys(row.method for row in rows):
        line = [method]
        for scope in names:
            own = [row for row in rows if (row.method, row.scope) == (method, scope)]
            share = sum(row.shown for row in own) / max(1, sum(row.of for row in own))
            line += [f"{share:.3f}", f"{fmean(row.tokens for row in own):,.0f}"] if own else ["", ""]
        table.append(line)
    return markdown_table(["shown", *(each for scope in names for each in (scope, "tokens"))], table)


def main() -> None:
    """Measure and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive")
    parser.add_argument("--questions", type=Path, help="JSON lines of questions with numbers")
    parser.add_argument("--challenge", type=Path, help="JSON lines of questions with gold pages")
    parser.add_argument("--methods", nargs="+", choices=[*PLAIN, OFF, OURS], default=[*PLAIN, OFF, OURS])
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="keys of the policy, as JSON")
    parser.add_argument("--missing", action="store_true", help="print the numbers that ours does not show")
    parser.add_argument(
        "--work", type=Path, help="folder for cached vectors of questions; beside the archive if left out"
    )
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    archive = Archive.open(given.archive)
    overrides = {key: json.loads(value) for key, _, value in (each.partition("=") for each in given.set)}
    bench = Bench(
        archive,
        Retrievals(archive, cached_encoder(given.work or Path(f"{given.archive.rstrip('/')}.vectors"))),
        load_config(FullPolicy, "policy/default.yaml", overrides),
        Remembered(load_analyzer(AnalyzerConfig())),
    )
    parts = ["# Needed numbers and gold pages shown", f"`{_command(given)}`, {len(archive.doc_ids())} reports"]
    kinds = {"needed numbers": given.questions and read_questions(given.questions, archive)}
    kinds["gold pages"] = given.challenge and list(read_challenge(given.challenge, archive))

    async def run(asked: Sequence[Asked]) -> list[Row]:
        scopes = ("one report", "archive")
        return [await bench.row(each, method, scope) for method in given.methods for scope in scopes for each in asked]

    for kind, asked in kinds.items():
        if not asked:
            continue
        bench.retrievals.prepare([each.question for each in asked])
        rows = asyncio.run(run(asked))
        of = sum(len(each.numbers) or 1 for each in asked)
        scopes = {"one report": "", "archive": ""}
        parts += [f"{kind}: {of} of {len(asked)} questions", report(rows, scopes)]
        if given.missing:
            parts += [
                f"- {row.scope}: {row.asked.question} [{row.asked.doc_id}]: {' '.join(row.missing)} ({row.tokens})"
                for row in rows
                if row.method == given.methods[-1] and row.missing
            ]
    text = "\n\n".join([*parts, ""])
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


def _command(given: argparse.Namespace) -> str:
    said = ["python -m benchmarks.needed_numbers ARCHIVE"]
    said += ["--questions QUESTIONS"] if given.questions else []
    said += ["--challenge ROUND2_QUESTIONS"] if given.challenge else []
    said += ["--set", *given.set] if given.set else []
    return " ".join(said)


if __name__ == "__main__":
    main()
