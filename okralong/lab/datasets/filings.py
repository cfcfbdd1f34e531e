"""Sets over filings: FinQA, TAT-QA and the ``reports`` set, with the tables that they ask about.

A table is written as pipe rows, of which it is known where each stands and which of them are column heads. The sets
write down figures and not places, so each is looked for again among the cells.
"""

from __future__ import annotations

import ast
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from okralong.lab.datasets.base import (
    Builder,
    DataSet,
    Evidence,
    GoldCell,
    Item,
    Pieces,
    Range,
    Row,
    Text,
    distinct,
    grounded,
    length_label,
    one_part,
    operand_parts,
    question_type,
    rows_in,
    scaled_wordings,
    sentence_with,
    span_parts,
    spans_of,
)
from okralong.lab.datasets.gold import (
    Gold,
    OperandBook,
    Parts,
    derivation_operands,
    program_expression,
    program_operands,
    read_operands,
    words,
)
from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.reporting.metrics import plain_words

FINQA: Final = "finqa"
PROGRAM: Final = "program"
"""The one label of FinQA's questions."""

TATQA: Final = "tatqa"
REPORTS: Final = "reports"

ANSWER_SOURCES: Final = ("table", "text", "table-text")
"""What TAT-QA's ``answer_from`` may be."""

_LETTERS: Final = re.compile(r"[^\W\d_]+")
_UNITS: Final = frozenset({"million", "billion", "thousand", "m", "bn", "k", "x", "bp", "bps", "us", "usd", "cents"})
_PERIOD: Final = re.compile(r"\W*(?:19|20)\d\d(?:\s*[-\N{EN DASH}/]\s*(?:\d\d)?\d\d)?\W*(?:\(\d\))?|\d+/\d+(?:/\d+)?")
_WHOLE_ROW: Final = re.compile(r"\btable_(?:sum|average|max|min)\(\s*(.+?)\s*,\s*none\s*\)")
_DEBRIS: Final = re.compile(r"(?:\\+n)+$")
_SOURCES: Final = re.compile(r"\s*\(?\bSOURCE(?:\(S\))?:[^\n]*", re.IGNORECASE)
_ADVICE: Final = re.compile(r"[^\W\d_]{4}")

logger = logging.getLogger(__name__)

# --------
# FinQA: questions on one page of a filing, each with a program of calculations (Chen et al. 2021).


def read_finqa(path: Path, part: str) -> DataSet:
    """A ``train.json``, ``dev.json`` or ``test.json``. One text a page; its document is the filing ("V_2008").

    Answers are the written one, which is rounded, and the executed one. Raises InputError naming file, row and field.
    """
    made = Builder(FINQA, part)
    for row in rows_in(path):
        page, asked = read_page(row), row.inner("qa")
        answers = finqa_answers(asked, "answer", "exe_ans")
        program = asked.text("program")
        both = replace(row, values={**row.values, "question": asked.text("question")})
        made.items.append(program_item(made, both, "id", _filing(row), page, (asked, "gold_inds"), answers, program))
    return made.built()


def program_item(
    made: Builder,
    row: Row,
    id_field: str,
    document: str,
    page: Page,
    evidence: tuple[Row, str],
    answers: Iterable[str],
    program: str,
) -> Item:
    """A question on a page with its program; ``evidence`` is the row and its field that name the evidence."""
    text = made.text(document, page.text)
    found, cells = _locate_program(*evidence, page, text, program)
    parts = grounded(operand_parts(program_operands(program)), [page.text])
    gold = made.gold(row, id_field, answers, question_type(FINQA, PROGRAM), PROGRAM, parts)
    calculation = program_expression(program)
    return Item(gold, (text.document,), (text.text_id,), tuple(found), tuple(cells), calculation=calculation)


def finqa_answers(row: Row, written: str, executed: str) -> list[str]:
    """The written answer of a row, where there is one, and the executed one."""
    value = row.get(executed, object)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        row.bad(executed, f"is {type(value).__name__}, neither a number nor a text")
    return [each for each in (clean_answer(row.get(written, str)), str(value)) if each]


def clean_answer(answer: str) -> str:
    """A written answer without the line breaks that some of the files spell out at its end."""
    return _DEBRIS.sub("", answer.strip()).strip()


