"""A document's tree of summaries: its chunks in clusters, a summary of each, the summaries in clusters, and so on
(RAPTOR, Sarthi et al. 2024, section 3; the layers' bounds are those of the authors' ``cluster_tree_builder.py``).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from okralong.pipelines.answering.citations import ask_and_read
from okralong.pipelines.answering.context import fit_passages, prompt_fits
from okralong.pipelines.answering.operators.clusters import DIMENSIONS, Matrix, soft_clusters
from okralong.pipelines.answering.prompts.summarize import read_summary, summarize_prompt
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Chunk, Hit, Passage

ROLE: Final = "summarize"

ALL: Final = 1_000_000
"""More chunks than a document has."""


async def build_tree(tools: Tools, doc_id: str, granularity: int, layers: int, cluster_tokens: int) -> list[Any]:
    """The summaries of one document, lowest layer first: ``[text, vector]`` each, the vector as base64 of float32.

    Steps: ``leaves``, then for each layer ``layer/1/clusters`` and ``layer/1/1/summarize`` onward; at most ``layers``,
    and none over so few nodes that they cannot be reduced. A cluster of more than
    ``cluster_tokens`` is clustered again. Raises ReplyError when there is no summary in a repaired reply.
    """
    found = await tools.retrieve("leaves", doc_id, granularity=granularity, k=ALL)
    leaves = sorted(found.semantic, key=lambda hit: hit.chunk.ordinal)
    texts = [hit.chunk.text for hit in leaves]
    vectors = np.asarray(await tools.vectors(leaves), dtype=np.float32) if leaves else np.zeros((0, 1), np.float32)
    tree: list[Any] = []
    for layer in range(1, layers + 1):
        if len(texts) <= DIMENSIONS + 1:
            break
        make = partial(_clusters, vectors, [count_tokens(text) for text in texts], cluster_tokens)
        groups = await tools.remember(f"layer/{layer}/clusters", {"nodes": len(texts)}, make)
        texts = [
            await _summary(tools, f"layer/{layer}/{number}/summarize", doc_id, [texts[row] for row in rows])
            for number, rows in enumerate(groups, start=1)
        ]
        vectors = np.asarray(await tools.embed(texts), dtype=np.float32)
        tree += [[text, _packed(vector)] for text, vector in zip(texts, vectors, strict=True)]
    return tree


async def _clusters(vectors: Matrix, sizes: Sequence[int], most: int) -> list[list[int]]:
    # In a thread: a long document takes seconds, and other questions wait for this process.
    return await asyncio.to_thread(bounded_clusters, vectors, sizes, most)


def bounded_clusters(vectors: Matrix, sizes: Sequence[int], most: int) -> list[list[int]]:
    """``soft_clusters`` of at most ``most`` tokens each, by ``sizes``. One that clustering does not make smaller is
    halved, which is ours: the authors' code would try for ever.
    """
    groups: list[list[int]] = []
    for rows in soft_clusters(vectors) if len(vectors) > DIMENSIONS + 1 else [list(range(len(vectors)))]:
        if len(rows) == 1 or sum(sizes[row] for row in rows) <= most:
            groups.append(rows)
            continue
        half = len(rows) // 2
        for part in [rows] if len(rows) < len(vectors) else [rows[:half], rows[half:]]:
            inner = bounded_clusters(vectors[part], [sizes[row] for row in part], most)
            groups += [[part[row] for row in each] for each in inner]
    return groups


async def _summary(tools: Tools, step: str, doc_id: str, texts: Sequence[str]) -> str:
    passages = [Passage(doc_id, 0, len(text), text, count_tokens(text), 1.0) for text in texts]
    shown = fit_passages(passages, (), summarize_prompt, ROLE, tools)
    fits = partial(prompt_fits, role=ROLE, tools=tools)
    ask = partial(tools.complete, role=ROLE)
    summary, _ = await ask_and_read(ask, step, summarize_prompt(shown), read_summary, fits)
    return summary


def summary_hits(doc_id: str, tree: Sequence[Any], vector: Sequence[float]) -> list[Hit]:
    """The summaries of a document as if they were chunks of no length, with their cosine to the question's ``vector``;
    without one, 0.
    """
    asked = np.asarray(vector, dtype=np.float32)
    return [
        Hit(
            Chunk(f"{doc_id}#summary-{number:04d}", doc_id, 0, number, 0, 0, count_tokens(text), text),
            float(_unpacked(packed) @ asked) if vector else 0.0,
        )
        for number, (text, packed) in enumerate(tree)
    ]


def _packed(vector: Matrix) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _unpacked(packed: str) -> Matrix:
    return np.frombuffer(base64.b64decode(packed), dtype="<f4").astype(np.float32)
