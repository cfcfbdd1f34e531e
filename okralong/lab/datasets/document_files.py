"""Read sets whose documents are PDF files, by the reader of ``okralong index``: UDA, TAT-DQA, FinanceBench, MuDABench.

Reading a filing takes seconds, so its text is stored in the folder ``.okralong_texts`` beside the files, if that can be
written, and used until the file or the reader changes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple

from okralong.lab.datasets.answers import grounded, one_part, operand_parts, scaled_wordings, span_parts, spans_of
from okralong.lab.datasets.base import Builder, DataSet, Item
from okralong.lab.datasets.files import Row, rows_in
from okralong.lab.datasets.gold import Parts, derivation_operands, words
from okralong.lab.datasets.tatqa import TATQA, counted_items
from okralong.lab.datasets.uda import read_uda_csv
from okralong.pipelines.core.types import InputError, Section
from okralong.pipelines.core.wording import counted
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import BadRow, Limits, Source
from okralong.pipelines.indexing.parser_process import SandboxedParser
from okralong.pipelines.indexing.parsers import parser_version

TATDQA: Final = "tatdqa"
FINANCEBENCH: Final = "financebench"
MUDABENCH: Final = "mudabench"

STORED: Final = ".okralong_texts"
"""The folder, beside the PDF files, with their texts."""

logger = logging.getLogger(__name__)

# --------
# UDA over its documents (Hui et al. 2024), laid out as the folder ``dataset`` of its repository: ``qa`` has the csv
# files, and ``src_doc_files`` the unpacked ``tat_docs``, ``fin_docs`` and ``paper_docs``.

_QUESTIONS: Final = {"tat_docs": "tat_qa.csv", "fin_docs": "fin_qa.csv", "paper_docs": "paper_text_qa.csv"}
_TABLES: Final = "tab"
"""The part of the papers' questions that are about tables."""


def read_uda_documents(path: Path, part: str) -> DataSet:
    """Read UDA's questions about the PDF files of a folder such as ``src_doc_files/tat_docs``; its name says which.

    A document is one text. Questions whose document is missing or unreadable are left out, with a note. There is no
    evidence. Raises InputError for another folder, a malformed question file, or no document at all.
    """
    if path.name not in _QUESTIONS:
        raise InputError(f"{path} is not one of UDA's folders of documents ({', '.join(_QUESTIONS)}). Rename it.")
    questions = "paper_tab_qa.csv" if part == _TABLES else _QUESTIONS[path.name]
    asked = read_uda_csv(path.parent.parent / "qa" / questions, part)
    texts = texts_of(path, {name for item in asked.items for name in item.documents})
    made = Builder(asked.name, part)
    for item in asked.items:
        (name,) = item.documents
        if name in texts:
            text = made.text(name, *texts[name])
            gold = replace(item.gold, parts=grounded(item.gold.parts, [text.text]))
            made.items.append(replace(item, gold=gold, text_ids=(text.text_id,)))
    return with_note(made, path, len(asked.items))


# --------
# TAT-DQA: TAT-QA's questions on the pages of the filings (Zhu et al. 2022).


def read_tatdqa(path: Path, part: str) -> DataSet:
    """Read a ``tatdqa_dataset_*.json``, with its documents as PDF files in the same folder or below.

    An entry has ``doc`` (``uid``, the name of the PDF file; ``source``, the filing) and ``questions`` (``uid``,
    ``question``, ``answer``, ``answer_type``, ``scale``, ``derivation``, ``facts``). A document of one to three pages
    is one text; an item's ``documents`` is the filing, as in UDA. The set marks evidence in the words of its own OCR,
    which is not used. Questions whose document is missing or unreadable are left out, with a note. Raises InputError
    naming file, row and field, or if there is no document at all.
    """
    entries = [(row, row.inner("doc")) for row in rows_in(path)]
    texts = texts_of(path.parent, {document.text("uid") for _, document in entries})
    made, asked = Builder(TATDQA, part), 0
    for row, document in entries:
        filing, uid = document.text("source").removesuffix(".pdf"), document.text("uid")
        for each in row.rows("questions", "question"):
            asked += 1
            if uid in texts:
                made.items.append(_tatdqa_item(each, made, filing, texts[uid]))
    return with_note(made, path.parent, asked)


def _tatdqa_item(row: Row, made: Builder, filing: str, page: PdfText) -> Item:
    label, derivation = row.text("answer_type"), row.get("derivation", str)
    spans = spans_of(row, "answer", row.get("answer", object))
    facts = tuple(dict.fromkeys(fact for fact in row.texts("facts") if words(fact)))
    text = made.text(filing, *page)
    answers = scaled_wordings(spans, row.get("scale", str))
    parts = grounded(_parts(label, spans, derivation, facts), [text.text])
    gold = made.gold(row, "uid", answers, row.type_of("answer_type", TATQA, label), label, parts)
    calculation = derivation.strip() if label == "arithmetic" else ""
    return Item(gold, (filing,), (text.text_id,), calculation=calculation)


def _parts(label: str, spans: tuple[str, ...], derivation: str, facts: tuple[str, ...]) -> Parts:
    if label == "count":
        return span_parts(counted_items(derivation))
    if label == "arithmetic":
        return operand_parts(facts or derivation_operands(derivation))
    return span_parts(spans)


# --------
# FinanceBench: questions on whole filings of large companies (Islam et al. 2023), the 150 that are published.