def _filing(row: Row) -> str:
    """The filing of a page: "V/2008/page_17.pdf" is one of V_2008."""
    names = row.text("filename").split("/")
    if len(names) != 3:
        row.bad("filename", f"is {row.values['filename']!r}, not of the form TICKER/YEAR/page_N.pdf")
    return f"{names[0]}_{names[1]}"


# --------
# A page of a filing as FinQA and UDA write it: sentences, one table, sentences; and the gold evidence on it.
#
# Of the two tables in the files, ``table`` is taken: its rows are those that ``table_N`` of the gold evidence counts,
# and its words are prepared as the sentences are. (``table_ori`` keeps rows that ``table`` leaves out.)


@dataclass(frozen=True, slots=True)
class Page:
    """The page's text; ``sentences`` by their number in the files (None for one without a word), and the table."""

    text: str
    sentences: tuple[Range | None, ...]
    table: PipeTable


def read_page(row: Row) -> Page:
    """The page of the fields pre_text, table and post_text. Raises InputError naming the field that is not right.

    Sentences stand one a line; those without any letter or digit (dots of a chart) are left out.
    """
    pieces = Pieces()
    before, after, cells = row.texts("pre_text"), row.texts("post_text"), _cells(row)
    above = _write(pieces, before)
    if above:
        pieces.add("", "\n")
    table = write_table(pieces, cells)
    below = _write(pieces, after)
    return Page(pieces.text, (*above, *below), table)


def _locate_program(
    row: Row, field: str, page: Page, text: Text, program: str
) -> tuple[list[Evidence], list[GoldCell]]:
    """The pieces of evidence that the row's field names as ``text_N`` and ``table_N``, and the cells used.

    Used are the cells of these table rows that hold a number of the program, and all figures of a row that the program
    takes as a whole (``table_average(net sales, none)``). Raises InputError for a name that the page does not have.
    """
    evidence, cells = [], []
    operands = program_operands(program)
    whole = frozenset(match.casefold() for match in _WHOLE_ROW.findall(program))
    for name in row.get(field, dict):
        kind, _, number = str(name).partition("_")
        places: Sequence[Range | None] = {"text": page.sentences, "table": page.table.rows}.get(kind, ())
        if not number.isdecimal() or int(number) >= len(places):
            row.bad(field, f"names {name!r}, which the page does not have")
        place = places[int(number)]
        if place is None:
            continue
        evidence.append(Evidence(text.text_id, *place))
        if kind == "table":
            used = _used(page.table, int(number), operands, whole)
            cells += [GoldCell(text.text_id, place, page.table.header)] * used
    return evidence, cells


def _cells(row: Row) -> list[list[str]]:
    """The rows of a table's cells, at least one."""
    cells = []
    for line in row.get("table", list):
        if not isinstance(line, list):
            row.bad("table", f"holds {type(line).__name__} where a row of cells is expected")
        cells.append(row.all_texts("table", line))
    if not cells:
        row.bad("table", "has no rows")
    return cells


def _write(pieces: Pieces, sentences: Iterable[str]) -> list[Range | None]:
    return [pieces.add(each, "\n") if any(map(str.isalnum, each)) else None for each in sentences]


def _used(table: PipeTable, row: int, operands: Sequence[str], whole: frozenset[str]) -> int:
    cells = table.cells[row]
    if cells and cells[0].strip().casefold() in whole:
        return sum(is_figure(cell) for cell in cells[1:])
    return len({column for operand in operands for column in cells_with(table, row, operand)})


# --------
# TAT-QA: questions on a table of a filing and the paragraphs around it (Zhu et al. 2021).
#
# One context becomes one text: the table first, since the paragraphs mostly speak of it, then the paragraphs in their
# order. Which filing it was cut from the set does not say; ``document`` is the table's own id. The set says *table*,
# *text* or both, and names paragraphs; the rows are found again by the figures of the derivation or by the answer's
# spans.


def read_tatqa(path: Path, part: str) -> DataSet:
    """A ``tatqa_dataset_*.json``. Parts are the spans, a calculation's operands or the things that were counted.

    Raises InputError naming file, row and field. How many questions have evidence is logged.
    """
    made = Builder(TATQA, part)
    for row in rows_in(path):
        context, document = _context(row)
        text = made.text(document, context.text)
        made.items += [_tatqa_item(each, context, text, made) for each in row.rows("questions", "question")]
    lost = sum(not item.evidence for item in made.items)
    logger.info("%s: %d of %d questions have no evidence that could be found again.", path, lost, len(made.items))
    return made.built()


