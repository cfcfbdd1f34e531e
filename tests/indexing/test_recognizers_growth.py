"""Every recognizer that looks at the text of a document takes time in proportion to it, whatever stands there.

A recognizer is a public function of ``PACKAGES`` whose first parameter is ``text: str`` or ``document: Document``: one
that is neither in ``RECOGNIZERS`` nor in ``SHORT`` fails the first test.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest

import okralong.pipelines
from okralong.pipelines.answering import agreement, languages, needed_rows, rerank, support
from okralong.pipelines.answering.analyzers import words
from okralong.pipelines.answering.readers import comparison, cover, sentences, spans, statement
from okralong.pipelines.archive import name_words, tables, terms
from okralong.pipelines.archive.cover import read_cover
from okralong.pipelines.archive.metadata import DocumentFacts
from okralong.pipelines.archive.names import DocumentNames
from okralong.pipelines.core import languages as detection
from okralong.pipelines.core import sentences as sentence_ends
from okralong.pipelines.core import table_files, tokens, workbooks
from okralong.pipelines.core.types import Document
from okralong.pipelines.indexing import documents
from okralong.pipelines.indexing import tables as in_text
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.indexing.formats import legible, mail_parts, offsets, pdf_page, symbols, tables_of_pages
from okralong.pipelines.statements import (
    amounts,
    cited,
    compact,
    dollars,
    line_items,
    locale_amounts,
    locale_periods,
    periods,
    report_tables,
    table_heads,
    text_lines,
    text_tables,
    times,
    unit_lines,
    units,
    values,
)

PIPELINES: Final = Path(okralong.pipelines.__file__).parent
PACKAGES: Final = ("answering", "archive", "core", "indexing", "statements")


@lru_cache(8)
def document_of(text: str) -> Document:
    return documents.make_document(documents.RawDocument("a", text, "a.txt"))


def of_document(read: Callable[[Document], Any]) -> Callable[[str], Any]:
    return lambda text: read(document_of(text))


def at_the_end(read: Callable[[str, int, int], Any]) -> Callable[[str], Any]:
    return lambda text: (read(text, 0, 1), read(text, len(text) // 2, len(text) // 2 + 1), read(text, 0, len(text)))


def read_whole(text: str) -> None:
    document = document_of.__wrapped__(text)
    for size in (64, 256):
        list(chunk_document(document, size))


RECOGNIZERS: Final[dict[str, Callable[[str], Any]]] = {
    "a whole document": read_whole,
    "names of documents": lambda text: DocumentNames.of([DocumentFacts("a", "p", text, "a.txt", "", "", {}, cover={})]),
    "answering.analyzers.words.content_stems": words.content_stems,
    "answering.analyzers.words.words": words.words,
    "answering.languages.language_of_text": languages.language_of_text,
    "answering.needed_rows.rows_passages": of_document(lambda each: needed_rows.rows_passages(each, [], 90)),
    "answering.readers.comparison.value_of": comparison.value_of,
    "answering.readers.cover.cover_shares": of_document(cover.cover_shares),
    "answering.readers.cover.report_period": of_document(cover.report_period),
    "answering.readers.sentences.sentence_around": at_the_end(sentences.sentence_around),
    "answering.readers.spans.line_around": at_the_end(spans.line_around),
    "answering.readers.spans.lists_in": lambda text: spans.lists_in(text, []),
    "answering.readers.spans.times_in": spans.times_in,
    "answering.readers.spans.whole_words": at_the_end(spans.whole_words),
    "answering.readers.statement.stated_in_document": of_document(
        lambda each: statement.stated_in_document(each, "What was revenue in 2021?", "money")
    ),
    "answering.rerank.heading_names": rerank.heading_names,
    "answering.support.best_line": lambda text: support.best_line(text, "What was revenue in 2021?"),
    "answering.support.stems": support.stems,
    "answering.support.units": support.units.__wrapped__,
    "archive.cover.read_cover": read_cover,
    "archive.name_words.pieces_of": name_words.pieces_of,
    "archive.name_words.undotted": name_words.undotted,
    "archive.tables.cells_of": of_document(tables.cells_of),
    "archive.terms.analyze_query": lambda text: terms.analyze_query(text, ("de", "zh")),
    "core.languages.detect": detection.detect,
    "core.languages.question_language": detection.question_language,
    "core.sentences.boundaries": lambda text: sentence_ends.boundaries(text, (), "de"),
    "core.sentences.lines_of": sentence_ends.lines_of,
    "core.sentences.sentence_ends": sentence_ends.sentence_ends,
    "core.table_files.csv_rows": table_files.csv_rows,
    "core.table_files.declared_delimiter": table_files.declared_delimiter,
    "core.table_files.delimiter_of": table_files.delimiter_of,
    "core.table_files.mended_rows": lambda text: table_files.mended_rows(text, ","),
    "core.tokens.count_again": tokens.count_again,
    "core.tokens.count_tokens": tokens.count_tokens,
    "core.workbooks.unescaped": workbooks.unescaped,
    "indexing.documents.newlines": documents.newlines,
    "indexing.formats.legible.is_legible": legible.is_legible,
    "indexing.formats.legible.without_turned_words": legible.without_turned_words,
    "indexing.formats.mail_parts.calendar_text": mail_parts.calendar_text,
    "indexing.formats.mail_parts.uuencoded": mail_parts.uuencoded,
    "indexing.formats.mail_parts.without_pgp": mail_parts.without_pgp,
    "indexing.formats.offsets.codes_of": offsets.codes_of,
    "indexing.formats.pdf_page.tidy": pdf_page.tidy,
    "indexing.formats.symbols.in_symbol_font": lambda text: symbols.in_symbol_font(text, "Wingdings"),
    "indexing.formats.tables_of_pages.may_have_tables": tables_of_pages.may_have_tables,
    "indexing.tables.find_tables": lambda text: in_text.find_tables(text, "a"),
    "indexing.tables.read_lines": in_text.read_lines,
    "statements.amounts.amounts": amounts.amounts,
    "statements.amounts.in_words": amounts.in_words,
    "statements.amounts.line_of": lambda text: amounts.line_of(text, len(text) // 2),
    "statements.cited.lines_around": of_document(lambda each: cited.lines_around(each, 5, 9, 3)),
    "statements.compact.shown_parts": lambda text: compact.shown_parts(text, 0, len(text), document_of(text).tables),
    "statements.dollars.own_dollar": dollars.own_dollar,
    "statements.line_items.named_in": lambda text: line_items.named_in(text, re.compile("total")),
    "statements.locale_amounts.amounts_in": lambda text: locale_amounts.amounts_in(text, "de"),
    "statements.locale_periods.dates_in": lambda text: locale_periods.dates_in(text, "ja"),
    "statements.locale_periods.periods_in": lambda text: locale_periods.periods_in(text, "fr"),
    "statements.locale_periods.years_in_text": lambda text: locale_periods.years_in_text(text, "de"),
    "statements.periods.dates": periods.dates,
    "statements.periods.periods": periods.periods,
    "statements.report_tables.marks_of": report_tables.marks_of,
    "statements.report_tables.own_names": of_document(report_tables.own_names),
    "statements.report_tables.report_of": of_document(report_tables.report_of),
    "statements.table_heads.cells_above": lambda text: table_heads.cells_above(text, len(text) - 1),
    "statements.table_heads.heads_above": lambda text: table_heads.heads_above(text, len(text)),
    "statements.text_lines.text_line": lambda text: text_lines.text_line(text, 0, len(text), 0),
    "statements.text_tables.read_text_tables": text_tables.read_text_tables,
    "statements.text_tables.tables_of": of_document(text_tables.tables_of),
    "statements.times.years_in": times.years_in,
    "statements.unit_lines.currencies_in": unit_lines.currencies_in,
    "statements.unit_lines.stated": unit_lines.stated,
    "statements.unit_lines.stated_in": unit_lines.stated_in,
    "statements.units.around_of": of_document(lambda each: [units.around_of(each, table) for table in each.tables[:3]]),
    "statements.values.counted": lambda text: values.counted(text, len(text), "en"),
}
SHORT: Final = {
    "answering.agreement.place_of": "reads a line, in test_linear_time",
    "answering.analyzers.analysis.parse_reply": "reads a reply, in test_linear_time",
    "answering.prompt_text.first_json": "reads a reply, in test_linear_time",
    "answering.prompt_text.neutralise": "in test_linear_time",
    "answering.prompt_text.parse_evidence": "reads a reply, in test_linear_time",
    "answering.prompt_text.repeats_itself": "reads a reply, in test_linear_time",
    "core.child_process.tail": "output of a process of ours",
    "indexing.formats.flow.on_one_line": "called for the lines of a table",
    "indexing.formats.page_lines.is_number": "a word",
    "indexing.formats.page_titles.is_date_line": "a line of a page that has tables",
    "indexing.formats.page_titles.is_unit": "a line of a page that has tables",
    "indexing.formats.page_titles.unit_in": "a line of a page that has tables",
    "statements.cited.cited_answer": "lines around a cell",
    "statements.checks.parse_rule": "a rule of a config",
    "statements.labels.words_of": "a label",
    "statements.table_words.is_figure": "a cell",
    "statements.table_words.is_number": "a cell",
    "statements.table_words.is_period": "a cell",
    "statements.table_words.is_unit": "a cell",
    "statements.table_words.is_year": "a cell",
    "statements.table_words.unit_in": "a cell",
    "statements.text_lines.with_joined": "the lines of text_line",
}
"""Functions whose text is bounded, or measured elsewhere."""

PIECES: Final = [
    *(
        " ",
        "\t",
        "\n",
        "\u00a0",
        "\u3000",
        " \n",
        "\n\n",
        ".",
        "-",
        "- ",
        "_",
        "=",
        "|",
        "| a ",
        "*",
        "#",
        "/",
        "&",
        "%",
    ),
    *(
        "'",
        '"',
        "(",
        ")",
        "[",
        "<",
        ":",
        "1",
        "1,",
        "1 ",
        "1.",
        "1\n",
        "(1) ",
        "$",
        "$1",
        "a",
        "a ",
        "A ",
        "A. ",
        "Ab\n",
    ),
    *("a\n", "\u0301", "\u4e2d", "\u3002", "\u5e74", "1 million ", "2021 ", "2021 2020\n", "March 1, 2021 ", "fiscal "),
    *(
        "for the year ended ",
        "three months ended ",
        "in thousands ",
        "(in millions)\n",
        "name of registrant ",
        "exact ",
    ),
    *("Inc. ", "A Inc. ", "A & ", "Total 1 2\n", "Note 1. A\n", "Item 1. A .... 3\n", "annual report ", "net of "),
]
BEHIND: Final = " x!"
SHORTER: Final = 1_000
LONGER: Final = 8 * SHORTER
FLOOR_S: Final = 0.05
"""What takes less for ``LONGER`` characters is let pass: with the square of them the fastest pattern takes longer."""
MOST: Final = 20.0
"""Times as long for eight times the text; the square would be 64."""


def test_every_recognizer_is_measured() -> None:
    found = {
        f"{'.'.join(file.relative_to(PIPELINES).with_suffix('').parts)}.{each.name}"
        for package in PACKAGES
        for file in (PIPELINES / package).rglob("*.py")
        for each in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_") and each.args.args
        if (each.args.args[0].arg, ast.unparse(each.args.args[0].annotation or each)) in KINDS
    }
    assert found - RECOGNIZERS.keys() - SHORT.keys() == set()
    assert {name for name in (*RECOGNIZERS, *SHORT) if " " not in name} - found == set()


KINDS: Final = {("text", "str"), ("document", "Document"), ("raw", "str")}


def seconds(recognize: Callable[[str], Any], text: str) -> float:
    for cached in (table_heads.has_amounts, agreement.parts_said):
        cached.cache_clear()
    began = time.process_time()
    with suppress(ValueError, LookupError):
        found = recognize(text)
        if isinstance(found, Iterator):
            for _ in found:
                pass
    return time.process_time() - began


@pytest.mark.slow
@pytest.mark.parametrize("name", RECOGNIZERS)
def test_a_recognizer_takes_linear_time(name: str) -> None:
    recognize = RECOGNIZERS[name]
    recognize("Revenue was 5 in 2021.")  # loads what it needs
    for piece in PIECES:
        longer, shorter = ((piece * (size // len(piece))) + BEHIND for size in (LONGER, SHORTER))
        if "of_document" in recognize.__qualname__:
            document_of(longer), document_of(shorter)
        taken = seconds(recognize, longer)
        for _ in range(4):
            least = min(seconds(recognize, shorter) for _ in range(2))
            if taken < max(FLOOR_S, MOST * least):
                break
            taken = min(taken, seconds(recognize, longer))
        else:
            raise AssertionError(f"{piece!r}: {least:.3f} s for {SHORTER} characters, {taken:.3f} s for {LONGER}")
