"""Measure how often BM25, dense vectors and both find the evidence of questions in five languages.

    python -m benchmarks.languages TEXTS --work WORK [--part tune] [--words] [--languages de zh] [--out FILE]

``TEXTS`` has the documents of ``languages.jsonl`` as ``de/NAME.md`` and so on. The questions, their evidence and their
parts (tune, test) were written before any result. A question is found at k if one of the first k chunks holds at least
half of the characters of its evidence, at one of the places where it stands. The terms "English" are those of all
documents and questions before languages were told apart; both use the same chunks and vectors. ``hybrid`` merges BM25
and the packaged encoder, which was trained on English only, by their ranks; ``--words`` leaves out vectors.

Each question is asked of the documents of its language, and of all documents of the five languages together.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from okralong.lab.datasets.encoder import CachedEncoder, cached_encoder, index_encoder
from okralong.lab.evidence.bench import ranked
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import search
from okralong.pipelines.core.languages import ENGLISH
from okralong.pipelines.core.types import Hit
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import index_here

QUESTIONS = Path(__file__).with_suffix(".jsonl")
SIZE = 256
CUTS = (1, 5, 10, 20)
RETRIEVERS = {"BM25": "exact", "dense": "semantic", "hybrid": "reciprocal_rank"}
HALF = 0.5


@dataclass(frozen=True)
class Asked:
    """A question, its language, and the places (document, start, end) where its evidence stands."""

    query_id: str
    language: str
    question: str
    places: Sequence[tuple[str, int, int]]


def read_questions(part: str, texts: Mapping[str, str], languages: Collection[str]) -> list[Asked]:
    """Return the questions of a part, or all, in some languages.

    Exits if a document is missing or differs from the one that a question was written on.
    """
    found = []
    for row in map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines()):
        if part not in ("all", row["part"]) or row["language"] not in languages:
            continue
        doc_id, start, end = row["places"][0]
        if texts.get(doc_id, "")[start:end] != row["quote"]:
            sys.exit(f"{doc_id} does not have {row['quote']!r} at {start}. Use the releases that the results name.")
        places = [(each, first, last) for each, first, last in row["places"]]
        found.append(Asked(row["id"], row["language"], row["question"], places))
    return found


def index(work: Path, name: str, texts: Mapping[str, str], language: str | None, words: bool) -> Archive:
    """Index the texts with the terms of their own languages, or of ``language``; with ``words`` without vectors."""
    metadata = {} if language is None else {"language": language}
    raw = [RawDocument(doc_id, text, doc_id, metadata=metadata) for doc_id, text in texts.items()]
    config = IndexConfig(granularities=[SIZE], embedding=EmbeddingConfig(of="none" if words else "each"))
    return index_here(str(work / name), raw, config, None if words else index_encoder(cached_encoder(work)))


def rank_of(asked: Asked, hits: Iterable[Hit]) -> int | None:
    """Return the rank, from 1, of the first chunk that holds half of the evidence; None if no chunk does."""
    for rank, hit in enumerate(hits, start=1):
        chunk = hit.chunk
        for doc_id, start, end in asked.places:
            held = min(chunk.end_char, end) - max(chunk.start_char, start)
            if chunk.doc_id == doc_id and held >= HALF * (end - start):
                return rank
    return None


async def ranks(
    archive: Archive,
    encoder: CachedEncoder,
    asked: Sequence[Asked],
    retriever: str,
    scopes: Mapping[str, tuple[str, ...]],
) -> list[int | None]:
    """Return the rank of each question's evidence."""
    found = []
    for each in asked:
        scope = scopes[each.language]
        vector = encoder.encode([each.question])[0] if archive.has_vectors else None
        languages = archive.languages_of(scope)
        candidates = await search(archive.clients(SIZE), each.question, vector, scope, max(CUTS), languages)
        found.append(rank_of(each, ranked(candidates, RETRIEVERS[retriever])[: max(CUTS)]))
    return found


def table(rows: Sequence[tuple[str, str, str, Sequence[int | None]]]) -> str:
    """Return the shares of questions found, a line per row (language, retriever, terms, ranks)."""
    head = [f"| language | questions | retriever | terms | {' | '.join(f'@{k}' for k in CUTS)} | MRR |"]
    head.append("|---|---|---|---|" + "---|" * (len(CUTS) + 1))
    for language, retriever, terms, found in rows:
        shares = " | ".join(f"{fmean(rank is not None and rank <= k for rank in found):.2f}" for k in CUTS)
        reciprocal = fmean(0.0 if rank is None else 1 / rank for rank in found)
        head.append(f"| {language} | {len(found)} | {retriever} | {terms} | {shares} | {reciprocal:.3f} |")
    return "\n".join(head)


async def measure(work: Path, texts: Mapping[str, str], asked: Sequence[Asked], words: bool) -> str:
    """Return the report of both scopes."""
    archives = {
        "English": index(work, "english", texts, ENGLISH, words),
        "own": index(work, "own", texts, None, words),
    }
    encoder = cached_encoder(work)
    detected = archives["own"].contents()
    told = dict(zip(detected["doc_id"].to_pylist(), detected["language"].to_pylist(), strict=True))
    other = {doc_id: language for doc_id, language in told.items() if language != doc_id.partition("/")[0]}
    languages = list(dict.fromkeys(each.language for each in asked))
    own = {language: tuple(doc_id for doc_id in texts if doc_id.startswith(f"{language}/")) for language in languages}
    parts = [
        f"{len(texts)} documents; detected as another language than that of their folder: "
        + (", ".join(f"{doc_id} ({language})" for doc_id, language in other.items()) or "none")
    ]
    for title, scopes in (("Documents of the question's language", own), ("All documents", dict.fromkeys(own, ()))):
        rows = []
        for language in [*languages, "all"]:
            mine = [each for each in asked if language in (each.language, "all")]
            for retriever in ["BM25"] if words else RETRIEVERS:
                for terms, archive in archives.items():
                    if retriever == "dense" and terms != "own":
                        continue
                    found = await ranks(archive, encoder, mine, retriever, scopes)
                    rows.append((language, retriever, "" if retriever == "dense" else terms, found))
        parts += [f"## {title}", table(rows)]
    return "\n\n".join(parts)


def main() -> None:
    """Print the report, or write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder of the archives and vectors")
    parser.add_argument("--part", choices=("tune", "test", "all"), default="test")
    parser.add_argument("--words", action="store_true", help="BM25 only")
    parser.add_argument("--languages", nargs="+", default=["*"], help="only these documents and questions")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    files = sorted(file for language in given.languages for file in given.texts.glob(f"{language}/*.md"))
    texts = {f"{file.parent.name}/{file.name}": file.read_text(encoding="utf-8") for file in files}
    there = {doc_id.partition("/")[0] for doc_id in texts}
    asked = read_questions(given.part, texts, there)
    print(f"{len(asked)} questions, {hashlib.sha256(QUESTIONS.read_bytes()).hexdigest()[:12]}", file=sys.stderr)
    report = asyncio.run(measure(given.work, texts, asked, given.words))
    if given.out is None:
        print(report)
    else:
        given.out.write_text(report + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
