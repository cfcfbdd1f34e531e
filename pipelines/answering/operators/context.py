"""The context processor: what is retrieved becomes what is shown (paper section 3.3, appendix B.3).

Neighbours are merged, passages are widened where the plan says so, tables that a boundary cuts are made whole, and
what then overlaps is merged again. A whole document is fetched only for a passage that needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.answering.operators.extend import extend
from okralong.pipelines.answering.operators.merge import merge, passage_of
from okralong.pipelines.answering.operators.recover_table import recover_tables
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, Hit, Passage, Plan


async def process_context(hits: Sequence[Hit], plan: Plan, tools: Tools) -> list[Passage]:
    """The passages that show ``hits``, documents by best score, reading order within each."""
    cut = {hit.chunk.chunk_id for hit in hits if hit.chunk.table_id is not None and plan.recover_tables}
    documents: dict[str, Document] = {}
    worked: list[Passage] = []
    for passage in merge(map(passage_of, hits)):
        if plan.extension_tokens == 0 and cut.isdisjoint(passage.chunk_ids):
            worked.append(passage)
            continue
        if passage.doc_id not in documents:
            documents[passage.doc_id] = await tools.full_text(passage.doc_id)
        worked.append(_work(passage, documents[passage.doc_id], plan, tools.policy.context.table_tokens))
    return merge(worked)


def _work(passage: Passage, document: Document, plan: Plan, table_tokens: int) -> Passage:
    if plan.extension_tokens:
        passage = extend(passage, document, plan.extension_tokens, count_tokens)
    # After the extension, because its new ends may cut a table too.
    if plan.recover_tables:
        passage = recover_tables(passage, document, table_tokens, count_tokens)
    return passage
