"""What a question's stages take of the processor: the method's own operators, one after the other, in this process.

Processor time and not the clock, so that what else the machine does counts little; nothing here waits for anybody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from okralong.lab.datasets.pooling import PooledQuestion
from okralong.lab.evidence.bench import Bench, BenchTools, Retrievals, analyzed_by
from okralong.lab.evidence.writers import GoldWriter
from okralong.pipelines.answering.analyzers.analysis import Analyzer
from okralong.pipelines.answering.context import process_context
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import assembled_retrieval, primary_retrieval
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import LocalShard

REPEATS: Final = 3
"""Times that a question is asked at a length, in turn with the other lengths; its best counts."""

STAGES: Final = ("retrieval", "analysis", "context")


class Unremembered(Retrievals):
    """Every look-up is made; only the query's vector is at hand."""

    def shards(self, granularity: int) -> Sequence[LocalShard]:
        """See ``Retrievals``."""
        return self.archive.clients(granularity)


@dataclass(frozen=True)
class Stopwatch:
    """The stages of one set at one length."""

    bench: Bench
    policy: Policy
    analyzer: Analyzer

    async def seconds(self, question: PooledQuestion) -> dict[str, float]:
        """Seconds of the processor by stage: primary and assembled retrieval together, the analysis, the context's
        processing. Each is for the question itself, whatever its workflow would look up beside it.
        """
        asked = question.item.gold.question.question
        tools = self._tools(question)
        began = time.process_time()
        primary, scores = await primary_retrieval(tools, "primary/retrieve", asked)
        retrieved = time.process_time()
        analysis = await tools.analyze("analyze", asked, primary, scores)
        analysed = time.process_time()
        plan = organize(analysis, self.policy, precise=False)
        hits = await assembled_retrieval(tools, "retrieve", asked, plan)
        assembled = time.process_time()
        await process_context(hits, plan, tools)
        done = time.process_time()
        return {
            "retrieval": retrieved - began + assembled - analysed,
            "analysis": analysed - retrieved,
            "context": done - assembled,
        }

    def first_reading(self) -> list[float]:
        """Seconds of the processor for reading each document from an archive just opened, the best of its repeats."""
        return [min(self._reading(document.doc_id) for _ in range(REPEATS)) for document in self.bench.pooled.documents]

    def _reading(self, doc_id: str) -> float:
        archive = Archive.open(self.bench.retrievals.archive.location)
        archive.document_tokens((doc_id,))  # the catalogue is read before any question
        began = time.process_time()
        archive.document(doc_id)
        return time.process_time() - began

    def _tools(self, question: PooledQuestion) -> BenchTools:
        kept = self.bench.retrievals
        return BenchTools(
            Unremembered(kept.archive, kept.encoder),
            self.policy,
            question.doc_ids,
            question.item.gold_queries,
            analyzed_by(self.analyzer),
            GoldWriter(),
        )


def measure_stages(
    watches: Mapping[int, Stopwatch], questions: Mapping[int, Sequence[PooledQuestion]]
) -> dict[int, dict[str, list[float]]]:
    """Seconds by length and stage, one for each question: the best of its repeats, the lengths taken in turn.

    ``questions`` has the same ones at every length. Raises ValueError when it has not.
    """
    by_id = {length: {q.item.gold.question.query_id: q for q in own} for length, own in questions.items()}
    ids = list(next(iter(by_id.values())))
    if any(own.keys() != set(ids) for own in by_id.values()):
        raise ValueError("The lengths have different questions.")
    best: dict[int, dict[str, list[float]]] = {length: {stage: [] for stage in STAGES} for length in watches}
    for query_id in ids:
        seen: dict[int, list[dict[str, float]]] = {length: [] for length in watches}
        for _ in range(REPEATS):
            for length, watch in watches.items():
                seen[length].append(asyncio.run(watch.seconds(by_id[length][query_id])))
        for length, rounds in seen.items():
            for stage in STAGES:
                best[length][stage].append(min(each[stage] for each in rounds))
    return best
