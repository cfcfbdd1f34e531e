"""Read LongBench's prompts and rows, and users' own questions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Final, get_args

from okralong.lab.datasets.answers import grounded, one_part
from okralong.lab.datasets.base import Builder, DataSet, Evidence, Item, Text, text_id
from okralong.lab.datasets.catalog import question_type
from okralong.lab.datasets.files import Row, read_json, row_of, rows_in
from okralong.lab.datasets.gold import Gold, words
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import VERSIONS
from okralong.pipelines.core.types import InputError, Question, QuestionType
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.indexing.ingest import read_documents
from okralong.pipelines.run.questions import read_questions

LONGBENCH: Final = "longbench"

INSTRUCTION: Final = (
    "Answer the question based on the given passages. Only give me the answer and do not output any other words."
)
"""The wording that is the same in LongBench's prompts of the three sets."""

BEFORE: Final = f"{INSTRUCTION}\n\nThe following are given passages.\n"
BETWEEN: Final = f"\n\n{INSTRUCTION}\n\nQuestion: "
AFTER: Final = "\nAnswer:"


# --------
# LongBench items in the form in which they are sent to a model: whole prompts with gold answers (Bai et al. 2024).
#
# A file is one object: {"0": {"origin_prompt": ..., "gold": [...]}, ...}. The prompt is an instruction, the passages,
# the instruction again, "Question: ..." and "Answer:". The text between the two instructions becomes the item's only
# text, including the "Passage 1:" lines. The text is named by its words and the question by its key, since the file has
# no names.
#
# The label is the file's stem (hotpotqa, 2wikimqa, qasper), since LongBench lacks the sets' own labels. The gold
# answers are wordings of one answer. There is no evidence, and there are no sub-questions.


def read_longbench(path: Path, part: str) -> DataSet:
    """Read a file such as ``hotpotqa.json``. Raises InputError naming file, row and field."""
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
    """Return the passages and the question of a prompt."""
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
# LongBench's rows in the form that its authors publish: one JSON object per line.
#
# A row has ``context``, ``input`` (the question), ``answers``, ``all_classes``, ``length``, ``dataset``, ``language``
# and ``_id``. Its context becomes the item's only text, as with the prompts above, so that both forms have the same
# documents. The label is the row's ``dataset``, or else the file's stem without the "_e" of LongBench-E. TriviaQA's
# rows are few-shot prompts: ``input`` has the passage and the question, and the examples in ``context`` are left out.

_FEW_SHOT: Final = re.compile(
    r"\A\s*Passage:\s*\n(?P<passage>.*)\n\s*Question:\s*\n(?P<asked>.*?)\n?\s*Answer:\s*\Z", re.DOTALL
)


def read_longbench_rows(path: Path, part: str) -> DataSet:
    """Read a file such as ``multifieldqa_en.jsonl``, of LongBench or LongBench-E.

    Raises InputError, naming file, row and field; also for a set that the table of types does not map.
    """
    made = Builder(LONGBENCH, part)
    for number, row in enumerate(rows_in(path), start=1):
        label = row.text("dataset") if "dataset" in row.values else path.stem
        label = label.removesuffix("_e")
        type_ = row.type_of("dataset", LONGBENCH, label)
        passages, asked = row.text("context"), row.text("input").strip()
        if label == "triviaqa":
            found = _FEW_SHOT.match(row.text("input"))
            if found is None:
                row.bad("input", "is not a passage under 'Passage:', a question under 'Question:' and 'Answer:'")
            passages, asked = found["passage"].strip(), found["asked"].strip()
        text = made.text(f"{LONGBENCH}-{text_id(passages)}", passages)
        answers = tuple(dict.fromkeys(answer.strip() for answer in row.texts("answers") if answer.strip()))
        if not answers:
            row.bad("answers", "holds no answer")
        identity = row.text("_id") if "_id" in row.values else str(number)
        asked_row = Row(row.file, row.place, {"id": identity, "question": asked})
        parts = grounded(one_part(answers), [passages])
        gold = made.gold(asked_row, "id", answers, type_, label, parts, prefix=f"{LONGBENCH}-{label}")
        made.items.append(Item(gold, documents=(text.document,), text_ids=(text.text_id,)))
    return made.built()


# --------
# The user's own questions: a questions file as ``okralong answer`` reads it, with its documents as text.
#
# The documents are the text files of a folder ``documents``, ``reports`` (as ``okralong sample`` writes) or ``archive``
# beside the questions file. Each folder may also be an archive of ``okralong index``, from which the indexed texts are
# taken. A row's ``doc_ids`` names documents with or without suffix, by a pattern, or by a path relative to the
# questions file. Without ``doc_ids`` a question is about all documents.
#
# ``evidence`` has passages of the documents, or places in them, "doc_id:start:end" in characters. A passage is searched
# for literally, ignoring white space. A passage that was typed, or copied from another rendering (other hyphens, a
# page's footer in between), is found at a place that has the share ``WORDS_FOUND`` of its words and all of its numbers.
# If a passage is not found, the question has no evidence at all, and a note says so.

