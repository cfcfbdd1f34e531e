"""A guess at what a paper's question asks for, where the file does not say: by the length of its shortest answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.types import InputError, QuestionType
from okralong.pipelines.indexing.chunking import boundaries
from okralong.pipelines.lab.gold import MOST_WORDS, Gold, Parts, answer_recall, findable
from okralong.pipelines.reporting.metrics import plain_words


def length_label(answers: Sequence[str]) -> str:
    """The label "short answer" when some answer has at most ``MOST_WORDS`` words, else "long answer"."""
    return "short answer" if min(len(answer.split()) for answer in answers) <= MOST_WORDS else "long answer"


# --------
# Gold answers as wordings, and the parts of them that answer recall looks for; one convention for all sets.


def scaled_wordings(spans: Sequence[str], scale: str) -> tuple[str, ...]:
    """The wordings of a TAT-QA answer: its spans with "; " between, and the same with the scale behind it.

    A percentage always has its sign, since a bare number would be another quantity.
    """
    if scale == "percent":
        return ("; ".join(span if "%" in span else f"{span}%" for span in spans),)
    answer = "; ".join(spans)
    return (answer, f"{answer} {scale}") if scale else (answer,)


def span_parts(spans: Sequence[str]) -> Parts:
    """One part for each copied span; none at all when one of them cannot be looked for."""
    found = findable(spans)
    return tuple((span,) for span in found) if len(found) == len(spans) else ()


def operand_parts(operands: Iterable[str]) -> Parts:
    """One part for each operand of a calculation."""
    return tuple((operand,) for operand in operands)


def one_part(answers: Iterable[str]) -> Parts:
    """One part with all wordings of an answer that can be looked for."""
    found = findable(answers)
    return (found,) if found else ()


def grounded(parts: Parts, texts: Sequence[str]) -> Parts:
    """``parts``, or none when there are texts and one part stands in none of them.

    Such an answer was put in other words by its annotator, and no retrieval could show it.
    """
    return parts if not texts or answer_recall(parts, texts) in (None, 1.0) else ()


# --------
# The catalog of data sets: which files there are, in which format, below the folder that holds the data.


class DataSource(Settings):
    """One file of a data set. ``name`` and ``part`` are how splits and sweeps call it; no two sources share both.

    ``format`` is a key of ``registry.FORMATS``, ``path`` is relative to the data folder. ``hub`` is the file on a hub
    of data sets, "owner/repository/file", for those who have a connection.
    """

    name: str
    part: str
    format: str
    path: str
    hub: str | None = None


class Catalog(Settings):
    """All sources, in the order in which they are read."""

    sources: tuple[DataSource, ...] = Field(strict=False)

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        counts = Counter((source.name, source.part) for source in self.sources)
        twice = [" ".join(named) for named, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"the source {twice[0]} is listed twice")
        return self


def load_catalog(source: str | Path = "datasets.yaml") -> Catalog:
    """The catalog as committed, or another one. Raises ConfigError when it cannot be read."""
    return load_config(Catalog, source)


# --------
# Reading foreign files so that whoever has a bad one learns where: file, row and field stand in each error.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of a file. ``place`` says where it stands ("row 12", "meeting 3, query 2")."""

    file: Path
    place: str
    values: Mapping[str, Any]

    def get(self, field: str, kind: type[T]) -> T:
        """The field's value. Raises InputError when it is missing or of another kind."""
        if field not in self.values:
            self.bad(field, f"is missing (there are: {', '.join(map(str, list(self.values)[:12])) or 'none'})")
        value = self.values[field]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind):
            self.bad(field, f"is {type(value).__name__}, not {kind.__name__}")
        return value

    def text(self, field: str) -> str:
        """A text that is more than blanks. Raises InputError otherwise."""
        value = self.get(field, str)
        if not value.strip():
            self.bad(field, "is an empty text")
        return value

    def rows(self, field: str, what: str = "") -> Iterator[Row]:
        """The entries of a list of objects, each as a row of its own. Raises InputError when one is no object."""
        for number, value in enumerate(self.get(field, list), start=1):
            yield row_of(self.file, f"{self.place}, {what or field} {number}", value)

    def bad(self, field: str, why: str) -> NoReturn:
        """Raises InputError naming the field and what is wrong with it."""
        raise InputError(
            f"{self.file}, {self.place}: the field {field!r} {why}. The file is not in the form in which its authors "
            "publish it: fetch it again, or mend or delete that entry."
        )


