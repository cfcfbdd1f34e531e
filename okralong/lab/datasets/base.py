"""What every data set becomes, and what its adapter reads it with.

A *text* is the piece in which a set delivers its contexts: a Wikipedia paragraph, a page of a filing, a whole paper or
meeting. Short texts can be pooled into long documents later; evidence is therefore kept as ranges of the text. An
adapter reads the ``Row``s of a file into a ``Builder``; whoever has a bad file learns where: file, row and field stand
in each error.
"""

from __future__ import annotations

import csv
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

from okralong.lab.datasets.gold import MOST_WORDS, Gold, Parts, answer_recall, findable
from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.sentences import boundaries
from okralong.pipelines.core.types import InputError, Question, QuestionType
from okralong.pipelines.reporting.metrics import plain_words

Range = tuple[int, int]
"""``[start, end)`` in characters of a text."""

FLOAT: Final = "FLOAT SELECTED"
"""How Qasper writes that the evidence is a figure or a table, of which the files have no text but the caption."""

_UNSAFE: Final = re.compile(r"[^\w.\-]")
_WORD_BEFORE: Final = r"(?<!\w)(?<!\d[.,])"
_WORD_AFTER: Final = r"(?!\w)(?![.,]\d)"


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

    ``texts`` by text_id; every text_id of an item is in it. ``notes`` are lines for whoever wrote the file: what was
    not taken as it stands there, with its row and the reason.
    """

    name: str
    part: str
    texts: Mapping[str, Text]
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()


def text_id(text: str) -> str:
    """An id of 16 hex digits that follows from a text's words: case, punctuation and spacing do not count."""
    return hashlib.sha256(" ".join(plain_words(text)).encode()).hexdigest()[:16]


def make_text(document: str, text: str) -> Text:
    """A text with its id."""
    return Text(text_id(text), document, text)


class Builder:
    """A data set while its file is read: its texts, its items, and the ids that are taken."""

    def __init__(self, name: str, part: str) -> None:
        self.name, self.part = name, part
        self.texts: dict[str, Text] = {}
        self.items: list[Item] = []
        self.notes: list[str] = []
        self._ids: set[str] = set()

    def built(self) -> DataSet:
        """The data set with all that was added."""
        return DataSet(self.name, self.part, self.texts, tuple(self.items), tuple(self.notes))

    def gold(
        self,
        row: Row,
        id_field: str,
        answers: Iterable[str],
        kind: QuestionType,
        label: str,
        parts: Parts = (),
        prefix: str = "",
    ) -> Gold:
        """The row's ``question`` with its answers, each once.

        Its id is ``prefix``, or else the set's name, and the set's own id, with signs that no file name bears made
        ``_``. Raises InputError for an id that was taken before.
        """
        query_id = f"{prefix or self.name}-{_UNSAFE.sub('_', row.text(id_field).strip())}"
        if query_id in self._ids:
            row.bad(id_field, f"is {row.values[id_field]!r}, the id of an earlier question")
        self._ids.add(query_id)
        question = Question(query_id, row.text("question"), answers=tuple(dict.fromkeys(answers)), type=kind)
        return Gold(question, self.name, label, parts)

    def text(self, document: str, text: str) -> Text:
        """The text, from now on one of the set's; the one kept before when it was there already.

        Where a text of the same words but other punctuation is there, ranges of the two would differ: the later one
        then gets an id in which the document, and a number, count as words.
        """
        known = self.texts.setdefault(text_id(text), make_text(document, text))
        number = 1
        while known.text != text:
            number += 1
            other = Text(text_id(f"{document} {number} {text}"), document, text)
            known = self.texts.setdefault(other.text_id, other)
        return known

    def titled(self, title: str, paragraph: str) -> Text:
        """A Wikipedia paragraph as a text: its title on a line of its own before it."""
        return self.text(title, f"{title}\n{paragraph}")

    def paragraphs(self, document: str, paragraphs: Sequence[str]) -> tuple[tuple[Evidence, ...], int]:
        """Evidence paragraphs of a paper whose full text the file does not hold: each is a text of its own, wholly
        evidence. With them how many figures and tables were left out.
        """
        written = [each.strip() for each in paragraphs if not each.startswith(FLOAT)]
        kept = dict.fromkeys(self.text(document, each) for each in dict.fromkeys(written) if each)
        return tuple(whole(text) for text in kept), len(paragraphs) - len(written)


