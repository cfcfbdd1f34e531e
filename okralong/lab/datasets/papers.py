"""Read sets over papers and meetings: Qasper (whole papers or annotations), PubMedQA's abstracts, and QMSum."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from okralong.lab.datasets.answers import grounded, one_part, span_parts
from okralong.lab.datasets.base import FLOAT, Builder, DataSet, Evidence, Item, Text, text_id
from okralong.lab.datasets.catalog import question_type
from okralong.lab.datasets.files import Row, read_json, row_of, rows_in
from okralong.lab.datasets.gold import Gold
from okralong.lab.datasets.places import Pieces, Range, trimmed
from okralong.pipelines.core.types import Question
from okralong.pipelines.core.wording import counted

QASPER: Final = "qasper"
QASPER_ANNOTATIONS: Final = "qasper_annotations"
PUBMEDQA: Final = "pubmedqa"
QMSUM: Final = "qmsum"
UNANSWERABLE: Final = "unanswerable"
YES_NO: Final = "yes_no"

_DECIDES: Final = re.compile(r"\b(RESULTS?|FINDINGS?|CONCLUSIONS?)\b")
"""Names of the sections of an abstract that state the findings."""

logger = logging.getLogger(__name__)

# --------
# Qasper: questions on NLP papers (Dasigi et al. 2021).
#
# Several annotators answered each question. All their answers are wordings; kind and evidence are those of the first
# annotator who found it answerable, or else of the first.
#
# The set is published in two forms. The hub's rows have columns as objects of lists: ``qas`` is {"question": [...],
# "question_id": [...], "answers": [{"answer": [...]}]} and ``full_text`` is {"section_name": [...], "paragraphs":
# [[...]]}. The authors' files (``qasper-train-v0.3.json``) are one object, which maps an arXiv id to a paper, and have
# lists of objects instead.


def read_qasper(path: Path, part: str) -> DataSet:
    """Read papers in either form. Each paper is one text: title, abstract, sections and paragraphs.

    ``document`` is the arXiv id. Each annotated evidence paragraph is a piece of evidence. Figures and tables ("FLOAT
    SELECTED"), and paragraphs that are not in the paper's text, are left out and counted in the log. Raises InputError
    naming file, row and field.
    """
    made, lost = Builder(QASPER, part), 0
    for paper in _papers(path):
        written, ranges = _paper(paper)
        text = made.text(paper.text("id"), written)
        for row in _questions(paper):
            item, missing = _item(row, text, ranges, made)
            made.items.append(item)
            lost += missing
    logger.info("%s: %d pieces of evidence are not in the papers' text and were left out.", path, lost)
    return made.built()


def read_qasper_annotations(path: Path, part: str) -> DataSet:
    """Read questions with answers and evidence paragraphs, but without the papers. Each paragraph is a text.

    An unanswerable question has no evidence. Figures and tables are left out and counted in the log. Raises InputError
    naming file, row and field.
    """
    made, lost = Builder(QASPER_ANNOTATIONS, part), 0
    for row in rows_in(path):
        label, document = row.text("answer_type"), row.text("paper_id")
        kind = row.type_of("answer_type", QASPER, label)
        evidence, floats = made.paragraphs(document, row.texts("evidence"))
        lost += floats
        answer = UNANSWERABLE if label == UNANSWERABLE else row.text("answer_text").strip()
        context = tuple(each.text_id for each in evidence)
        parts = grounded(one_part([answer]), [made.texts[each].text for each in context])
        made.items.append(
            Item(made.gold(row, "question_id", [answer], kind, label, parts), (document,), context, evidence)
        )
    logger.info("%s: %d pieces of evidence are figures or tables without text, left out.", path, lost)
    return made.built()


def _papers(path: Path) -> Iterator[Row]:
    """Return every paper as a row in the hub's form."""
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


def _paper(paper: Row) -> tuple[str, dict[str, Range]]:
    """Return the paper's text, and the range of each of its pieces by the piece."""
    body = paper.inner("full_text")
    names, sections = body.get("section_name", list), body.get("paragraphs", list)
    if len(names) != len(sections):
        body.bad("paragraphs", f"has {len(sections)} sections, and section_name {len(names)}")
    written = [paper.text("title"), paper.get("abstract", str)]
    for name, section in zip(names, sections, strict=True):
        if not isinstance(section, list):
            body.bad("paragraphs", f"holds {type(section).__name__} where a list of paragraphs is expected")
        # The name of an unnamed section is null.
        written += [*body.all_texts("section_name", [name or ""]), *body.all_texts("paragraphs", section)]
    pieces = Pieces()
    ranges: dict[str, Range] = {}
    for each in written:
        if each.strip():
            ranges.setdefault(each.strip(), pieces.add(each))
    return pieces.text, ranges


def _questions(paper: Row) -> Iterator[Row]:
    """Return the questions of a paper, which the file has as columns, as rows."""
    asked = paper.inner("qas")
    columns = {field: asked.get(field, list) for field in ("question", "question_id", "answers")}
    for field, values in columns.items():
        if len(values) != len(columns["question"]):
            asked.bad(field, f"has {counted(len(values), 'entry')} for {counted(len(columns['question']), 'question')}")
    for number in range(len(columns["question"])):
        place = f"{paper.place}, question {number + 1}"
        yield Row(paper.file, place, {field: values[number] for field, values in columns.items()})


def _item(row: Row, text: Text, ranges: Mapping[str, Range], made: Builder) -> tuple[Item, int]:
    answers = list(row.inner("answers").rows("answer", "answer"))
    if not answers:
        row.bad("answers", "holds no answer")
    labels = [_label(answer) for answer in answers]
    chosen = next((n for n, label in enumerate(labels) if label != UNANSWERABLE), 0)
    label, paragraphs = labels[chosen], answers[chosen].texts("evidence")
    found = [ranges[each.strip()] for each in paragraphs if not each.startswith(FLOAT) and each.strip() in ranges]
    wordings = [
        _wording(answer, kind)
        for answer, kind in zip(answers, labels, strict=True)
        if label == UNANSWERABLE or kind != UNANSWERABLE
    ]
    parts = span_parts(_spans(answers[chosen])) if label == "extractive" else one_part(dict.fromkeys(wordings))
    kind = row.type_of("answers", QASPER, label)
    gold = made.gold(row, "question_id", wordings, kind, label, grounded(parts, [text.text]))
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
    spans = answer.texts("extractive_spans")
    return [span.strip() for span in spans if span.strip()]


# --------
# PubMedQA: questions that are titles of medical papers and are answered from the abstract (Jin et al. 2019).


def read_pubmedqa(path: Path, part: str) -> DataSet:
    """Read a file such as ``ori_pqal.json``: an object by PubMed id.

    An entry has ``QUESTION``, ``CONTEXTS`` (the sections of the abstract without its conclusion), ``LABELS`` (their
    names) and ``final_decision`` (yes, no or maybe). There is one text per abstract, with a line "LABEL: section" for
    each section; ``document`` is the PubMed id. The set marks no evidence, so each section of findings counts as a
    piece of evidence, or every section if none has such a name. The decision is a judgment, so there are no parts.
    Raises InputError naming file, PubMed id and field.
    """
    made = Builder(PUBMEDQA, part)
    for identity, value in row_of(path, "the file's content", read_json(path)).values.items():
        made.items.append(_abstract_item(row_of(path, f"abstract {identity}", value), identity, made))
    return made.built()


def _abstract_item(row: Row, identity: str, made: Builder) -> Item:
    labels, sections = row.texts("LABELS"), row.texts("CONTEXTS")
    if not sections or len(labels) != len(sections):
        row.bad("CONTEXTS", f"has {len(sections)} sections, and LABELS {len(labels)}")
    pieces = Pieces()
    ranges = [
        pieces.add(f"{label}: {section.strip()}", after="\n") for label, section in zip(labels, sections, strict=True)
    ]
    text = made.text(identity, pieces.text)
    deciding = [place for label, place in zip(labels, ranges, strict=True) if _DECIDES.search(label.upper())]
    evidence = tuple(Evidence(text.text_id, *place) for place in deciding or ranges)
    decision = row.text("final_decision").strip()
    if decision not in ("yes", "no", "maybe"):
        row.bad("final_decision", f"is {decision!r} and not yes, no or maybe")
    asked = Row(row.file, row.place, {"id": identity, "question": row.text("QUESTION").strip()})
    gold = made.gold(asked, "id", [decision], question_type(PUBMEDQA, YES_NO), YES_NO)
    return Item(gold, (identity,), (text.text_id,), evidence)


# --------
# QMSum: queries for summaries of whole meetings ("general") or of one topic ("specific"; Zhong et al. 2021).
#
# A line is a meeting: ``meeting_transcripts`` (speaker, content), ``general_query_list`` (query, answer) and
# ``specific_query_list``, which also has ``relevant_text_span``: pairs of turn numbers as texts, counted from 0, the
# last one included. The meeting becomes one text, with a line "speaker: content" per turn, spaced as published:
# "well , yes". Meetings and queries have no names: a meeting is named by its words, a query by its position in its
# list.
#
# The evidence of a specific query has a piece per span, from its first turn to the end of its last. General queries are
# about the whole meeting and have no evidence. There are no gold queries, and no parts, since answers are summaries.


def read_qmsum(path: Path, part: str) -> DataSet:
    """Read a file such as ``train.jsonl``. Raises InputError naming file, row and field."""
    made = Builder(QMSUM, part)
    for row in rows_in(path):
        written, turns = _transcript(row)
        if text_id(written) in made.texts:
            row.bad("meeting_transcripts", "holds a meeting that an earlier row has")
        text = made.text(f"meeting-{text_id(written)}", written)
        for number, query in enumerate(row.rows("general_query_list"), start=1):
            made.items.append(_meeting_item(query, text, "general", number, ()))
        for number, query in enumerate(row.rows("specific_query_list"), start=1):
            spans = tuple(dict.fromkeys(_relevant(query, text, turns)))
            made.items.append(_meeting_item(query, text, "specific", number, spans))
    return made.built()


def _transcript(row: Row) -> tuple[str, list[Range]]:
    """Return the meeting as text, and the range of each turn."""
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


def _meeting_item(query: Row, text: Text, label: str, number: int, evidence: tuple[Evidence, ...]) -> Item:
    question = Question(
        f"{QMSUM}-{text.text_id}-{label}-{number}",
        query.text("query"),
        answers=(query.text("answer"),),
        type=question_type(QMSUM, label),
    )
    return Item(Gold(question, QMSUM, label), documents=(text.document,), text_ids=(text.text_id,), evidence=evidence)


def _relevant(query: Row, text: Text, turns: Sequence[Range]) -> Iterator[Evidence]:
    for span in query.get("relevant_text_span", list):
        match span:
            case [str(first), str(last)] if first.isdecimal() and last.isdecimal():
                start, end = int(first), int(last)
            case _:
                query.bad("relevant_text_span", f"holds {span!r} and not the numbers of a first and a last turn")
        if not start <= end < len(turns):
            query.bad("relevant_text_span", f"holds {span!r}, which are not turns of the {len(turns)} of the meeting")
        yield Evidence(text.text_id, *trimmed(text.text, (turns[start][0], turns[end][1])))