def row_of(file: Path, place: str, value: object) -> Row:
    """``value`` as a row. Raises InputError when it is no object."""
    if not isinstance(value, dict):
        raise InputError(
            f"{file}, {place} is {type(value).__name__} and not an object. The file is not in the form in which its "
            "authors publish it: fetch it again, or mend or delete that entry."
        )
    return Row(file, place, value)


def read_json(file: Path) -> Any:
    """The content of a JSON file. Raises InputError when it is missing or no JSON."""
    try:
        return json.loads(_read(file))
    except ValueError as error:
        raise InputError(f"{file} is no JSON: {error}. Fetch the file again.") from error


def rows_in(file: Path) -> Iterator[Row]:
    """The rows of a file by its suffix: .parquet, .jsonl, or else a JSON list. Raises InputError."""
    if file.suffix == ".parquet":
        return parquet_rows(file)
    return jsonl_rows(file) if file.suffix == ".jsonl" else json_rows(file)


def parquet_rows(file: Path) -> Iterator[Row]:
    """The rows of a Parquet file, in which a hub keeps many sets. Raises InputError when it cannot be read."""
    try:
        table = pq.read_table(file)
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist. Give the folder or file that holds the data set.") from error
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}. Fetch the file again.") from error
    for number, value in enumerate(table.to_pylist(), start=1):
        yield row_of(file, f"row {number}", value)


def json_rows(file: Path) -> Iterator[Row]:
    """The objects of a JSON list. Raises InputError as above, or when the file holds no list."""
    content = read_json(file)
    if not isinstance(content, list):
        raise InputError(f"{file} holds {type(content).__name__}, not a list of questions. Fetch the file again.")
    for number, value in enumerate(content, start=1):
        yield row_of(file, f"row {number}", value)


def jsonl_rows(file: Path) -> Iterator[Row]:
    """The objects of a file with one JSON object a line; blank lines are passed over. Raises InputError."""
    for number, line in enumerate(_read(file).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InputError(f"{file}, row {number} is no JSON: {error}. Mend or delete that line.") from error
        yield row_of(file, f"row {number}", value)


def texts_of(row: Row, field: str, values: Sequence[Any]) -> list[str]:
    """``values``, which must all be texts. Raises InputError naming the field otherwise."""
    for value in values:
        if not isinstance(value, str):
            row.bad(field, f"holds {type(value).__name__} where a text is expected")
    return list(values)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist. Give the folder or file that holds the data set.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}. Is it the right file, in UTF-8?") from error


# --------
# The one table that maps a set's own labels to the five question types: ``configs/question_types.yaml``.


class MappedLabel(Settings):
    """One label's type, and the reason for it."""

    type: QuestionType
    why: str


class TypeTable(Settings):
    """By set, then by the set's own label."""

    sets: dict[str, dict[str, MappedLabel]]


def question_type(dataset: str, label: str) -> QuestionType:
    """The type of a set's label. Raises InputError for a label that the table does not know."""
    known = type_table().sets.get(dataset, {})
    if label not in known:
        raise InputError(
            f"The set {dataset!r} has a question of the kind {label!r}, which configs/question_types.yaml does not map "
            f"(it maps {', '.join(known) or 'none of that set'}). Add the label there, with its reason."
        )
    return known[label].type


@cache
def type_table() -> TypeTable:
    """The table as committed."""
    return load_config(TypeTable, "question_types.yaml")


# --------
# Ids and types of questions, with errors that name the row when a set's own are of no use.

_UNSAFE: Final = re.compile(r"[^\w.\-]")


