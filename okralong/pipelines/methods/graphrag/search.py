"""Answer from graphs, by local search around the nearest entities or by global search over the reports."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from okralong.pipelines.answering.citations import ask_or
from okralong.pipelines.answering.context import fit_passages
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.prompt_text import framed_prompt, strip_thought
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Chunk, Hit, ReplyError
from okralong.pipelines.methods.graphrag.build import REPORT
from okralong.pipelines.methods.graphrag.graph import Community, Graph, entity_line, first_lines, relation_line
from okralong.pipelines.methods.graphrag.section import Section
from okralong.pipelines.methods.raptor import node_passage, only_leaves, unpacked

# Local search.


async def local_search(tools: Tools, question: str, graphs: Sequence[Graph], policy: Section) -> Answer:
    """Answer from the surroundings of the entities nearest to the question.

    Of ``max_tokens``, reports get at most the share ``community_share``, chunks at most ``text_share``, and entities
    and relations the rest.
    """
    flat = [(number, place) for number, graph in enumerate(graphs) for place in range(len(graph.entities))]

    async def choose() -> list[int]:
        (vector,) = await tools.embed([question])
        rows = np.stack([unpacked(graphs[number].entities[place].vector) for number, place in flat])
        near = (rows @ np.asarray(vector, dtype=np.float32)).round(6)
        return [int(row) for row in np.argsort(-near, kind="stable")[: policy.entities]]

    asked = {"question": question, "graphs": {graph.doc_id: len(graph.entities) for graph in graphs}}
    nearest = [flat[row] for row in await tools.remember("choose", asked, choose)] if flat else []
    reports = within(_reports(graphs, nearest), policy.community_share * policy.max_tokens)
    units = within(await _units(tools, graphs, nearest), policy.text_share * policy.max_tokens)
    left = policy.max_tokens - sum(hit.chunk.n_tokens for hit in [*reports, *units])
    lists = _lists(graphs, nearest, policy.relationships, left)
    # The prompt has the authors' order. If the window is too small, chunks are dropped last.
    shown = [node_passage(hit) for hit in [*reports, *lists, *units]]
    return await generate(tools, "generate", question, shown, [*units, *lists, *reports], cite_in=only_leaves)


def _reports(graphs: Sequence[Graph], nearest: Sequence[tuple[int, int]]) -> list[Hit]:
    """Return the reports on communities that contain nearest entities: by their number, then by rating."""
    chosen = set(nearest)
    found = [
        (sum((number, place) in chosen for place in community.members), community.rating, number, at)
        for number, graph in enumerate(graphs)
        for at, community in enumerate(graph.communities)
    ]
    order = sorted((each for each in found if each[0]), key=lambda each: (-each[0], -each[1], each[2], each[3]))
    return [
        _written(graphs[number].doc_id, f"report-{at:04d}", graphs[number].communities[at].text)
        for *_, number, at in order
    ]


async def _units(tools: Tools, graphs: Sequence[Graph], nearest: Sequence[tuple[int, int]]) -> list[Hit]:
    """Return the chunks that name the nearest entities: nearest entity first, then by number of its relations."""
    ranked: dict[tuple[int, int], None] = {}
    for number, place in nearest:
        graph = graphs[number]
        linked = Counter(
            chunk for each in graph.relations if place in (each.source, each.target) for chunk in each.chunks
        )
        own = sorted(graph.entities[place].chunks, key=lambda chunk: (-linked[chunk], chunk))
        ranked.update(dict.fromkeys((number, chunk) for chunk in own))
    texts = {number: (await tools.full_text(graphs[number].doc_id)).text for number, _ in ranked}
    size = tools.policy.section(Section).granularity
    hits = []
    for rank, (number, chunk) in enumerate(ranked):
        chunk_id, ordinal, start, end, tokens = graphs[number].chunks[chunk]
        text = texts[number][start:end]
        read = Chunk(chunk_id, graphs[number].doc_id, size, ordinal, start, end, tokens, text)
        hits.append(Hit(read, 1 / (1 + rank)))
    return hits


def _lists(graphs: Sequence[Graph], nearest: Sequence[tuple[int, int]], relationships: int, left: float) -> list[Hit]:
    """Return the nearest entities and their relations as one passage per document, up to ``left`` tokens in total.

    Relations between two nearest entities come first, then others, those of the best connected entities first.
    """
    lines: dict[int, list[str]] = defaultdict(list)
    for number, place in nearest:
        lines[number].append(entity_line(graphs[number].entities[place]))
    for number in list(lines):
        graph, own = graphs[number], {place for at, place in nearest if at == number}
        degrees = graph.degrees()
        touching = [each for each in graph.relations if {each.source, each.target} & own]
        touching.sort(
            key=lambda each: (
                -len({each.source, each.target} & own),
                -degrees[each.source] - degrees[each.target],
                each.source,
                each.target,
            )
        )
        lines[number] += [relation_line(graph, each) for each in touching[: relationships * len(own)]]
    hits: list[Hit] = []
    for number, told in lines.items():
        if left <= 0:
            break
        text = "\n".join(first_lines(told, int(left)))
        hits.append(_written(graphs[number].doc_id, "entities", text))
        left -= hits[-1].chunk.n_tokens
    return hits


def within(hits: Sequence[Hit], tokens: float) -> list[Hit]:
    """Return the first ``hits`` with at most ``tokens`` in total, possibly none."""
    kept: list[Hit] = []
    for hit in hits:
        tokens -= hit.chunk.n_tokens
        if tokens < 0:
            break
        kept.append(hit)
    return kept


def _written(doc_id: str, what: str, text: str) -> Hit:
    """Return a generated text as a hit whose chunk has no characters of the document, like RAPTOR's summaries."""
    return Hit(Chunk(f"{doc_id}#{what}", doc_id, 0, 0, 0, 0, count_tokens(text), text), 1.0)