OWN: Final = "own"
FOLDERS: Final = ("documents", "reports", "archive")
"""The folders that may have the documents; the first that exists is used. ``okralong sample`` writes ``reports``."""

ENDINGS: Final = (".txt", ".md")

WORDS_FOUND: Final = 0.8  # project default
"""Least share of a passage's words that its place must have, in any order."""
MORE_WORDS: Final = 0.25  # project default
"""Largest share of additional words in a passage's place (a footer, a note). Two additional words are always
allowed."""

_PLACE: Final = re.compile(r"(?P<doc_id>.+):(?P<start>\d+):(?P<end>\d+)")
Token = tuple[str, int, int]
"""A word or number of a text with its range."""

_TOKEN: Final = re.compile(r"\d[\d,]*(?:\.\d+)?|\.\d+|%|[^\W\d_]+")


def read_own(path: Path, part: str) -> DataSet:
    """Read a questions file, with the documents as texts. The user's ``query_id`` is kept; ``type`` may be empty.

    ``notes`` has a line for each evidence passage that is not found in the question's documents. Raises InputError
    naming file, row and field for a row that cannot be asked, an unknown type, or a missing document.
    """
    questions, bad = read_questions(path)
    if bad:
        raise InputError(bad[0].message)
    made = Builder(OWN, part)
    folders = [path.parent / name for name in FOLDERS]
    documents = _documents(next((folder for folder in folders if folder.is_dir()), folders[0]))
    by_words = 0
    for number, question in enumerate(questions, start=1):
        row = Row(path, f"row {number}", {"type": question.type, "doc_ids": question.doc_ids})
        if question.type and question.type not in get_args(QuestionType):
            raise _error(row, "type", f"is {question.type!r}, none of {', '.join(get_args(QuestionType))}")
        if question.where:
            raise _error(row, "where", "is a filter over an archive's metadata, which is not available here")
        scope = [made.text(name, text) for name, text in _scope(row, question, documents).items()]
        evidence, typed = _placed(row, question, scope, made)
        by_words += typed
        made.items.append(_item(question, scope, evidence))
    if by_words:
        made.notes.append(
            f"{path}: {counted(by_words, 'passage')} of evidence {agreeing(by_words, 'is')} not in the documents "
            f"verbatim and placed where at least {WORDS_FOUND:.0%} of the words and all numbers are."
        )
    return made.built()


def _documents(folder: Path) -> dict[str, str]:
    """Return the texts by file stem, or by doc_id if the folder is an archive."""
    if (folder / VERSIONS).is_dir():
        return _archived(folder)
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() in ENDINGS and file.is_file())
    documents: dict[str, str] = {}
    for file in files:
        if file.stem in documents:
            raise InputError(f"{folder} holds two texts named {file.stem}. Give each document its own name.")
        documents[file.stem] = _text(file)
    return documents


def _archived(folder: Path) -> dict[str, str]:
    """Return the texts of the archive's latest version, by doc_id."""
    entries = Archive.open(folder).entries()
    texts = {
        document.doc_id: document.text
        for part in sorted({entry.part for entry in entries.values()})
        for document in read_documents(str(folder), part)
        if document.doc_id in entries and entries[document.doc_id].part == part
    }
    return {doc_id: text for doc_id, text in sorted(texts.items()) if text.strip()}


def _scope(row: Row, question: Question, documents: dict[str, str]) -> dict[str, str]:
    """Return the documents that a question is about. A document that is named by its path is added to ``documents``."""
    if not question.doc_ids:
        if not documents:
            raise _error(row, "doc_ids", f"names no document, and {row.file.parent / FOLDERS[0]} holds no text files")
        return documents
    names: dict[str, None] = {}
    for wanted in question.doc_ids:
        found = [name for name in documents if _is_named(name, wanted)]
        if not found:
            file = row.file.parent / wanted
            if not file.is_file():
                raise _error(
                    row, "doc_ids", f"names {wanted!r}: no such text in {row.file.parent / FOLDERS[0]}, no file"
                )
            documents[file.stem] = _text(file)
            found = [file.stem]
        names.update(dict.fromkeys(found))
    return {name: documents[name] for name in names}


def _is_named(name: str, wanted: str) -> bool:
    return any(fnmatchcase(each, wanted) for each in (name, *(f"{name}{ending}" for ending in ENDINGS)))