class QueryIds:
    """Query ids of one set: its name and its own ids, with signs that no file name bears made ``_``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._used: set[str] = set()

    def take(self, row: Row, field: str) -> str:
        """The id of this row. Raises InputError when it was taken before."""
        query_id = f"{self._name}-{_UNSAFE.sub('_', row.text(field).strip())}"
        if query_id in self._used:
            row.bad(field, f"is {row.values[field]!r}, the id of an earlier question")
        self._used.add(query_id)
        return query_id


def row_type(row: Row, field: str, dataset: str, label: str) -> QuestionType:
    """The mapped type of a label that the row's field holds or implies. Raises InputError naming row and field."""
    try:
        return question_type(dataset, label)
    except InputError as error:
        row.bad(field, f"holds a kind of question without a type. {error}")


# --------
# What every data set becomes: texts, and items that ask about them.
#
# A *text* is the piece in which a set delivers its contexts: a Wikipedia paragraph, a page of a filing, a whole paper
# or meeting. Short texts can be pooled into long documents later; evidence is therefore kept as ranges of the text.


@dataclass(frozen=True, slots=True)
class Text:
    """A context as a set gives it, title line included where it has one.

    ``text_id`` follows from the words alone (see ``text_id``), so the same paragraph in two sets has one id.
    ``document`` names the source that it is part of ("ADI_2009", an arXiv id, a Wikipedia title): the split keeps all
    texts of a document on one side.
    """

    text_id: str
    document: str
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of gold evidence: the range ``[start_char, end_char)`` of a text. All pieces of an item are needed."""

    text_id: str
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class GoldCell:
    """A table cell that the answer needs, by the ranges of its row and of the table's column heads.

    The row's range begins with the row's own label, so a shown row always has its row header.
    """

    text_id: str
    row: tuple[int, int]
    header: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Hop:
    """One look-up on the way to an answer, with its own answer."""

    query: str
    answer: str


@dataclass(frozen=True, slots=True)
class Item:
    """A question with all that its set knows of it.

    ``gold`` has the question (its doc_ids still empty), answers, mapped type and the parts that answer recall looks
    for. ``documents`` are the sources asked about, also where the set delivers no text. ``text_ids`` is the item's own
    context, gold and distractors; empty where the set has none. ``gold_queries`` are what a perfect writer of
    sub-questions would ask, in order: the set's own sub-questions, or what stands nearest (the adapter says what).
    ``calculation`` is the expression that leads to the answer, in the text's own figures ("(44.1-56.7)/56.7"); empty
    where there is nothing to calculate or the set does not say how. ``sub_questions`` are those of the gold queries
    that the set wrote as whole sentences, in order; empty where it did not. ``hops`` are the look-ups whose own answers
    the set gives, in order, in its best wording; empty where it gives none.
    """

    gold: Gold
    documents: tuple[str, ...]
    text_ids: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    cells: tuple[GoldCell, ...] = ()
    gold_queries: tuple[str, ...] = ()
    calculation: str = ""
    sub_questions: tuple[str, ...] = ()
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class DataSet:
    """One source file (or folder) as read. ``name`` is the set's ("hotpotqa"), ``part`` the file's ("dev").

    ``texts`` by text_id; every text_id of an item is in it.
    """

    name: str
    part: str
    texts: Mapping[str, Text]
    items: tuple[Item, ...]


def text_id(text: str) -> str:
    """An id of 16 hex digits that follows from a text's words: case, punctuation and spacing do not count."""
    return hashlib.sha256(" ".join(plain_words(text)).encode()).hexdigest()[:16]


def make_text(document: str, text: str) -> Text:
    """A text with its id."""
    return Text(text_id(text), document, text)


# --------
# A text put together from pieces, each of which can be found in it again by its range.

Range = tuple[int, int]
"""``[start, end)`` in characters of a text."""

_WORD_BEFORE: Final = r"(?<!\w)(?<!\d[.,])"
_WORD_AFTER: Final = r"(?!\w)(?![.,]\d)"


