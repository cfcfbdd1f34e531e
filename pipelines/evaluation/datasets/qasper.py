"""Qasper: questions on NLP papers (Dasigi et al. 2021), as whole papers or as annotated questions alone.

Several annotators answered a question. All their answers count as wordings; kind and evidence are those of the first
who found it answerable (of the first at all, when none did).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.datasets.answer_parts import grounded, one_part, span_parts
from okralong.pipelines.evaluation.datasets.fields import Row, row_of, rows_in, texts_of
from okralong.pipelines.evaluation.datasets.naming import QueryIds, row_type
from okralong.pipelines.evaluation.datasets.paragraphs import FLOAT, keep_paragraphs
from okralong.pipelines.evaluation.datasets.pieces import Pieces, Range, keep_text
from okralong.pipelines.evaluation.datasets.qasper_papers import papers
from okralong.pipelines.evaluation.datasets.values import DataSet, Evidence, Item, Text
from okralong.pipelines.evaluation.gold import Gold
from okralong.pipelines.evaluation.recall import Parts

NAME: Final = "qasper"
UNANSWERABLE: Final = "unanswerable"
logger = logging.getLogger(__name__)


def read(path: Path, part: str) -> DataSet:
    """Papers in either form of ``qasper_papers``. One text a paper: title, abstract, sections and paragraphs.

    ``document`` is the arXiv id. Each annotated evidence paragraph is one piece of evidence. Left out, and counted in
    the log, are figures and tables ("FLOAT SELECTED") and paragraphs that the paper's text does not hold. Raises
    InputError naming file, row and field.
    """
    texts: dict[str, Text] = {}
    items, lost = [], 0
    ids = QueryIds(NAME)
    for paper in papers(path):
        written, ranges = _paper(paper)
        text = keep_text(texts, paper.text("id"), written)
        for row in _questions(paper):
            item, missing = _item(row, text, ranges, ids)
            items.append(item)
            lost += missing
    logger.info("%s: %d pieces of evidence are no text of the papers, left out.", path, lost)
    return DataSet(NAME, part, texts, tuple(items))


def read_annotations(path: Path, part: str) -> DataSet:
    """A list of questions with answer and evidence paragraphs, without the papers: each paragraph is a text.

    An unanswerable question has no evidence. Figures and tables are left out and counted in the log. Raises InputError
    naming file, row and field.
    """
    texts: dict[str, Text] = {}
    items, lost = [], 0
    ids = QueryIds("qasper_annotations")
    for row in rows_in(path):
        label, document = row.text("answer_type"), row.text("paper_id")
        kind = row_type(row, "answer_type", NAME, label)
        evidence, floats = keep_paragraphs(texts, document, texts_of(row, "evidence", row.get("evidence", list)))
        lost += floats
        answer = UNANSWERABLE if label == UNANSWERABLE else row.text("answer_text").strip()
        parts = grounded(one_part([answer]), [texts[each.text_id].text for each in evidence])
        question = Question(ids.take(row, "question_id"), row.text("question"), answers=(answer,), type=kind)
        context = tuple(each.text_id for each in evidence)
        items.append(Item(Gold(question, "qasper_annotations", label, parts), (document,), context, evidence))
    logger.info("%s: %d pieces of evidence are figures or tables without text, left out.", path, lost)
    return DataSet("qasper_annotations", part, texts, tuple(items))


def _paper(paper: Row) -> tuple[str, dict[str, Range]]:
    """The paper's text, and the range of each of its pieces, by the piece."""
    body = row_of(paper.file, f"{paper.place}, full_text", paper.get("full_text", dict))
    names, sections = body.get("section_name", list), body.get("paragraphs", list)
    if len(names) != len(sections):
        body.bad("paragraphs", f"has {len(sections)} sections, and section_name {len(names)}")
    written = [paper.text("title"), paper.get("abstract", str)]
    for name, section in zip(names, sections, strict=True):
        if not isinstance(section, list):
            body.bad("paragraphs", f"holds {type(section).__name__} where a list of paragraphs is expected")
        # A section without a name has null there.
        written += [*texts_of(body, "section_name", [name or ""]), *texts_of(body, "paragraphs", section)]
    pieces = Pieces()
    ranges: dict[str, Range] = {}
    for each in written:
        if each.strip():
            ranges.setdefault(each.strip(), pieces.add(each))
    return pieces.text, ranges


def _questions(paper: Row) -> Iterator[Row]:
    """The paper's questions, which the file keeps as columns, as rows."""
    asked = row_of(paper.file, f"{paper.place}, qas", paper.get("qas", dict))
    columns = {field: asked.get(field, list) for field in ("question", "question_id", "answers")}
    for field, values in columns.items():
        if len(values) != len(columns["question"]):
            asked.bad(field, f"has {len(values)} entries for {len(columns['question'])} questions")
    for number in range(len(columns["question"])):
        place = f"{paper.place}, question {number + 1}"
        yield Row(paper.file, place, {field: values[number] for field, values in columns.items()})


def _item(row: Row, text: Text, ranges: Mapping[str, Range], ids: QueryIds) -> tuple[Item, int]:
    answers = list(row_of(row.file, f"{row.place}, answers", row.get("answers", dict)).rows("answer", "answer"))
    if not answers:
        row.bad("answers", "holds no answer")
    labels = [_label(answer) for answer in answers]
    chosen = next((n for n, label in enumerate(labels) if label != UNANSWERABLE), 0)
    paragraphs = texts_of(answers[chosen], "evidence", answers[chosen].get("evidence", list))
    found = [ranges[each.strip()] for each in paragraphs if not each.startswith(FLOAT) and each.strip() in ranges]
    label = labels[chosen]
    wordings = [_wording(answer, kind) for answer, kind in zip(answers, labels, strict=True)]
    if label != UNANSWERABLE:
        wordings = [wording for wording, kind in zip(wordings, labels, strict=True) if kind != UNANSWERABLE]
    question = Question(
        ids.take(row, "question_id"),
        row.text("question"),
        answers=tuple(dict.fromkeys(wordings)),
        type=row_type(row, "answers", NAME, label),
    )
    parts: Parts = one_part(question.answers)
    if label == "extractive":
        parts = span_parts(_spans(answers[chosen]))
    gold = Gold(question, NAME, label, grounded(parts, [text.text]))
    evidence = tuple(Evidence(text.text_id, *each) for each in dict.fromkeys(found))
    return Item(gold, (text.document,), (text.text_id,), evidence), len(paragraphs) - len(found)


def _label(answer: Row) -> str:
    if answer.get("unanswerable", bool):
        return UNANSWERABLE
    if _spans(answer):
        return "extractive"
    if answer.get("yes_no", object) is not None:
        answer.get("yes_no", bool)
        return "yes_no"
    answer.text("free_form_answer")
    return "free_form"


def _wording(answer: Row, label: str) -> str:
    values: Mapping[str, Any] = answer.values
    if label == "extractive":
        return ", ".join(_spans(answer))
    if label == "yes_no":
        return "Yes" if values["yes_no"] else "No"
    return UNANSWERABLE if label == UNANSWERABLE else str(values["free_form_answer"]).strip()


def _spans(answer: Row) -> list[str]:
    spans = texts_of(answer, "extractive_spans", answer.get("extractive_spans", list))
    return [span.strip() for span in spans if span.strip()]
