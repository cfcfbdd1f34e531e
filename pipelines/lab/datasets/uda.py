"""UDA's bench files (Hui et al. 2024): a JSON object with the questions of each document, and evidence.

Three shapes, told by their fields: TAT-DQA (facts and a derivation, no text), FinQA (the page), and papers (the
evidence paragraphs of each annotator, not the paper).
"""

from __future__ import annotations

import ast
import csv
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.lab.datasets.base import (
    DataSet,
    Item,
    QueryIds,
    Row,
    Text,
    grounded,
    keep_paragraphs,
    keep_text,
    length_label,
    one_part,
    operand_parts,
    question_type,
    read_json,
    row_of,
    row_type,
    scaled_wordings,
    span_parts,
    texts_of,
)
from okralong.pipelines.lab.datasets.filings import clean_answer, locate_finqa, read_page
from okralong.pipelines.lab.gold import Gold, derivation_operands, program_expression, program_operands, words

_NAMES: Final = {"derivation": "uda_bench_tat_qa", "program": "uda_bench_fin_qa", "evidence": "uda_bench_paper_qa"}
"""By the field that only this shape has, tried in this order."""

logger = logging.getLogger(__name__)


def read_uda_bench(path: Path, part: str) -> DataSet:
    """A ``bench_*_qa.json``. Raises InputError naming file, row ("document V_2008, question 3") and field.

    Of a paper's question the evidence of the first annotator is taken: each paragraph is a text of its own and wholly
    evidence. Figures and tables ("FLOAT SELECTED") have no text and are left out; how many is logged.
    """
    texts: dict[str, Text] = {}
    left_out: Counter[str] = Counter()
    rows = list(_rows(path))
    name = next((name for field, name in _NAMES.items() if rows and field in rows[0][1].values), None)
    if name is None:
        raise InputError(f"{path} holds no question of a UDA bench file. Fetch the file again.")
    ids = QueryIds(name)
    items = []
    for document, row in rows:
        if name == "uda_bench_tat_qa":
            items.append(_tat(row, document, ids))
        elif name == "uda_bench_fin_qa":
            items.append(_fin(row, document, ids, texts))
        else:
            items.append(_paper(row, document, ids, texts, left_out))
    logger.info("%s: %d pieces of evidence are figures or tables without text, left out.", path, left_out.total())
    return DataSet(name, part, texts, tuple(items))


def _rows(path: Path) -> Iterator[tuple[str, Row]]:
    content = row_of(path, "the file's content", read_json(path))
    for document in content.values:
        where = Row(path, f"document {document}", {"questions": content.get(document, list)})
        for row in where.rows("questions", "question"):
            yield document, row


def _tat(row: Row, document: str, ids: QueryIds) -> Item:
    answered = row_of(row.file, f"{row.place}, answers", row.get("answers", dict))
    label = answered.text("answer_type")
    kind = row_type(answered, "answer_type", "tatqa", label)
    answer = answered.get("answer", object)
    spans = tuple(str(span) for span in (answer if isinstance(answer, list) else [answer]) if str(span).strip())
    if answer is None or not spans:
        answered.bad("answer", "holds no answer")
    facts = texts_of(row, "facts", row.get("facts", list))
    operands = tuple(dict.fromkeys(fact for fact in facts if words(fact)))
    derivation = row.get("derivation", str)
    if kind == "arithmetic":
        parts = operand_parts(operands if operands and derivation else derivation_operands(derivation))
    else:
        parts = span_parts(spans)
    question = Question(
        ids.take(row, "q_uid"),
        row.text("question"),
        answers=scaled_wordings(spans, answered.get("scale", str)),
        type=kind,
    )
    return Item(Gold(question, "uda_bench_tat_qa", label, parts), (document,))


def _fin(row: Row, document: str, ids: QueryIds, texts: dict[str, Text]) -> Item:
    page = read_page(row_of(row.file, f"{row.place}, context", row.get("context", dict)))
    text = keep_text(texts, document, page.text)
    program = row.text("program")
    answered = row_of(row.file, f"{row.place}, answers", row.get("answers", dict))
    executed = answered.get("exe_answer", object)
    if isinstance(executed, bool) or not isinstance(executed, (str, int, float)):
        answered.bad("exe_answer", f"is {type(executed).__name__}, neither a number nor a text")
    answers = dict.fromkeys(each for each in (clean_answer(answered.get("str_answer", str)), str(executed)) if each)
    evidence, cells = locate_finqa(row, "evidence", page, text, program)
    question = Question(
        ids.take(row, "q_uid"),
        row.text("question"),
        answers=tuple(answers),
        type=question_type("finqa", "program"),
    )
    parts = grounded(operand_parts(program_operands(program)), [page.text])
    gold = Gold(question, "uda_bench_fin_qa", "program", parts)
    calculation = program_expression(program)
    return Item(gold, (document,), (text.text_id,), tuple(evidence), tuple(cells), calculation=calculation)


