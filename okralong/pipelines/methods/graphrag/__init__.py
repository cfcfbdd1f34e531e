"""GraphRAG (Edge et al. 2024): answer from a graph of entities and relations, and from reports on its communities.

The generator extracts entities and relations from every chunk of a document, and writes a report on each community of
entities. Local search shows reports, entities and chunks near the question. Global search asks the generator what each
report contributes to the answer.

A document's graph is kept with the archive, like RAPTOR's tree: it is written when the first question needs it, with
calls under the run's cap, and reused by later questions and runs with the same content and generator. It is the most
expensive artifact here: the generator reads every token once, and writes more than half as many. Communities are found
by Leiden's algorithm in the authors' package (``graspologic-native``).

Differences from the paper:

- Chunks have 512 tokens and do not overlap; the paper's have 600 and share 100. Each is read once: there is no
  "gleaning" (asking for missed entities), and no extraction of claims.
- The descriptions of an entity are joined up to ``DESCRIPTION`` tokens; the authors summarize them. The prompt for a
  report has the community's best connected entities and relations, up to ``report_tokens``; the authors replace those
  that do not fit by reports on smaller communities.
- There is one graph per document. In a larger scope the graphs of the ``max_documents`` documents with the best chunks
  are used, without merging entities of the same name.
- Local search, the default, follows the authors' code (``query/structured_search/local_search``), not the paper. The
  shares of reports and chunks are those of the code. The context has 8,000 tokens, as in the paper's comparisons; the
  code has 12,000.
- Global search makes one call per batch of reports, at most ``max_maps``, in the order of the ratings; the authors
  shuffle the reports.
- Entities are matched by the archive's encoder.
- Only chunks are cited, because reports and descriptions occur in no document.
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
"""Version of ``build_graph``. Increment it when the prompts, the parsers or the form of a graph change."""


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    size = policy.section(Section).granularity
    return Needs(
        (size,),
        vectors=True,
        unforeseen="the graphs of its documents must be written first",
        packages=("graspologic_native",),
    )


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer by local or global search over the documents' graphs.

    Steps: ``plan``, ``retrieve``, each document's artifact ``graphrag`` (``build_graph``); then ``choose`` and
    ``generate`` (local), or a step per batch, ``map/1/points``, and ``generate`` (global).
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
    # The retrieved chunks are only used to choose the documents.
    return plain_plan(policy.granularity, policy.candidates, reason, most=most_of(tools, calls))
