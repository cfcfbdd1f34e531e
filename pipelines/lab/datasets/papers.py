"""The two forms in which Qasper is published: its authors' files, and the hub's.

The hub's are rows with columns inside: ``qas`` is {"question": [...], "question_id": [...], "answers": [{"answer":
[...]}]} and ``full_text`` {"section_name": [...], "paragraphs": [[...]]}. The authors' (``qasper-train-v0.3.json``) are
one object, from arXiv id to paper, with lists of objects there. Both come out as the hub's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.types import Question
from okralong.pipelines.lab.datasets.base import (
    FLOAT,
    DataSet,
    Evidence,
    Item,
    Pieces,
    QueryIds,
    Range,
    Row,
    Text,
    grounded,
    jsonl_rows,
    keep_paragraphs,
    keep_text,
    one_part,
    question_type,
    read_json,
    row_of,
    row_type,
    rows_in,
    span_parts,
    text_id,
    texts_of,
    trimmed,
)
from okralong.pipelines.lab.gold import Gold, Parts


def papers(path: Path) -> Iterator[Row]:
    """Every paper as a row in the hub's form. Raises InputError naming file, row and field."""
    content = read_json(path) if path.suffix == ".json" else None
    if not isinstance(content, dict):
        yield from rows_in(path)
        return
    for identity, value in content.items():
        yield _as_on_the_hub(row_of(path, f"paper {identity}", value), identity)


def _as_on_the_hub(paper: Row, identity: str) -> Row:
    columns: dict[str, Any] = {
        "full_text": _columns(paper, "full_text", ("section_name", "paragraphs")),
        "qas": _columns(paper, "qas", ("question", "question_id", "answers")),
    }
    columns["qas"]["answers"] = [
        {"answer": [each.get("answer", dict) for each in asked.rows("answers", "answer")]}
        for asked in paper.rows("qas")
    ]
    return Row(paper.file, paper.place, {**paper.values, **columns, "id": identity})


def _columns(paper: Row, field: str, names: tuple[str, ...]) -> dict[str, list[Any]]:
    rows = list(paper.rows(field))
    return {name: [row.get(name, object) for row in rows] for name in names}


# --------
# Qasper: questions on NLP papers (Dasigi et al. 2021), as whole papers or as annotated questions alone.
#
# Several annotators answered a question. All their answers count as wordings; kind and evidence are those of the first
# who found it answerable (of the first at all, when none did).

QASPER: Final = "qasper"
UNANSWERABLE: Final = "unanswerable"
logger = logging.getLogger(__name__)


def read_qasper(path: Path, part: str) -> DataSet:
    """Papers in either form of ``qasper_papers``. One text a paper: title, abstract, sections and paragraphs.

    ``document`` is the arXiv id. Each annotated evidence paragraph is one piece of evidence. Left out, and counted in
    the log, are figures and tables ("FLOAT SELECTED") and paragraphs that the paper's text does not hold. Raises
    InputError naming file, row and field.
    """
    texts: dict[str, Text] = {}
    items, lost = [], 0
    ids = QueryIds(QASPER)
    for paper in papers(path):
        written, ranges = _paper(paper)
        text = keep_text(texts, paper.text("id"), written)
        for row in _questions(paper):
            item, missing = _item(row, text, ranges, ids)
            items.append(item)
            lost += missing
    logger.info("%s: %d pieces of evidence are no text of the papers, left out.", path, lost)
    return DataSet(QASPER, part, texts, tuple(items))


def read_qasper_annotations(path: Path, part: str) -> DataSet:
    """A list of questions with answer and evidence paragraphs, without the papers: each paragraph is a text.

    An unanswerable question has no evidence. Figures and tables are left out and counted in the log. Raises InputError
    naming file, row and field.
    """
    texts: dict[str, Text] = {}
    items, lost = [], 0
    ids = QueryIds("qasper_annotations")
    for row in rows_in(path):
        label, document = row.text("answer_type"), row.text("paper_id")
        kind = row_type(row, "answer_type", QASPER, label)
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
        type=row_type(row, "answers", QASPER, label),
    )
    parts: Parts = one_part(question.answers)
    if label == "extractive":
        parts = span_parts(_spans(answers[chosen]))
    gold = Gold(question, QASPER, label, grounded(parts, [text.text]))
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


# --------
# QMSum: summaries of whole meetings (general) and of what was said on one topic (specific; Zhong et al. 2021).
#
# One meeting a line: ``meeting_transcripts`` (speaker, content), ``general_query_list`` (query, answer) and
# ``specific_query_list``, which also has ``relevant_text_span``: pairs of turn numbers, written as texts, counted from
# 0, the last included. The meeting becomes one text, a line "speaker: content" for each turn, spaced as published
# ("well , yes"). Neither meetings nor queries have a name: a meeting is called by its words, a query by its place in
# its list.
#
# Evidence of a specific query is one piece for each span: from its first turn to the end of its last. General queries
# have none: all of the meeting is asked about. Nothing stands near sub-questions, so there are no gold queries; and
# the answers are summaries, so there are no parts to look for.

QMSUM: Final = "qmsum"


def read_qmsum(path: Path, part: str) -> DataSet:
    """A file such as ``train.jsonl``. Raises InputError naming file, row and field."""
    texts: dict[str, Text] = {}
    items: list[Item] = []
    for row in jsonl_rows(path):
        written, turns = _transcript(row)
        if text_id(written) in texts:
            row.bad("meeting_transcripts", "holds a meeting that an earlier row has")
        text = keep_text(texts, f"meeting-{text_id(written)}", written)
        for number, query in enumerate(row.rows("general_query_list"), start=1):
            items.append(_item_qmsum(query, text, "general", number, ()))
        for number, query in enumerate(row.rows("specific_query_list"), start=1):
            items.append(
                _item_qmsum(query, text, "specific", number, tuple(dict.fromkeys(_spans_qmsum(query, text, turns))))
            )
    return DataSet(QMSUM, part, texts, tuple(items))


def _transcript(row: Row) -> tuple[str, list[Range]]:
    """The meeting as text, and the range of each turn."""
    lines: list[str] = []
    turns: list[Range] = []
    position = 0
    for turn in row.rows("meeting_transcripts", "turn"):
        line = f"{turn.text('speaker')}: {turn.get('content', str)}"
        lines.append(line)
        turns.append((position, position + len(line)))
        position += len(line) + 1
    if not lines:
        row.bad("meeting_transcripts", "has no turns")
    return "\n".join(lines), turns


def _item_qmsum(query: Row, text: Text, label: str, number: int, evidence: tuple[Evidence, ...]) -> Item:
    question = Question(
        f"{QMSUM}-{text.text_id}-{label}-{number}",
        query.text("query"),
        answers=(query.text("answer"),),
        type=question_type(QMSUM, label),
    )
    return Item(Gold(question, QMSUM, label), documents=(text.document,), text_ids=(text.text_id,), evidence=evidence)


def _spans_qmsum(query: Row, text: Text, turns: Sequence[Range]) -> Iterator[Evidence]:
    for span in query.get("relevant_text_span", list):
        match span:
            case [str(first), str(last)] if first.isdecimal() and last.isdecimal():
                start, end = int(first), int(last)
            case _:
                query.bad("relevant_text_span", f"holds {span!r} and not the numbers of a first and a last turn")
        if not start <= end < len(turns):
            query.bad("relevant_text_span", f"holds {span!r}, which are not turns of the {len(turns)} of the meeting")
        yield Evidence(text.text_id, *trimmed(text.text, (turns[start][0], turns[end][1])))
