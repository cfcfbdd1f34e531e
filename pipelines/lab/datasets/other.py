"""LongBench's prompts, and questions of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, get_args

from okralong.pipelines.core.types import InputError, Question, QuestionType
from okralong.pipelines.lab.datasets.base import (
    Builder,
    DataSet,
    Evidence,
    Item,
    Row,
    Text,
    grounded,
    one_part,
    question_type,
    read_json,
    row_of,
    text_id,
)
from okralong.pipelines.lab.gold import Gold
from okralong.pipelines.run.questions import read_questions

LONGBENCH: Final = "longbench"

INSTRUCTION: Final = (
    "Answer the question based on the given passages. Only give me the answer and do not output any other words."
)
"""LongBench's own wording, the same in the prompts of the three sets."""

BEFORE: Final = f"{INSTRUCTION}\n\nThe following are given passages.\n"
BETWEEN: Final = f"\n\n{INSTRUCTION}\n\nQuestion: "
AFTER: Final = "\nAnswer:"


# --------
# LongBench items as they were put to a model: whole prompts with their gold answers (Bai et al. 2024).
#
# A file is one object: {"0": {"origin_prompt": ..., "gold": [...]}, ...}. The prompt is an instruction, the passages,
# the instruction again, "Question: ..." and "Answer:". What stands between the two instructions becomes the item's one
# text, "Passage 1:" lines included; neither it nor the question has a name, so the text is called by its words and the
# question by its key in the file.
#
# The label is the file's name without its ending (hotpotqa, 2wikimqa, qasper), as LongBench drops the sets' own. The
# gold answers are wordings of the same answer. There is no evidence and there are no sub-questions.


def read_longbench(path: Path, part: str) -> DataSet:
    """A file such as ``hotpotqa.json``. Raises InputError naming file, row and field."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} holds {type(content).__name__}, not an object of prompts. Fetch the file again.")
    type_ = question_type(LONGBENCH, path.stem)
    made = Builder(LONGBENCH, part)
    for key, value in content.items():
        row = row_of(path, f"row {key!r}", value)
        passages, asked = _cut(row)
        text = made.text(f"{LONGBENCH}-{text_id(passages)}", passages)
        answers = _answers(row)
        question = Question(f"{LONGBENCH}-{path.stem}-{key}", asked, answers=answers, type=type_)
        gold = Gold(question, LONGBENCH, path.stem, grounded(one_part(answers), [passages]))
        made.items.append(Item(gold, documents=(text.document,), text_ids=(text.text_id,)))
    return made.built()


def _cut(row: Row) -> tuple[str, str]:
    """The passages and the question of a prompt."""
    prompt = row.text("origin_prompt").rstrip()
    passages, _, asked = prompt.removeprefix(BEFORE).removesuffix(AFTER).rpartition(BETWEEN)
    if not (prompt.startswith(BEFORE) and prompt.endswith(AFTER) and passages.strip() and asked.strip()):
        row.bad("origin_prompt", "is not an instruction, passages, the instruction again, a question and 'Answer:'")
    return passages, asked.strip()


def _answers(row: Row) -> tuple[str, ...]:
    answers = [answer.strip() for answer in row.texts("gold")]
    if not all(answers) or not answers:
        row.bad("gold", "holds no answer or an empty one")
    return tuple(dict.fromkeys(answers))


# --------
# The user's own questions: a questions file as ``okralong answer`` reads it, with its documents as text.
#
# The documents are the text files of a folder ``documents`` beside the questions file, or ``reports`` where ``okralong
# sample`` wrote them. A row's ``doc_ids`` names them with or without their ending, or by a pattern, or names a file by
# its path from the questions file; without ``doc_ids`` a question is about all of them. ``evidence`` are passages of
# the documents, in which blanks and line breaks may differ, or places in them, "doc_id:start:end" in characters.

OWN: Final = "own"
FOLDER: Final = "documents"
SAMPLE_FOLDER: Final = "reports"
"""Where ``okralong sample`` writes its documents."""

ENDINGS: Final = (".txt", ".md")
_PLACE: Final = re.compile(r"(?P<doc_id>.+):(?P<start>\d+):(?P<end>\d+)")


def read_own(path: Path, part: str) -> DataSet:
    """The questions with the documents as texts. ``query_id`` stays the user's; ``type`` may be empty.

    Raises InputError naming file, row and field: a row that cannot be asked, a type that is none of the method's five,
    a document that is not there, evidence that does not stand in the question's documents.
    """
    questions, bad = read_questions(path)
    if bad:
        raise InputError(bad[0].message)
    made = Builder(OWN, part)
    folders = (path.parent / FOLDER, path.parent / SAMPLE_FOLDER)
    documents = _documents(next((folder for folder in folders if folder.is_dir()), folders[0]))
    for number, question in enumerate(questions, start=1):
        row = Row(path, f"row {number}", {"type": question.type, "doc_ids": question.doc_ids})
        if question.type and question.type not in get_args(QuestionType):
            raise _error(row, "type", f"is {question.type!r}, none of {', '.join(get_args(QuestionType))}")
        if question.where:
            raise _error(row, "where", "is a filter over an archive's metadata, and these documents have none")
        scope = [made.text(name, text) for name, text in _scope(row, question, documents).items()]
        made.items.append(_item(row, question, scope))
    return made.built()


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
    gold = Gold(replace(question, doc_ids=()), OWN, question.type, parts)
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
