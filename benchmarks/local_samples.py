"""Measure how much of the gold evidence retrieval finds in generated reports in English, German and Chinese.

    python -m benchmarks.local_samples WORK [--reports 4] [--questions 60] [--words 6000] [--bm25] [--out FILE]

The reports have the first reserved seed (``RESERVED_SEEDS``), which no training, tuning or test uses. A question is
asked of its own reports. Recall is the share of the characters of the gold evidence in the first six chunks of 150
tokens, as many as the default policy shows for a factoid question. The encoder and the cross-encoder are the shipped
ones, which were trained on English; "reranked" orders the first 30 chunks of both retrievers by the cross-encoder
alone, where the default policy mixes both scores. With ``--bm25`` there are no vectors and no cross-encoder.

"Quoted" is the share of questions where the sentence that ``readers/quoted.py`` chooses from the chunks of BM25 cites
gold evidence; "answered" is the share of extractive questions where that sentence has the gold answer.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from okralong.lab.datasets.encoder import CachedEncoder, cached_encoder, index_encoder
from okralong.lab.evidence.bench import ranked
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.readers.quoted import quoted
from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import search
from okralong.pipelines.core.types import Candidates, Hit, Question
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import index_here
from okralong.pipelines.models.cross_encoder import CrossEncoder
from okralong.pipelines.reporting.sources import evidence_recall, gold_spans
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.samples.questions import RESERVED_SEEDS, Sample, generate
from okralong.pipelines.samples.words import LANGUAGES

SIZE, COUNT, CANDIDATES = 150, 6, 30
"""Tokens of a chunk, chunks shown, and chunks that the cross-encoder reads, as in the default policy."""
RETRIEVERS = {"BM25": "exact", "dense": "semantic", "both": "reciprocal_rank"}


def index(work: Path, sample: Sample, words: bool) -> Archive:
    """Return the archive of the sample's reports, which a second run opens; with ``words`` without vectors."""
    config = IndexConfig(granularities=[SIZE], embedding=EmbeddingConfig(of="none" if words else "each"))
    raw = [RawDocument(each.doc_id, each.text, f"{each.doc_id}.txt") for each in sample.documents]
    return index_here(str(work), raw, config, None if words else index_encoder(cached_encoder(work.parent)))


async def recalls(
    archive: Archive, models: tuple[CachedEncoder, CrossEncoder] | None, questions: Sequence[Question], language: str
) -> dict[str, list[float]]:
    """Return the recall of each question by retriever, and what quoted sentences cite and have."""
    found: dict[str, list[float]] = {}
    for question in questions:
        gold, asked = gold_spans(question), question.question
        vector = None if models is None else models[0].encode([asked])[0]
        languages = archive.languages_of(question.doc_ids)
        candidates = await search(archive.clients(SIZE), asked, vector, question.doc_ids, CANDIDATES, languages)
        for name, retriever in RETRIEVERS.items() if models else [("BM25", "exact")]:
            found.setdefault(name, []).append(_recall(ranked(candidates, retriever), gold))
        if models is not None:
            found.setdefault("reranked", []).append(_recall(_reranked(models[1], asked, candidates), gold))
        said = quoted(asked, [passage_of(hit) for hit in candidates.exact[:COUNT]], language)
        cites = [(each.doc_id, each.start_char, each.end_char) for each in said.citations]
        found.setdefault("quoted", []).append(float((evidence_recall(gold, cites) or 0.0) > 0))
        if question.type == "extractive":
            found.setdefault("answered", []).append(float(any(each in said.answer for each in question.answers)))
    return found


def _reranked(model: CrossEncoder, asked: str, candidates: Candidates) -> list[Hit]:
    pool = list(ranked(candidates, "reciprocal_rank"))[:CANDIDATES]
    texts = [hit.chunk.text for hit in pool]
    readings = model.read([asked] * len(texts), texts)
    return [pool[at] for at in sorted(range(len(pool)), key=lambda at: -readings[at].relevance)]


def _recall(hits: Sequence[Hit], gold: Sequence[tuple[str, int, int]]) -> float:
    shown = [(hit.chunk.doc_id, hit.chunk.start_char, hit.chunk.end_char) for hit in hits[:COUNT]]
    return evidence_recall(gold, shown) or 0.0


def main() -> None:
    """Print the report, or write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder of the archives and vectors")
    parser.add_argument("--reports", type=int, default=4)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--words", type=int, default=6_000)
    parser.add_argument("--bm25", action="store_true", help="without vectors and cross-encoder")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    models = None if given.bm25 else (cached_encoder(given.work), load_reranker(RerankerConfig()))
    rows, head = [], ["language", "questions"]
    for language in LANGUAGES:
        sample = generate(given.reports, given.questions, RESERVED_SEEDS[0], given.words, language=language)
        archive = index(given.work / language, sample, given.bm25)
        asked = [question for question in sample.questions if question.evidence]
        found = asyncio.run(recalls(archive, models, asked, language))
        rows.append([language, str(len(asked)), *(f"{fmean(each):.2f}" for each in found.values())])
        head[2:] = found
    command = f"--reports {given.reports} --questions {given.questions} --words {given.words}"
    command += " --bm25" if given.bm25 else ""
    text = "\n\n".join(
        [
            "# Evidence found in generated reports, by language",
            f"    python -m benchmarks.local_samples WORK {command} --out FILE",
            f"Mean recall of the gold evidence in the first {COUNT} chunks of {SIZE} tokens; shares of quoted "
            "sentences\n"
            "that cite gold evidence, and of extractive questions whose answer is in the sentence.",
            markdown_table(head, rows),
            "",
        ]
    )
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