# Global search.


async def global_search(tools: Tools, question: str, graphs: Sequence[Graph], policy: Section) -> Answer:
    """Extract points from the reports of ``level``, and answer from the best of them, up to ``max_tokens``.

    Without points the question is unanswerable. Steps: one per batch of reports (``map/1/points``), and ``generate``.
    """
    reports = [
        (-community.rating, number, at, _written(graph.doc_id, f"report-{at:04d}", community.text))
        for number, graph in enumerate(graphs)
        for at, community in enumerate(graph.communities)
        if _of_level(graph.communities, at, policy.level)
    ]
    ranked = [hit for *_, hit in sorted(reports, key=lambda each: each[:3])]
    batches: list[list[Hit]] = []
    while ranked and len(batches) < policy.max_maps:
        batches.append(within(ranked, policy.max_tokens) or ranked[:1])
        ranked = ranked[len(batches[-1]) :]
    asked = [_points(tools, f"map/{number}/points", question, batch) for number, batch in enumerate(batches, 1)]
    points = [point for found in await asyncio.gather(*asked) for point in found]
    points.sort(key=lambda point: -point[0])  # stable: ties keep the order of the reports' ratings
    hits = [
        Hit(Chunk(f"point-{number:03d}", "points", 0, number, 0, 0, count_tokens(text), text), score / 100)
        for number, (score, text) in enumerate(points)
    ]
    chosen = within(hits, policy.max_tokens)
    if not chosen:
        return Answer("unanswerable", UNANSWERABLE)
    found = await generate(
        tools, "generate", question, [node_passage(hit) for hit in chosen], chosen, cite_in=only_leaves
    )
    return replace(found, context=())


def _of_level(found: Sequence[Community], place: int, level: int) -> bool:
    """Return whether a community has ``level``, or a lower level and no communities inside it."""
    own = found[place].level
    return own == level or (own < level and not any(each.parent == place for each in found))


async def _points(tools: Tools, step: str, question: str, reports: Sequence[Hit]) -> list[tuple[int, str]]:
    build = partial(framed_prompt, MAP_INSTRUCTIONS, question)
    shown = fit_passages([node_passage(hit) for hit in reports], reports, build, REPORT, tools)
    return await ask_or(tools, REPORT, step, build(shown), read_points, [])


MAP_INSTRUCTIONS: Final = """Do not answer the question yet. The passages are reports. List what they say that helps \
to answer it, a line for each point:
Point: [score from 0 to 100, how much it helps] what is said, with names and figures in full
If nothing helps, reply only: Point: [0] nothing"""

_POINT: Final = re.compile(
    r"^[\s>#*_\-]*(?:point\s*\d*\s*[*_]*\s*:\s*[*_]*)?\s*[\[(]\s*(\d{1,3})\s*[\])]\s*[:\-]?\s*(\S.*)$", re.IGNORECASE
)


def read_points(reply: str) -> list[tuple[int, str]]:
    """Return each ``(score, point)`` of a reply whose score is above 0. Raises ReplyError if no line is a point."""
    found = [match for line in strip_thought(reply).splitlines() if (match := _POINT.match(line)) is not None]
    if not found:
        raise ReplyError(f"The reply has no Point line: {reply[:80]!r}. Such lines alone were asked for.")
    return [(min(int(match[1]), 100), match[2].strip()) for match in found if int(match[1]) > 0]