def whole(text: Text, title: str = "") -> Evidence:
    """All of a text as evidence, or all but its title line."""
    skipped = len(title) + 1 if title else 0
    return Evidence(text.text_id, *trimmed(text.text, (skipped, len(text.text))))


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

    def texts(self, field: str) -> list[str]:
        """A list of texts. Raises InputError when an entry is something else."""
        return self.all_texts(field, self.get(field, list))

    def all_texts(self, field: str, values: Sequence[Any]) -> list[str]:
        """``values`` of the field, which must all be texts. Raises InputError otherwise."""
        for value in values:
            if not isinstance(value, str):
                self.bad(field, f"holds {type(value).__name__} where a text is expected")
        return list(values)

    def inner(self, field: str) -> Row:
        """The object of a field as a row of its own. Raises InputError when it is none."""
        return Row(self.file, f"{self.place}, {field}", self.get(field, dict))

    def type_of(self, field: str, dataset: str, label: str) -> QuestionType:
        """The mapped type of a label that the field holds or implies. Raises InputError for one without a type."""
        try:
            return question_type(dataset, label)
        except InputError as error:
            self.bad(field, f"holds a kind of question without a type. {error}")

    def rows(self, field: str, what: str = "") -> Iterator[Row]:
        """The entries of a list of objects, each as a row of its own. Raises InputError when one is no object."""
        for number, value in enumerate(self.get(field, list), start=1):
            yield row_of(self.file, f"{self.place}, {what or field} {number}", value)

    def bad(self, field: str, why: str) -> NoReturn:
        """Raises InputError naming the field and what is wrong with it."""
        raise InputError(
            f"{self.file}, {self.place}: the field {field!r} {why}. The file is not in the form in which its authors "
            "publish it: fetch it again, or correct or delete that entry."
        )


def row_of(file: Path, place: str, value: object) -> Row:
    """``value`` as a row. Raises InputError when it is no object."""
    if not isinstance(value, dict):
        raise InputError(
            f"{file}, {place} is {type(value).__name__} and not an object. The file is not in the form in which its "
            "authors publish it: fetch it again, or correct or delete that entry."
        )
    return Row(file, place, value)


def read_json(file: Path) -> Any:
    """The content of a JSON file. Raises InputError when it is missing or no JSON."""
    try:
        return json.loads(_read(file))
    except ValueError as error:
        raise InputError(f"{file} is no JSON: {error}. Fetch the file again.") from error


def rows_in(file: Path) -> Iterator[Row]:
    """The rows of a file by its suffix: .parquet, .jsonl (blank lines are passed over), or else a JSON list.

    Raises InputError when it cannot be read, or when a row is no object.
    """
    values = (
        _parquet(file) if file.suffix == ".parquet" else json_lines(file) if file.suffix == ".jsonl" else _list(file)
    )
    for number, value in values:
        yield row_of(file, f"row {number}", value)