def _context(row: Row) -> tuple[Context, str]:
    table, pieces = row.inner("table"), Pieces()
    written = write_table(pieces, _cells(table))
    paragraphs = {}
    for each in sorted(row.rows("paragraphs", "paragraph"), key=lambda paragraph: paragraph.get("order", int)):
        paragraphs[str(each.get("order", int))] = pieces.add(each.get("text", str))
    return Context(pieces.text, written, paragraphs), f"{TATQA}-{table.text('uid')}"


def _tatqa_item(row: Row, context: Context, text: Text, made: Builder) -> Item:
    label, question = row.text("answer_type"), row.text("question")
    spans = spans_of(row, "answer", row.get("answer", object))
    derivation, source = row.get("derivation", str), row.text("answer_from")
    if source not in ANSWER_SOURCES:
        row.bad("answer_from", f"is {source!r}, none of {', '.join(ANSWER_SOURCES)}")
    related = row.texts("rel_paragraphs")
    unknown = [name for name in related if name not in context.paragraphs]
    if unknown:
        row.bad("rel_paragraphs", f"names the paragraph {unknown[0]!r}, which the context does not have")
    kind = row.type_of("answer_type", TATQA, label)
    asked = Asked(question, label, source, spans, derivation, tuple(related))
    evidence, cells = locate_tatqa(context, asked)
    answers = scaled_wordings(spans, row.get("scale", str))
    return Item(
        made.gold(row, "uid", answers, kind, label, grounded(_parts(asked), [text.text])),
        (text.document,),
        (text.text_id,),
        tuple(Evidence(text.text_id, *each) for each in evidence),
        tuple(GoldCell(text.text_id, each, context.table.header) for each in cells),
        calculation=derivation.strip() if label == "arithmetic" else "",
    )


def _parts(asked: Asked) -> Parts:
    if asked.label == "count":
        return span_parts(counted_items(asked.derivation))
    if asked.label == "arithmetic":
        return operand_parts(derivation_operands(asked.derivation))
    return span_parts(asked.spans)


@dataclass(frozen=True, slots=True)
class Context:
    """A text with its table and the ranges of its paragraphs, by their order as the set writes it."""

    text: str
    table: PipeTable
    paragraphs: Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the set says of one question."""

    question: str
    label: str
    source: str
    spans: tuple[str, ...]
    derivation: str
    paragraphs: tuple[str, ...]


def locate_tatqa(context: Context, asked: Asked) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """The evidence ranges, each row or sentence once, and the row of each gold cell; both empty when nothing is found.

    - From the text: in each related paragraph the sentences that hold the wanted figures or spans literally, or the
      whole paragraph when it holds none.
    - From the table, or from both: the rows that hold what is wanted. What no row holds is looked for in the column
      heads (the head row is then evidence, though no cell), and after that, for *both*, in the related paragraphs.
    """
    figures = _figures(asked)
    wanted = counted_items(asked.derivation) if asked.label == "count" else figures or asked.spans
    if asked.source == "text":
        found = [_in_paragraph(context, name, wanted, asked.question) for name in asked.paragraphs]
        return distinct(each for ranges in found for each in ranges), ()
    places: list[Place] = []
    evidence: list[Range] = []
    for each in wanted:
        place = find_cell(context.table, each, asked.question, wanted) or _below_head(context.table, each, asked)
        if place is not None:
            places.append(place)
            continue
        # A year in a derivation ("44.1 (2019) > 12.7 (2018)") stands beside its figures and is none of them.
        head = None if figures else find_head(context.table, each)
        if head is not None:
            evidence.append(context.table.rows[head[0]])
        elif asked.source == "table-text":
            evidence.extend(_sentences(context, asked.paragraphs, [each], asked.question))
    cells = tuple(context.table.rows[row] for row, _ in dict.fromkeys(places))
    return distinct([*evidence, *cells]), cells


def counted_items(derivation: str) -> tuple[str, ...]:
    """What a count counted: the set writes it with ``##`` between."""
    return tuple(item.strip() for item in derivation.split("##") if item.strip())


