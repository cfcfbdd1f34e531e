"""GraphRAG (Edge et al. 2024): the generator reads every chunk of a document for entities and relations, and writes a
report on each community of these; questions are answered from reports, entities and chunks (local search), or from the
reports alone, each asked what it says to the question (global search).

A document's graph is kept with the archive, like RAPTOR's tree: written when the first question needs it, by calls of
their own in the ledger and under the run's cap, and then used by all, also by later runs over the same content and with
the same generator; a killed run asks again only for what was in flight. It is by far the dearest part: every token is
read once, and more than half as many are written. Communities are those of Leiden's algorithm, in a hierarchy, by the
package that the authors use (``graspologic-native``).

Where this differs from the paper:

- Chunks of 512 tokens, which overlap nowhere; the paper's have 600, and 100 in common. Each is read once: no gleaning,
  which asks for entities that were missed, and no claims.
- The descriptions of an entity are put together as they are, up to ``DESCRIPTION`` tokens; the authors have them summed
  up. A report sees its community's best connected entities and relations up to ``report_tokens``; the authors
  put reports of smaller communities in place of what does not fit.
- One graph a document. For a scope of many documents the graphs of those ``max_documents`` with the best chunks are
  used, their entities side by side; entities of the same name are not made one.
- Local search, the default, is not in the paper but its authors' (``query/structured_search/local_search``), with their
  shares of reports and chunks; 8,000 tokens in all, as the paper's comparisons have, where the code has 12,000.
- Global search asks at most ``max_maps`` batches of reports, those of the best rated communities first; its batches are
  in the order of the rating and not shuffled.
- Entities are looked up by the archive's encoder.
- A report and a description stand in no document, so only chunks are cited.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Branch, Tools
from okralong.pipelines.core.types import Answer, Plan, Question
from okralong.pipelines.methods.graphrag.build import EXTRACT, REPORT, build_graph
from okralong.pipelines.methods.graphrag.graph import Graph
from okralong.pipelines.methods.graphrag.search import global_search, local_search
from okralong.pipelines.methods.graphrag.section import Section
from okralong.pipelines.methods.needs import Needs

__all__ = ["Section", "answer", "needs"]

VERSION: Final = 1
"""Of ``build_graph``: raised with its prompts, its readers of replies, or the form of a graph, so that archives keep
graphs of both."""


def needs(policy: Policy) -> Needs:
    """Return what the method needs of a run."""
    return Needs(
        granularities=(policy.section(Section).granularity,),
        vectors=True,
        unforeseen="the graphs of its documents must be written first",
        packages=("graspologic_native",),
    )


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, ``retrieve``, each document's artifact ``graphrag`` (``build_graph``), then ``choose`` and
    ``generate`` (local), or ``map/1/points`` onward and ``generate`` (global).
    """
    policy, words = tools.policy.section(Section), question.question
    plan = await tools.record_plan("plan", _plan(tools))
    hits = await dense_retrieval(tools, "retrieve", words, plan)
    arguments = {
        "granularity": plan.granularity,
        "cluster_size": policy.cluster_size,
        "report_tokens": policy.report_tokens,
    }
    graphs: list[Graph] = []
    for doc_id in list(dict.fromkeys(hit.chunk.doc_id for hit in hits))[: policy.max_documents]:
        branch = Branch("graph", build_graph, {"doc_id": doc_id, **arguments})
        kept = await tools.artifact("graphrag", doc_id, branch, version=VERSION, roles=(EXTRACT, REPORT))
        graphs.append(Graph.read(doc_id, kept))
    search = local_search if policy.search == "local" else global_search
    return replace(await search(tools, words, graphs, policy), plan=plan)


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.section(Section)
    calls = [("generate", policy.max_tokens)]
    if policy.search == "global":
        calls += [(REPORT, policy.max_tokens)] * policy.max_maps
    reason = f"GraphRAG: {policy.search} search over the entities, relations and reports of each document"
    # The candidates only say whose graphs are used.
    return plain_plan(policy.granularity, policy.candidates, reason, most=most_of(tools, calls))
