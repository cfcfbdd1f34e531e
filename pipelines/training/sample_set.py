"""The sample archive as a data set, for rows of which the public sets hold few."""

from __future__ import annotations

from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.datasets.answer_parts import grounded, one_part
from okralong.pipelines.evaluation.datasets.values import DataSet, Evidence, Item, Text, make_text
from okralong.pipelines.evaluation.gold import Gold
from okralong.pipelines.samples.sample import UNANSWERABLE, generate
from okralong.pipelines.training.rows_config import SampleRows

NAME = "sample"


def sample_set(config: SampleRows, seed: int) -> DataSet:
    """Fictional reports and their answerable questions. Raises InputError when so many cannot be had."""
    sample = generate(config.reports, config.questions, seed, config.words)
    texts = {document.doc_id: make_text(document.doc_id, document.text) for document in sample.documents}
    asked = [
        (question, draft.calculation)
        for question, draft in zip(sample.questions, sample.drafts, strict=True)
        if not question.query_id.endswith(UNANSWERABLE)
    ]
    items = tuple(_item(question, calculation, texts, seed) for question, calculation in asked)
    return DataSet(NAME, str(seed), {text.text_id: text for text in texts.values()}, items)


def _item(question: Question, calculation: str, texts: dict[str, Text], seed: int) -> Item:
    evidence = []
    for place in question.evidence:
        doc_id, start, end = place.rsplit(":", 2)
        evidence.append(Evidence(texts[doc_id].text_id, int(start), int(end)))
    context = [texts[doc_id].text for doc_id in question.doc_ids]
    named = Question(
        f"sample-{seed}-{question.query_id}", question.question, answers=question.answers, type=question.type
    )
    gold = Gold(named, NAME, question.type, grounded(one_part(question.answers), context))
    own = tuple(texts[doc_id].text_id for doc_id in question.doc_ids)
    return Item(gold, question.doc_ids, own, tuple(evidence), calculation=calculation)