def read_financebench(path: Path, part: str) -> DataSet:
    """Read ``data/financebench_open_source.jsonl``, with the filings in the folder ``pdfs`` beside ``data``.

    A row has ``financebench_id``, ``question``, ``answer``, ``question_type`` (the label) and ``doc_name``, the name of
    the PDF file. The set's evidence is the text of pages by another reader, which is not used. Questions whose document
    is missing or unreadable are left out, with a note. Raises InputError naming file, row and field, or if there is no
    document at all.
    """
    rows, folder = list(rows_in(path)), path.parent.parent / "pdfs"
    texts = texts_of(folder, {row.text("doc_name") for row in rows})
    made = Builder(FINANCEBENCH, part)
    for row in rows:
        name, label, answer = row.text("doc_name"), row.text("question_type"), row.text("answer").strip()
        if name in texts:
            text = made.text(name, *texts[name])
            parts = grounded(one_part([answer]), [text.text])
            kind = row.type_of("question_type", FINANCEBENCH, label)
            gold = made.gold(row, "financebench_id", [answer], kind, label, parts)
            made.items.append(Item(gold, (name,), (text.text_id,)))
    return with_note(made, folder, len(rows))


# --------
# MuDABench: questions in Chinese that aggregate figures of many filings (Li et al. 2026).


def read_mudabench(path: Path, part: str) -> DataSet:
    """Read ``data/simple.json`` or ``complex.json``, with the documents in the folder ``pdf`` beside it.

    A row has ``question``, ``final_answer``, and ``metadata`` with an object per document that the question is asked
    of: its ``id`` is the name of the PDF file. The label is the file's name, the id the row's number. Questions with a
    document that is missing or unreadable are left out, with a note. Raises InputError naming file, row and field, or
    if there is no document at all.
    """
    rows, folder, label = list(rows_in(path)), path.parent / "pdf", path.stem
    needed = [tuple(dict.fromkeys(each.text("id") for each in row.rows("metadata", "document"))) for row in rows]
    texts = texts_of(folder, {name for names in needed for name in names})
    made = Builder(MUDABENCH, part)
    for number, (row, names) in enumerate(zip(rows, needed, strict=True), start=1):
        if names and all(name in texts for name in names):
            text_ids = tuple(made.text(name, *texts[name]).text_id for name in names)
            asked = Row(row.file, row.place, {"id": f"{label}-{number}", "question": row.text("question").strip()})
            answers = [row.text("final_answer").strip()]
            gold = made.gold(asked, "id", answers, row.type_of("final_answer", MUDABENCH, label), label)
            made.items.append(Item(gold, names, text_ids))
    return with_note(made, folder, len(rows))


def with_note(made: Builder, folder: Path, asked: int) -> DataSet:
    """Return the set with a note on the questions without documents. Raises InputError if it has no question."""
    if not made.items:
        raise InputError(
            f"No PDF file below {folder} is a document of the {asked:,} questions. Unpack the documents there."
        )
    if left_out := asked - len(made.items):
        made.notes.append(
            f"{made.name} {made.part}: {left_out:,} of {asked:,} questions are left out, because their documents are "
            f"missing below {folder}, or unreadable."
        )
    return made.built()


# --------
# The texts of PDF files.


class PdfText(NamedTuple):
    """The text of a PDF file, and where its pages begin."""

    text: str
    sections: tuple[Section, ...]


def texts_of(folder: Path, names: Iterable[str], ocr: Literal["auto", "off"] = "auto") -> Mapping[str, PdfText]:
    """Return the texts of the PDF files below ``folder`` that have these names, without their suffix.

    Files that cannot be read are logged and left out. Files are read in as many processes as there are processors.
    """
    found = {each.stem: each for each in sorted(folder.rglob("*.pdf")) if not each.name.startswith(".")}
    files = {name: found[name] for name in sorted(set(names)) if name in found}
    stored = {name: file.parent / STORED / _stored_name(file, ocr) for name, file in files.items()}
    texts = {name: _stored(at) for name, at in stored.items() if at.is_file()}
    wanted = [name for name in files if name not in texts]
    if wanted:
        logger.info("%s: reading %s.", folder, counted(len(wanted), "PDF file"))
    limits, workers = IndexConfig(ocr=ocr).reading_limits(), min(len(wanted), os.cpu_count() or 1)
    with ThreadPoolExecutor(max(1, workers)) as pool:
        for read in pool.map(lambda at: _read({n: files[n] for n in wanted[at::workers]}, limits), range(workers)):
            for name, text in read.items():
                texts[name] = text
                _store(stored[name], text)
    return {name: read for name, read in texts.items() if read.text.strip()}


def _stored_name(file: Path, ocr: str) -> str:
    about = file.stat()
    key = f"{about.st_size} {about.st_mtime_ns} {parser_version(file.name)} {ocr}"
    return f"{file.stem}-{hashlib.sha256(key.encode()).hexdigest()[:10]}.json"


def _stored(file: Path) -> PdfText:
    row = json.loads(file.read_text(encoding="utf-8"))
    return PdfText(row["text"], tuple(Section(**section) for section in row["sections"]))


def _read(files: Mapping[str, Path], limits: Limits) -> dict[str, PdfText]:
    texts = {}
    with SandboxedParser(limits) as parser:
        for name, file in files.items():
            outcomes = list(parser.parse(Source(str(file), name, file.stat().st_size)))
            for each in outcomes:
                if isinstance(each, BadRow):
                    logger.warning("%s", each.message)
            read = next((each.document for each in outcomes if not isinstance(each, BadRow)), None)
            texts[name] = PdfText(read.text, read.sections) if read is not None else PdfText("", ())
    return texts


def _store(file: Path, read: PdfText) -> None:
    row = {"text": read.text, "sections": [asdict(section) for section in read.sections]}
    try:
        file.parent.mkdir(exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
        part.replace(file)
    except OSError as error:
        logger.info("%s cannot be written (%s); the PDF file is read again next time.", file, error.strerror)
