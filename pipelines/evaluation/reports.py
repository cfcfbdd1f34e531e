"""The ``reports`` set: TAT-DQA, FinQA, Qasper and SEC 10-Q questions, four shapes in one ``questions.jsonl``.

How the sources' types become the method's five:

- TAT-DQA span and multi-span: extractive. Arithmetic and count: arithmetic (a count is worked out, not copied).
- FinQA: arithmetic; all its questions come with a program.
- SEC 10-Q: Multi-Doc is multi-source. Single-Doc Multi-Chunk asks how two sections of one filing relate and is answered
  by a paragraph: abstractive. Single-Doc Single-Chunk asks for one fact: extractive, though its gold is a sentence.
- Qasper, which has no type here: extractive when some gold answer has at most 12 words, else abstractive. That is a
  guess by length and not the annotators' word.

An answer that stands nowhere in its documents as it is written was put in other words by its annotator. It has no parts
to look for, since no retrieval could show them.
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

from okralong.pipelines.errors import InputError
from okralong.pipelines.evaluation.gold import Gold
from okralong.pipelines.evaluation.operands import OperandBook, read_operands
from okralong.pipelines.evaluation.recall import MOST_WORDS, Parts, answer_recall, findable
from okralong.pipelines.values import Question

Row = Mapping[str, Any]

TYPES: Final = {
    "span": "extractive",
    "multi-span": "extractive",
    "arithmetic": "arithmetic",
    "count": "arithmetic",
    "Multi-Doc RAG": "multi-source",
    "Single-Doc Multi-Chunk RAG": "abstractive",
    "Single-Doc Single-Chunk RAG": "extractive",
}
"""By the source's own type; Qasper's go by length."""

_SOURCES: Final = re.compile(r"\s*\(?\bSOURCE(?:\(S\))?:[^\n]*", re.IGNORECASE)


def read_reports(data: Path) -> list[Gold]:
    """The questions of ``data/reports/questions.jsonl`` in the file's order.

    ``query_id`` is the dataset and the question's number within it ("finqa-007"). Operands are looked up in the other
    folders of ``data``, answers in the texts of ``reports/docs``, where those are there. Raises InputError naming the
    line that cannot be read.
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
        except (ValueError, KeyError, TypeError, SyntaxError) as error:
            raise InputError(
                f"{file}, line {number} is none of the shapes {', '.join(_SHAPES)}: {type(error).__name__}: {error}. "
                "Mend or delete that line."
            ) from error
    return golds


def read_texts(data: Path) -> dict[str, str]:
    """Text by doc_id of the ``.txt`` files in ``data/reports/docs``."""
    files = sorted((data / "reports" / "docs").glob("*.txt"))
    return {file.stem: file.read_text(encoding="utf-8") for file in files}


def _grounded(gold: Gold, texts: Mapping[str, str]) -> Gold:
    """``gold``, without parts when some of them stand nowhere in its documents."""
    scope = [text for doc_id, text in texts.items() if any(fnmatchcase(doc_id, e) for e in gold.question.doc_ids)]
    return gold if not scope or answer_recall(gold.parts, scope) in (None, 1.0) else replace(gold, parts=())


def _tat_dqa(row: Row, query_id: str, book: OperandBook) -> Gold:
    spans = tuple(str(span) for span in ast.literal_eval(row["answer"]))
    parts: Parts
    if TYPES[row["type"]] == "arithmetic":
        parts = tuple((operand,) for operand in book.operands(row["question"], spans))
    else:
        parts = tuple((span,) for span in findable(spans)) if len(findable(spans)) == len(spans) else ()
    answer = "; ".join(spans)
    if row["scale"] == "percent":
        wordings = ["; ".join(span if "%" in span else f"{span}%" for span in spans)]
    else:
        wordings = [answer, f"{answer} {row['scale']}"] if row["scale"] else [answer]
    return _gold(row, query_id, wordings, TYPES[row["type"]], parts)


def _finqa(row: Row, query_id: str, book: OperandBook) -> Gold:
    # The executed result is exact, the written one rounded; where they disagree nobody knows which is meant.
    answers = list(dict.fromkeys(answer for answer in (row["answer"], row["exe_answer"]) if answer))
    parts = tuple((operand,) for operand in book.operands(row["question"], answers))
    return _gold(row, query_id, answers, TYPES[row["type"]], parts)


def _qasper(row: Row, query_id: str, book: OperandBook) -> Gold:
    del book  # a paper is not calculated with
    answers = list(dict.fromkeys(row["answers"]))
    short = min(len(answer.split()) for answer in answers) <= MOST_WORDS
    found = findable(answers)
    return _gold(row, query_id, answers, "extractive" if short else "abstractive", (found,) if found else ())


def _sec_10q(row: Row, query_id: str, book: OperandBook) -> Gold:
    del book  # its answers are sentences
    answer = _SOURCES.sub("", _mended(row["answer"])).strip()
    found = findable([answer])
    return _gold(row, query_id, [answer], TYPES[row["type"]], (found,) if found else ())


def _gold(row: Row, query_id: str, answers: list[str], type_: str, parts: Parts) -> Gold:
    question = Question(query_id, row["question"], (row["doc"],), tuple(answers), type=type_)
    return Gold(question, row["dataset"], row.get("type", ""), parts)


def _mended(text: str) -> str:
    """UTF-8 that was once read as Windows-1252 (an apostrophe became three letters), put right."""
    return re.sub("\u00e2\u20ac.", lambda match: _reread(match.group()), text)


def _reread(text: str) -> str:
    try:
        return text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return text


_SHAPES: Final[dict[str, Callable[[Row, str, OperandBook], Gold]]] = {
    "tat-dqa": _tat_dqa,
    "finqa": _finqa,
    "qasper": _qasper,
    "docugami-sec-10q": _sec_10q,
}