def _figures(asked: Asked) -> tuple[str, ...]:
    """The figures of the derivation, where there are some."""
    return () if asked.label == "count" or _is_advice(asked) else derivation_operands(asked.derivation)


def _is_advice(asked: Asked) -> bool:
    """Whether the derivation of a copied answer is a sentence on what to do ("look at the fifth row"), not figures."""
    return asked.label not in ("arithmetic", "count") and _ADVICE.search(asked.derivation) is not None


def _below_head(table: PipeTable, wanted: str, asked: Asked) -> Place | None:
    """Years that were counted, or chosen by a condition, are column heads; what was compared stands below them."""
    if asked.label != "count" and not _is_advice(asked):
        return None
    head = find_head(table, wanted)
    return None if head is None else cell_below(table, head[1], asked.question)


def _in_paragraph(context: Context, name: str, wanted: Iterable[str], question: str) -> list[Range]:
    return _sentences(context, [name], wanted, question) or [context.paragraphs[name]]


def _sentences(context: Context, names: Iterable[str], wanted: Iterable[str], question: str) -> list[Range]:
    wanted = list(wanted)
    found = (sentence_with(context.text, context.paragraphs[n], each, question) for n in names for each in wanted)
    return [each for each in found if each is not None]


# --------
# The ``reports`` set: TAT-DQA, FinQA, Qasper and SEC 10-Q questions, four shapes in one ``questions.jsonl``.
#
# Qasper comes without a type here; it goes by the length of its answers, a guess and not the annotators' word. An
# answer that stands nowhere in its documents as it is written was put in other words by its annotator. It has no parts
# to look for, since no retrieval could show them.