def _item(question: Question, scope: list[Text], evidence: tuple[Evidence, ...]) -> Item:
    parts = grounded(one_part(question.answers), [text.text for text in scope])
    gold = Gold(replace(question, doc_ids=()), OWN, question.type, parts)
    names = tuple(text.document for text in scope)
    return Item(gold, names, tuple(text.text_id for text in scope), evidence)


def _placed(row: Row, question: Question, scope: list[Text], made: Builder) -> tuple[tuple[Evidence, ...], int]:
    """Return the places of a question's passages (none if one is missing), and how many were found by words only."""
    places, by_words, lost = [], 0, False
    for passage in filter(str.strip, question.evidence):
        place = _verbatim(passage, scope)
        if place is None and (place := _by_words(passage, scope)) is not None:
            by_words += 1
        if place is not None:
            places.append(place)
            continue
        lost = True
        shown = passage if len(passage) <= 60 else f"{passage[:60]}..."
        made.notes.append(
            f"{row.file}, {row.place}: the field 'evidence' holds {shown!r}, which is in none of the question's "
            f"documents: no place there has {WORDS_FOUND:.0%} of its words and all of its numbers. The question "
            f"{question.query_id} is left without evidence."
        )
    return ((), 0) if lost else (tuple(dict.fromkeys(places)), by_words)


def _verbatim(passage: str, scope: Iterable[Text]) -> Evidence | None:
    """Return the place that a passage names ("doc_id:start:end"), or where it first occurs, ignoring white space."""
    if (named := _PLACE.fullmatch(passage)) is not None:
        start, end = int(named["start"]), int(named["end"])
        for text in scope:
            if text.document == named["doc_id"] and start < end <= len(text.text):
                return Evidence(text.text_id, start, end)
    pattern = re.compile(r"\s+".join(map(re.escape, passage.split())))
    found: Iterator[Evidence] = (
        Evidence(text.text_id, match.start(), match.end()) for text in scope if (match := pattern.search(text.text))
    )
    return next(found, None)


def _by_words(passage: str, scope: Iterable[Text]) -> Evidence | None:
    """Return the place with most of a passage's words, of ties the shortest and first; None below ``WORDS_FOUND``."""
    wanted = Counter(word for word, _, _ in _tokens(passage))
    found = [
        (-held, end - start, number, Evidence(text.text_id, start, end))
        for number, text in enumerate(scope)
        for held, start, end in _windows(wanted, _tokens(text.text))
    ]
    return min(found, key=lambda each: each[:3])[3] if found else None


def _windows(wanted: Counter[str], tokens: Sequence[Token]) -> Iterator[tuple[int, int, int]]:
    """Yield (number of wanted words, start, end) of the places with enough wanted words and every number."""
    n = wanted.total()
    width = n + max(2, int(MORE_WORDS * n))
    numbers = sum(count for word, count in wanted.items() if word[-1].isdigit())
    held: Counter[str] = Counter()
    matched = figures = 0
    most = math.ceil(WORDS_FOUND * n)
    ends: list[int] = []
    for end, (word, _, _) in enumerate(tokens, start=1):
        held[word] += 1
        if held[word] <= wanted[word]:
            matched, figures = matched + 1, figures + word[-1].isdigit()
        if end > width:
            gone = tokens[end - width - 1][0]
            if held[gone] <= wanted[gone]:
                matched, figures = matched - 1, figures - gone[-1].isdigit()
            held[gone] -= 1
        if n and figures == numbers and matched >= most:
            if matched > most:
                most, ends = matched, []
            ends.append(end)
    for end in ends:
        yield (most, *_shrunk(wanted, tokens[max(0, end - width) : end]))


def _shrunk(wanted: Counter[str], window: Sequence[Token]) -> tuple[int, int]:
    """Shrink a window by dropping words at its ends that are unwanted or that occur in it again."""
    spare = Counter(word for word, _, _ in window)
    spare.subtract(wanted)
    first, last = 0, len(window) - 1
    while spare[window[first][0]] > 0:
        spare[window[first][0]] -= 1
        first += 1
    while spare[window[last][0]] > 0:
        spare[window[last][0]] -= 1
        last -= 1
    return window[first][1], window[last][2]


@lru_cache(maxsize=8)  # questions about the same document are mostly consecutive
def _tokens(text: str) -> list[Token]:
    """Return the words and numbers of a text with their ranges, in the form in which answers are compared."""
    return [(word, found.start(), found.end()) for found in _TOKEN.finditer(text) for word in words(found.group())]


def _text(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read as text: {error}. Save it as UTF-8 text.") from error
    if not text.strip():
        raise InputError(f"{file} is empty. Put the document's text there, or delete the file.")
    return text


def _error(row: Row, field: str, why: str) -> InputError:
    return InputError(f"{row.file}, {row.place}: the field {field!r} {why}. Correct that row.")