def table_rows(file: Path, delimiter: str = ",") -> tuple[tuple[str, ...], list[Row]]:
    """The columns of a csv file and its rows, which count as a spreadsheet counts them: the head is row 1.

    Raises InputError when it cannot be read, or when a row has more or fewer cells than the head.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines, delimiter=delimiter, strict=True)
            columns = tuple(reader.fieldnames or ())
            records = list(reader)
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist. Give the csv file of the data set.") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file} cannot be read as a csv file in UTF-8: {error}. Fetch the file again.") from error
    return columns, [_table_row(file, number, record) for number, record in enumerate(records, start=2)]


def _table_row(file: Path, number: int, record: dict[str | None, str | list[str] | None]) -> Row:
    row = Row(file, f"row {number}", {str(key): value for key, value in record.items() if key is not None})
    if None in record:
        row.bad(str(list(row.values)[-1]), f"is followed by more cells: {record[None]!r}")
    for column, value in row.values.items():
        if value is None:
            row.bad(column, "is missing: the row ends before it")
    return row


def _parquet(file: Path) -> Iterator[tuple[int, Any]]:
    """Parquet is how a hub keeps many sets."""
    try:
        return enumerate(pq.read_table(file).to_pylist(), start=1)
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist. Give the folder or file that holds the data set.") from error
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}. Fetch the file again.") from error


def _list(file: Path) -> Iterator[tuple[int, Any]]:
    content = read_json(file)
    if not isinstance(content, list):
        raise InputError(f"{file} holds {type(content).__name__}, not a list of questions. Fetch the file again.")
    return enumerate(content, start=1)


def json_lines(file: Path) -> Iterator[tuple[int, Any]]:
    """The values of a file of one JSON value a line, by their line's number from 1; blank lines are passed over. Raises
    InputError naming the line that is none.
    """
    for number, line in enumerate(_read(file).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InputError(f"{file}, row {number} is no JSON: {error}. Correct or delete that line.") from error
        yield number, value


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist. Give the folder or file that holds the data set.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}. Is it the right file, in UTF-8?") from error


# --------
# Gold answers as wordings, and the parts of them that answer recall looks for; one convention for all sets.


def spans_of(row: Row, field: str, answer: Any) -> tuple[str, ...]:
    """The spans of a TAT-QA answer, which is a list or one value. Raises InputError where there is none."""
    spans = tuple(str(span) for span in (answer if isinstance(answer, list) else [answer]) if str(span).strip())
    if answer is None or not spans:
        row.bad(field, "holds no answer")
    return spans


def length_label(answers: Sequence[str]) -> str:
    """A guess at what a paper's question asks for, where the file does not say: "short answer" when some answer has at
    most ``MOST_WORDS`` words, else "long answer".
    """
    return "short answer" if min(len(answer.split()) for answer in answers) <= MOST_WORDS else "long answer"


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
# Texts put together from pieces, and places in them.


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


def sentence_with(text: str, within: Range, wanted: str, question: str) -> Range | None:
    """The sentence of ``text[within]`` that holds ``wanted`` literally and as whole words; None when none does.

    Of several the one that shares most words with the question, of those the first. A ``wanted`` that runs over the
    end of a sentence gives the sentences from its first to its last character.
    """
    if not wanted.strip():
        return None
    start, end = within
    part = text[start:end]
    cuts = _cuts(part)
    asked = frozenset(plain_words(question))
    found = []
    for match in re.finditer(_WORD_BEFORE + re.escape(wanted.strip()) + _WORD_AFTER, part):
        first, last = _sentence(cuts, match.span())
        shared = len(asked & frozenset(plain_words(part[first:last])))
        found.append((-shared, first, last))
    if not found:
        return None
    _, first, last = min(found)
    return trimmed(text, (start + first, start + last))


def sentence_at(text: str, within: Range, place: Range) -> Range:
    """The sentence of ``text[within]`` that holds the range ``place`` of ``text``; several where it spans an end."""
    start, end = within
    first, last = _sentence(_cuts(text[start:end]), (place[0] - start, place[1] - start))
    return trimmed(text, (start + first, start + last))


def _cuts(part: str) -> list[int]:
    return [0, *boundaries(part, ())]


def _sentence(cuts: Sequence[int], place: Range) -> Range:
    return max(cut for cut in cuts if cut <= place[0]), min(cut for cut in cuts if cut >= place[1])


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

    def source(self, name: str, part: str) -> DataSource:
        """The entry of that name and part. Raises InputError naming those that there are."""
        for source in self.sources:
            if (source.name, source.part) == (name, part):
                return source
        known = ", ".join(f"{source.name} {source.part}" for source in self.sources)
        raise InputError(f"The catalog of data sets has no {name} {part}; it has {known}.")


def load_catalog(source: str | Path = "datasets.yaml") -> Catalog:
    """The catalog as committed, or another one. Raises ConfigError when it cannot be read."""
    return load_config(Catalog, source)