class Pieces:
    """Write pieces one after another; ``text`` is what was written."""

    def __init__(self) -> None:
        self._written: list[str] = []
        self._length = 0

    def add(self, piece: str, after: str = "\n\n") -> Range:
        """Write ``piece`` without blanks around it, then ``after``; its range, without ``after``."""
        piece = piece.strip()
        start = self._length
        self._written += (piece, after)
        self._length += len(piece) + len(after)
        return start, start + len(piece)

    @property
    def text(self) -> str:
        """All that was written, without the blanks at its end."""
        return "".join(self._written).rstrip()


def keep_text(texts: dict[str, Text], document: str, text: str) -> Text:
    """The text, from now on one of ``texts``; the one kept before when it was there already.

    Where a text of the same words but other punctuation is there, ranges of the two would differ: the later one then
    gets an id in which the document, and a number, count as words.
    """
    known = texts.setdefault(text_id(text), make_text(document, text))
    number = 1
    while known.text != text:
        number += 1
        other = Text(text_id(f"{document} {number} {text}"), document, text)
        known = texts.setdefault(other.text_id, other)
    return known


def sentence_with(text: str, within: Range, wanted: str, question: str) -> Range | None:
    """The sentence of ``text[within]`` that holds ``wanted`` literally and as whole words; None when none does.

    Of several the one that shares most words with the question, of those the first. A ``wanted`` that runs over the
    end of a sentence gives the sentences from its first to its last character.
    """
    if not wanted.strip():
        return None
    start, end = within
    part = text[start:end]
    cuts = [0, *boundaries(part, ())]
    asked = frozenset(plain_words(question))
    found = []
    for match in re.finditer(_WORD_BEFORE + re.escape(wanted.strip()) + _WORD_AFTER, part):
        first = max(cut for cut in cuts if cut <= match.start())
        last = min(cut for cut in cuts if cut >= match.end())
        shared = len(asked & frozenset(plain_words(part[first:last])))
        found.append((-shared, first, last))
    if not found:
        return None
    _, first, last = min(found)
    return trimmed(text, (start + first, start + last))


def trimmed(text: str, of: Range) -> Range:
    """The range without the blanks at its ends."""
    shown = text[of[0] : of[1]]
    start = of[0] + len(shown) - len(shown.lstrip())
    return start, start + len(shown.strip())


def distinct(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The ranges in the order of the text, each once, without those that lie inside another."""
    kept: list[Range] = []
    for start, end in sorted(set(ranges), key=lambda each: (each[0], -each[1])):
        if not kept or end > kept[-1][1]:
            kept.append((start, end))
    return tuple(kept)


# --------
# Evidence paragraphs of a paper whose full text a file does not hold: each is a text of its own, wholly evidence.

FLOAT: Final = "FLOAT SELECTED"
"""How Qasper writes that the evidence is a figure or a table, of which the files have no text but the caption."""


def keep_paragraphs(
    texts: dict[str, Text], document: str, paragraphs: Sequence[str]
) -> tuple[tuple[Evidence, ...], int]:
    """Evidence of the paragraphs, which are now among ``texts``, and how many figures and tables were left out."""
    written = [each.strip() for each in paragraphs if not each.startswith(FLOAT)]
    floats = len(paragraphs) - len(written)
    kept = [keep_text(texts, document, each) for each in dict.fromkeys(written) if each]
    return tuple(Evidence(text.text_id, 0, len(text.text)) for text in dict.fromkeys(kept)), floats


# --------
# A Wikipedia paragraph as a text: its title on a line of its own, then the paragraph, which can be evidence whole.


def keep_titled(texts: dict[str, Text], title: str, paragraph: str) -> Text:
    """The text of a paragraph, from now on one of ``texts``."""
    return keep_text(texts, title, f"{title}\n{paragraph}")


def whole_paragraph(text: Text, title: str) -> Evidence:
    """All of a titled text but its title line, as evidence."""
    start, end = trimmed(text.text, (len(title) + 1, len(text.text)))
    return Evidence(text.text_id, start, end)