def read_reports_set(path: Path, part: str) -> DataSet:
    """``reports/questions.jsonl`` with the documents beside it, each of which is a text; no evidence is known.

    An item's ``documents`` are those that its question is about, its context is all of them. Operands are looked up in
    the other folders beside ``reports``. Raises InputError naming file and line, also when a document is missing.
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
        except InputError as error:
            raise InputError(f"{file}, line {number}: {error}") from error
        except (ValueError, KeyError, TypeError, SyntaxError) as error:
            raise InputError(
                f"{file}, line {number} is none of the shapes {', '.join(_SHAPES)}: {type(error).__name__}: {error}. "
                "Correct or delete that line."
            ) from error
    return golds


def read_texts(data: Path) -> dict[str, str]:
    """Text by doc_id of the ``.txt`` files in ``data/reports/docs``."""
    files = sorted((data / "reports" / "docs").glob("*.txt"))
    return {file.stem: file.read_text(encoding="utf-8") for file in files}


def _grounded(gold: Gold, texts: Mapping[str, str]) -> Gold:
    """``gold``, without parts when some of them stand nowhere in its documents."""
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
    # The executed result is exact, the written one rounded; where they disagree nobody knows which is meant.
    answers = tuple(dict.fromkeys(answer for answer in (row["answer"], row["exe_answer"]) if answer))
    return _gold(row, query_id, answers, row["type"], operand_parts(book.operands(row["question"], answers)))


def _qasper(row: Mapping[str, Any], query_id: str, book: OperandBook) -> Gold:
    del book  # a paper is not calculated with
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
    """UTF-8 that was once read as Windows-1252 (an apostrophe became three letters), put right."""
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


@dataclass(frozen=True, slots=True)
class PipeTable:
    """``cells`` as given and the range of each row in the text; the first ``heads`` rows are column heads.

    A table without heads has 0 of them, and its first row stands in their place in ``header``.
    """

    cells: tuple[tuple[str, ...], ...]
    rows: tuple[Range, ...]
    heads: int

    @property
    def header(self) -> Range:
        """The range of the column heads."""
        return self.rows[0][0], self.rows[max(self.heads, 1) - 1][1]

    def head(self, column: int) -> str:
        """The words above a column, of all its head rows."""
        return " ".join(row[column] for row in self.cells[: self.heads] if column < len(row))


def write_table(pieces: Pieces, cells: Sequence[Sequence[str]]) -> PipeTable:
    """Write each row as ``| a | b |`` on a line of its own, and a blank line after the last.

    Breaks inside a cell become blanks and pipes become slashes, so that a row stays a row.
    """
    rows = []
    for number, row in enumerate(cells, start=1):
        shown = " | ".join(" ".join(cell.split()).replace("|", "/") for cell in row)
        rows.append(pieces.add(f"| {shown} |", "\n\n" if number == len(cells) else "\n"))
    return PipeTable(tuple(tuple(row) for row in cells), tuple(rows), count_heads(cells))


def count_heads(cells: Sequence[Sequence[str]]) -> int:
    """How many rows come before the first one with a figure in another column than the first.

    The titles of a first section ("Assets", nothing beside it) are no heads where heads stand above them. A table
    without any figure has one head row.
    """
    first = next((number for number, row in enumerate(cells) if any(is_figure(cell) for cell in row[1:])), None)
    if first is None:
        return min(1, len(cells))
    while first > 1 and not any(cell.strip() for cell in cells[first - 1][1:]):
        first -= 1
    return first


def is_figure(cell: str) -> bool:
    """Whether a cell is a figure: it has digits, no words other than units, and is no year or date."""
    if not any(char.isdigit() for char in cell) or _PERIOD.fullmatch(cell.strip()):
        return False
    return all(word.lower() in _UNITS for word in _LETTERS.findall(cell))


# --------
# Which cell of a table an answer or an operand was taken from.
#
# Where a figure stands in several cells, the question decides: the row whose label shares most words with it, then the
# row that holds most of the other figures that are looked for, then the column whose heads share most words, then the
# first.

Place = tuple[int, int]
"""Row and column of a cell, from 0."""


def find_cell(table: PipeTable, wanted: str, question: str, others: Sequence[str] = ()) -> Place | None:
    """The cell below the heads that holds ``wanted``; None when there is none.

    Cells are compared by their words and numbers, without currency, percent and minus signs. A cell with the very same
    words comes before a figure with a note behind it, that before a longer cell that holds the words.
    """
    key = _key(wanted)
    if not key:
        return None
    for test in (_is_same, _begins_with, _holds):
        places = [place for place, cell in _body(table) if test(cell, key)]
        if places:
            return _nearest(table, places, question, others)
    return None


def find_head(table: PipeTable, wanted: str) -> Place | None:
    """The cell of the column heads that is or holds ``wanted``."""
    key = _key(wanted)
    places = [
        (row, column)
        for row, cells in enumerate(table.cells[: table.heads])
        for column, cell in enumerate(cells)
        if key and _holds(cell, key)
    ]
    return places[0] if places else None


def cell_below(table: PipeTable, column: int, question: str) -> Place | None:
    """The figure of a column in the row whose label shares most words with the question; None when none shares any."""
    asked = frozenset(plain_words(question))
    places = [(row, col) for (row, col), cell in _body(table) if col == column and is_figure(cell)]
    if not any(asked & _label(table, row) for row, _ in places):
        return None
    return _nearest(table, places, question)


def _body(table: PipeTable) -> Iterator[tuple[Place, str]]:
    for row in range(table.heads, len(table.cells)):
        for column, cell in enumerate(table.cells[row]):
            yield (row, column), cell


def _nearest(table: PipeTable, places: list[Place], question: str, others: Sequence[str] = ()) -> Place:
    asked = frozenset(plain_words(question))
    keys = frozenset(map(_key, others))

    def order(place: Place) -> tuple[int, int, int, Place]:
        row, column = place
        heads = frozenset(plain_words(table.head(column)))
        beside = len(keys & {_key(cell) for cell in table.cells[row]})
        return -len(asked & _label(table, row)), -beside, -len(asked & heads), place

    return min(places, key=order)


def _label(table: PipeTable, row: int) -> frozenset[str]:
    cells = table.cells[row]
    return frozenset(plain_words(cells[0])) if cells else frozenset()


def _key(text: str) -> str:
    return " ".join(word for word in words(text) if word != "%")


def _is_same(cell: str, key: str) -> bool:
    return _key(cell) == key


def _begins_with(cell: str, key: str) -> bool:
    return is_figure(cell) and _key(cell).split()[:1] == [key]


def _holds(cell: str, key: str) -> bool:
    return f" {key} " in f" {_key(cell)} "


def cells_with(table: PipeTable, row: int, wanted: str) -> list[int]:
    """The columns of a row, its label apart, in which a figure stands."""
    key = _key(wanted)
    cells = list(enumerate(table.cells[row]))[1:]
    return [column for column, cell in cells if key and (_is_same(cell, key) or _begins_with(cell, key))]
