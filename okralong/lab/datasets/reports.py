"""Read the ``reports`` set: questions of TAT-DQA, FinQA, Qasper and SEC 10-Q in one ``questions.jsonl``.

The four kinds of rows have different fields. Qasper's have no types here, so types are guessed from the length of the
answers. An answer that occurs in none of its documents was reworded by its annotator and has no parts.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from okralong.lab.datasets.answers import grounded, length_label, one_part, operand_parts, scaled_wordings, span_parts
from okralong.lab.datasets.base import Builder, DataSet, Item
from okralong.lab.datasets.catalog import question_type
from okralong.lab.datasets.gold import Gold, OperandBook, Parts, read_operands
from okralong.pipelines.core.types import InputError, Question

REPORTS: Final = "reports"
_SOURCES: Final = re.compile(r"\s*\(?\bSOURCE(?:\(S\))?:[^\n]*", re.IGNORECASE)


def read_reports_set(path: Path, part: str) -> DataSet:
    """Read ``reports/questions.jsonl``, and the documents beside it as texts. The set has no evidence.

    An item's ``documents`` are those that its question is about; they are also its context. Operands are looked up in
    the folders beside ``reports``. Raises InputError naming file and line, also for a missing document.
    """
    made = Builder(REPORTS, part)
    documents = {name: made.text(name, text) for name, text in read_texts(path.parent.parent).items()}
    for gold in read_reports(path.parent.parent):
        scope = [name for name in documents if _in_scope(name, gold)]
        if not scope:
            raise InputError(
                f"{path}, the question {gold.question.query_id}: the field 'doc' is {gold.question.doc_ids[0]!r}, and "
                f"{path.parent / 'docs'} holds no text of that name. Put the document there, or delete the question."
            )
        asked = replace(gold, question=replace(gold.question, doc_ids=()))
        made.items.append(Item(asked, tuple(scope), tuple(documents[name].text_id for name in scope)))
    return made.built()


def read_reports(data: Path) -> list[Gold]:
    """Read the questions of ``data/reports/questions.jsonl`` in order.

    ``query_id`` is the name of the data set and the question's number in it ("finqa-007"). Operands are looked up in
    the other folders of ``data``, answers in the texts of ``reports/docs``. Raises InputError naming the line.
    """
    file = data / "reports" / "questions.jsonl"
    if not file.is_file():
        raise InputError(f"{file} does not exist. Give the data folder that holds reports/questions.jsonl.")
    book, texts = read_operands(data), read_texts(data)
    counts: Counter[str] = Counter()
    golds = []
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            dataset = row["dataset"]
            counts[dataset] += 1
            golds.append(_grounded(_SHAPES[dataset](row, f"{dataset}-{counts[dataset]:03d}", book), texts))
        except InputError as error:
            raise InputError(f"{file}, line {number}: {error}") from error
        except (ValueError, KeyError, TypeError, SyntaxError) as error:
            raise InputError(
                f"{file}, line {number} has none of the shapes {', '.join(_SHAPES)}: {type(error).__name__}: {error}. "
                "Correct or delete that line."
            ) from error
    return golds


def read_texts(data: Path) -> dict[str, str]:
    """Return the ``.txt`` files in ``data/reports/docs`` by doc_id."""
    files = sorted((data / "reports" / "docs").glob("*.txt"))
    return {file.stem: file.read_text(encoding="utf-8") for file in files}


def _grounded(gold: Gold, texts: Mapping[str, str]) -> Gold:
    """Drop the parts if one of them occurs in none of the documents."""
    scope = [text for name, text in texts.items() if _in_scope(name, gold)]
    return replace(gold, parts=grounded(gold.parts, scope))


def _in_scope(name: str, gold: Gold) -> bool:
    return any(fnmatchcase(name, scope) for scope in gold.question.doc_ids)


def _tat_dqa(row: Mapping[str, Any], query_id: str, book: OperandBook) -> Gold:
    spans = tuple(str(span) for span in ast.literal_eval(row["answer"]))
    calculated = question_type(REPORTS, row["type"]) == "arithmetic"
    parts = operand_parts(book.operands(row["question"], spans)) if calculated else span_parts(spans)
    return _gold(row, query_id, scaled_wordings(spans, row["scale"]), row["type"], parts)


def _finqa(row: Mapping[str, Any], query_id: str, book: OperandBook) -> Gold:
    # The program's result is exact, the written one is rounded. If they disagree, either may be meant.
    answers = tuple(dict.fromkeys(answer for answer in (row["answer"], row["exe_answer"]) if answer))
    return _gold(row, query_id, answers, row["type"], operand_parts(book.operands(row["question"], answers)))


def _qasper(row: Mapping[str, Any], query_id: str, book: OperandBook) -> Gold:
    del book  # papers have no calculations
    answers = tuple(dict.fromkeys(row["answers"]))
    return _gold(row, query_id, answers, length_label(answers), one_part(answers))


def _sec_10q(row: Mapping[str, Any], query_id: str, book: OperandBook) -> Gold:
    del book  # its answers are sentences
    answer = _SOURCES.sub("", _mended(row["answer"])).strip()
    return _gold(row, query_id, (answer,), row["type"], one_part([answer]))


def _gold(row: Mapping[str, Any], query_id: str, answers: tuple[str, ...], label: str, parts: Parts) -> Gold:
    kind = question_type(REPORTS, label)
    question = Question(query_id, row["question"], (row["doc"],), answers, type=kind)
    return Gold(question, row["dataset"], row.get("type", ""), parts)


def _mended(text: str) -> str:
    """Repair UTF-8 that was read as Windows-1252 (an apostrophe became three letters)."""
    return re.sub("\u00e2\u20ac.", lambda match: _reread(match.group()), text)


def _reread(text: str) -> str:
    try:
        return text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return text


_SHAPES: Final[dict[str, Callable[[Mapping[str, Any], str, OperandBook], Gold]]] = {
    "tat-dqa": _tat_dqa,
    "finqa": _finqa,
    "qasper": _qasper,
    "docugami-sec-10q": _sec_10q,
}