def _paper(row: Row, document: str, ids: QueryIds, texts: dict[str, Text], left_out: Counter[str]) -> Item:
    answered = list(row.rows("answers", "answer"))
    annotated = list(row.rows("evidence", "evidence"))
    if not answered or len(answered) != len(annotated):
        row.bad("answers", f"has {len(answered)} entries, and evidence {len(annotated)}; each annotator has both")
    label = answered[0].text("type")
    kind = row_type(answered[0], "type", "uda_paper_qa", label)
    answers = tuple(dict.fromkeys(each.text("answer").strip() for each in answered))
    paragraphs = texts_of(annotated[0], "raw_evidence", annotated[0].get("raw_evidence", list))
    evidence, floats = keep_paragraphs(texts, document, paragraphs)
    left_out["floats"] += floats
    parts = grounded(one_part(answers), [texts[each.text_id].text for each in evidence])
    question = Question(ids.take(row, "q_uid"), row.text("question"), answers=answers, type=kind)
    context = tuple(each.text_id for each in evidence)
    return Item(Gold(question, "uda_bench_paper_qa", label, parts), (document,), context, evidence)


# --------
# UDA's question files (Hui et al. 2024): ``|``-separated, no context; the documents are whole filings and papers.
#
# Which of the three kinds a file is, its columns say: TAT-DQA has answer_type, FinQA two answers, papers three. The
# kind of answer is not given for papers; their type goes by length as in ``reports``, a guess.

_COLUMNS: Final = {
    "uda_tat_qa": ("doc_name", "q_uid", "question", "answer", "answer_scale", "answer_type"),
    "uda_fin_qa": ("doc_name", "q_uid", "question", "answer_1", "answer_2"),
    "uda_paper_qa": ("doc_name", "q_uid", "question", "answer_1", "answer_2", "answer_3"),
}


def read_uda_csv(path: Path, part: str) -> DataSet:
    """A csv of UDA. No texts; ``documents`` has the filing ("ADI_2009") or the paper's arXiv id.

    Rows count as a spreadsheet counts them, the head being row 1. Operands are not in the files, so calculations have
    no parts. Raises InputError naming file, row and field.
    """
    name, rows = _open(path)
    ids = QueryIds(name)
    return DataSet(name, part, {}, tuple(_SHAPES[name](row, ids) for row in rows))


def _open(path: Path) -> tuple[str, Iterator[Row]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines, delimiter="|", strict=True)
            columns = tuple(reader.fieldnames or ())
            records = list(reader)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist. Give the csv file of the data set.") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a csv file in UTF-8: {error}. Fetch the file again.") from error
    name = next((name for name, wanted in _COLUMNS.items() if wanted == columns), None)
    if name is None:
        raise InputError(
            f"{path}, row 1: the columns {', '.join(columns) or '(none)'} are those of no question file of UDA, which "
            f"have {' or '.join('|'.join(wanted) for wanted in _COLUMNS.values())}. Fetch the file again."
        )
    return name, (_row(path, number, record) for number, record in enumerate(records, start=2))


def _row(path: Path, number: int, record: dict[str | None, str | list[str] | None]) -> Row:
    row = Row(path, f"row {number}", {str(key): value for key, value in record.items() if key is not None})
    if None in record:
        row.bad(str(list(row.values)[-1]), f"is followed by more cells: {record[None]!r}")
    for column, value in row.values.items():
        if value is None:
            row.bad(column, "is missing: the row ends before it")
    return row


def _tat_uda_csv(row: Row, ids: QueryIds) -> Item:
    label = row.text("answer_type")
    kind = row_type(row, "answer_type", "tatqa", label)
    try:
        answer = ast.literal_eval(row.text("answer"))
    except (ValueError, SyntaxError) as error:
        row.bad("answer", f"is no list of answers ({error})")
    spans = tuple(str(span) for span in (answer if isinstance(answer, list) else [answer]) if str(span).strip())
    if not spans:
        row.bad("answer", "holds no answer")
    parts = () if kind == "arithmetic" else span_parts(spans)
    question = Question(
        ids.take(row, "q_uid"),
        row.text("question"),
        answers=scaled_wordings(spans, row.get("answer_scale", str).strip()),
        type=kind,
    )
    return Item(Gold(question, "uda_tat_qa", label, parts), (row.text("doc_name"),))


def _fin_uda_csv(row: Row, ids: QueryIds) -> Item:
    answers = (clean_answer(row.get("answer_1", str)), row.text("answer_2").strip())
    question = Question(
        ids.take(row, "q_uid"),
        row.text("question"),
        answers=tuple(dict.fromkeys(answer for answer in answers if answer)),
        type=question_type("finqa", "program"),
    )
    return Item(Gold(question, "uda_fin_qa", "program"), (row.text("doc_name"),))


def _paper_uda_csv(row: Row, ids: QueryIds) -> Item:
    row.text("answer_1")
    answers = tuple(dict.fromkeys(a for n in (1, 2, 3) if (a := row.get(f"answer_{n}", str).strip())))
    label = length_label(answers)
    question = Question(
        ids.take(row, "q_uid"), row.text("question"), answers=answers, type=question_type("uda_paper_qa", label)
    )
    return Item(Gold(question, "uda_paper_qa", label, one_part(answers)), (row.text("doc_name"),))


_SHAPES: Final[dict[str, Callable[[Row, QueryIds], Item]]] = {
    "uda_tat_qa": _tat_uda_csv,
    "uda_fin_qa": _fin_uda_csv,
    "uda_paper_qa": _paper_uda_csv,
}
