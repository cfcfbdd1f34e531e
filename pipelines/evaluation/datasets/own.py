"""The user's own questions: a jsonl, csv or parquet file as ``okralong answer`` reads it, with its documents as text.

The documents are the text files of a folder ``documents`` beside the questions file, or ``reports`` where ``okralong
sample`` wrote them. A row's ``doc_ids`` names them with or without their ending, or by a pattern, or names a file by
its path from the questions file; without ``doc_ids`` a question is about all of them. ``evidence`` are passages of the
documents, in which blanks and line breaks may differ, or places in them, "doc_id:start:end" in characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, get_args

from okralong.pipelines.core.types import InputError, Question, QuestionType
from okralong.pipelines.evaluation.datasets.answer_parts import grounded, one_part
from okralong.pipelines.evaluation.datasets.fields import Row
from okralong.pipelines.evaluation.datasets.pieces import keep_text
from okralong.pipelines.evaluation.datasets.values import DataSet, Evidence, Item, Text
from okralong.pipelines.evaluation.gold import Gold
from okralong.pipelines.run.prepare import read_questions

NAME: Final = "own"
FOLDER: Final = "documents"
SAMPLE_FOLDER: Final = "reports"
"""Where ``okralong sample`` writes its documents."""

ENDINGS: Final = (".txt", ".md")
_PLACE: Final = re.compile(r"(?P<doc_id>.+):(?P<start>\d+):(?P<end>\d+)")


def read(path: Path, part: str) -> DataSet:
    """The questions with the documents as texts. ``query_id`` stays the user's; ``type`` may be empty.

    Raises InputError naming file, row and field: a row that cannot be asked, a type that is none of the method's five,
    a document that is not there, evidence that does not stand in the question's documents.
    """
    questions, bad = read_questions(path)
    if bad:
        raise InputError(bad[0].message)
    texts: dict[str, Text] = {}
    folders = (path.parent / FOLDER, path.parent / SAMPLE_FOLDER)
    documents = _documents(next((folder for folder in folders if folder.is_dir()), folders[0]))
    items = []
    for number, question in enumerate(questions, start=1):
        row = Row(path, f"row {number}", {"type": question.type, "doc_ids": question.doc_ids})
        if question.type and question.type not in get_args(QuestionType):
            raise _error(row, "type", f"is {question.type!r}, none of {', '.join(get_args(QuestionType))}")
        scope = [keep_text(texts, name, text) for name, text in _scope(row, question, documents).items()]
        items.append(_item(row, question, scope))
    return DataSet(NAME, part, texts, tuple(items))


def _documents(folder: Path) -> dict[str, str]:
    """Text by file name without its ending."""
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() in ENDINGS and file.is_file())
    documents: dict[str, str] = {}
    for file in files:
        if file.stem in documents:
            raise InputError(f"{folder} holds two texts named {file.stem}. Give each document a name of its own.")
        documents[file.stem] = _text(file)
    return documents


def _scope(row: Row, question: Question, documents: dict[str, str]) -> dict[str, str]:
    """The documents that a question is about; one that is named by its path is added to ``documents``."""
    if not question.doc_ids:
        if not documents:
            raise _error(row, "doc_ids", f"names no document, and {row.file.parent / FOLDER} holds no text files")
        return documents
    names: dict[str, None] = {}
    for wanted in question.doc_ids:
        found = [name for name in documents if _is_named(name, wanted)]
        if not found:
            file = row.file.parent / wanted
            if not file.is_file():
                raise _error(row, "doc_ids", f"names {wanted!r}: no such text in {row.file.parent / FOLDER}, no file")
            documents[file.stem] = _text(file)
            found = [file.stem]
        names.update(dict.fromkeys(found))
    return {name: documents[name] for name in names}


def _is_named(name: str, wanted: str) -> bool:
    return any(fnmatchcase(each, wanted) for each in (name, *(f"{name}{ending}" for ending in ENDINGS)))


def _item(row: Row, question: Question, scope: list[Text]) -> Item:
    evidence = tuple(_located(row, passage, scope) for passage in question.evidence if passage.strip())
    parts = grounded(one_part(question.answers), [text.text for text in scope])
    gold = Gold(replace(question, doc_ids=()), NAME, question.type, parts)
    names = tuple(text.document for text in scope)
    return Item(gold, names, tuple(text.text_id for text in scope), evidence)


def _located(row: Row, passage: str, scope: Iterable[Text]) -> Evidence:
    """The place that the passage names, or else the first one where it stands in the documents, whatever its blanks."""
    if (named := _PLACE.fullmatch(passage)) is not None:
        start, end = int(named["start"]), int(named["end"])
        for text in scope:
            if text.document == named["doc_id"] and start < end <= len(text.text):
                return Evidence(text.text_id, start, end)
    pattern = re.compile(r"\s+".join(map(re.escape, passage.split())))
    found: Iterator[Evidence] = (
        Evidence(text.text_id, match.start(), match.end()) for text in scope if (match := pattern.search(text.text))
    )
    place = next(found, None)
    if place is None:
        shown = passage if len(passage) <= 60 else f"{passage[:60]}..."
        raise _error(row, "evidence", f"holds {shown!r}, which stands in none of the question's documents")
    return place


def _text(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read as text: {error}. Save it as UTF-8 text.") from error
    if not text.strip():
        raise InputError(f"{file} is empty. Put the document's text there, or take the file away.")
    return text


def _error(row: Row, field: str, why: str) -> InputError:
    return InputError(f"{row.file}, {row.place}: the field {field!r} {why}. Mend that row.")
