"""Read this project's own questions over filings that may not be shipped: questions, answers, and places in the texts.

``configs/filings_questions`` has ``questions.jsonl`` and ``archives.yaml``; the filings are in the data folder. A place
is valid only in the text in which it was measured, so each document's SHA-256 is stored, too.

Half of the questions have the one or few filings that they are about as their scope (``documents``). The other half
have all filings of their side as their scope (``archive``), and name company and period. The sides are assigned by
hand. The test side has filings of large companies whose annual reports no model of this project has seen
(``financial_qa_10k`` has excerpts of the others), and the filings that ``reports`` and ``loong_finance`` ask about. The
tune side has the other large companies, and filings of small companies that ``loong_finance`` contains without asking
about them. These are added because the texts of ``filings`` have lost their tables, so that otherwise the tune side
would have no statements.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import Field, ValidationError

from okralong.lab.datasets.answers import grounded, one_part, operand_parts
from okralong.lab.datasets.base import Builder, DataSet, Evidence, Item, Text
from okralong.lab.datasets.files import Row
from okralong.pipelines.core.config import Settings, parse_config
from okralong.pipelines.core.types import InputError

FILINGS_QUESTIONS: Final = "filings_questions"

QUESTIONS: Final = "questions.jsonl"
ARCHIVES: Final = "archives.yaml"

PlacedSide = Literal["tune", "test"]
Scope = Literal["archive", "documents"]
Kind = Literal["look_up", "prose", "derived", "periods", "companies", "segment", "yes_no", "unanswerable"]
"""The kind of a question. It asks for:

a figure in a statement, a reason or fact in the prose, a metric computed from line items, the same over two periods or
over two companies, a figure of a segment or region, yes or no with the deciding fact, or something that its scope does
not answer."""


class Place(Settings):
    """The range ``[start_char, end_char)`` of a document, given by its path below the data folder.

    ``values`` are the figures in it that the answer needs, as they are written. ``page`` is counted from 1, in texts
    that mark page ends.
    """

    document: str
    start_char: int = Field(ge=0)
    end_char: int = Field(ge=1)
    values: tuple[str, ...] = Field(default=(), strict=False)
    page: int | None = None


class PlacedQuestion(Settings):
    """A line of ``questions.jsonl``.

    ``answers`` are wordings of one answer; there are none if the scope does not contain it. ``documents`` are the
    filings that the question is about, by their paths below the data folder. ``calculation`` computes the answer from
    the values of the evidence.
    """

    query_id: str = Field(min_length=1)
    side: PlacedSide
    scope: Scope
    kind: Kind
    question: str = Field(min_length=1)
    answers: tuple[str, ...] = Field(strict=False)
    documents: tuple[str, ...] = Field(default=(), strict=False)
    calculation: str = ""
    evidence: tuple[Place, ...] = Field(default=(), strict=False)

    @property
    def part(self) -> str:
        """The part of the set that the question belongs to: "tune_archive", "test_documents"."""
        return f"{self.side}_{self.scope}"


class Archives(Settings):
    """The documents of each side's archive: the path below the data folder and the SHA-256 of each file."""

    archives: dict[PlacedSide, dict[str, str]]


def read_filings_questions(path: Path, part: str) -> DataSet:
    """Read a part of the shipped questions ("tune_archive"); ``path`` is the folder ``filings`` of the data folder.

    Raises InputError as ``read_placed`` does.
    """
    return read_placed(resources.files("okralong.configs").joinpath(FILINGS_QUESTIONS), path.parent, part)


def read_placed(folder: Traversable, data: Path, part: str) -> DataSet:
    """Read the questions of ``folder`` that belong to ``part``, over documents below ``data``.

    A text is a whole document, stripped, and is named by the file's stem. The parts of an answer are the values of the
    evidence, or else the answer itself if it occurs in the documents. Raises InputError for an unknown part, a
    malformed file, a document that is missing or differs from the one measured, and a place that lacks one of its
    values.
    """
    side, _, scope = part.partition("_")
    if side not in get_args(PlacedSide) or scope not in get_args(Scope):
        known = ", ".join(f"{one}_{other}" for one in get_args(PlacedSide) for other in get_args(Scope))
        raise InputError(f"{folder / QUESTIONS} has no part {part!r}; its parts are {known}.")
    made = Builder(FILINGS_QUESTIONS, part)
    asked = [each for each in read_questions_file(folder) if each.part == part]
    hashes = read_archives(folder).archives[asked[0].side] if asked else {}
    wanted = list(hashes) if scope == "archive" else sorted({name for each in asked for name in each.documents})
    texts: dict[str, Text] = {}
    for name in wanted:
        if name not in hashes:
            raise InputError(
                f"{folder / QUESTIONS} asks about {name}, which is not among the {side} documents of {ARCHIVES}. List "
                "it there with its SHA-256, or correct the question's documents."
            )
        texts[name] = made.text(Path(name).stem, _document(data / name, hashes[name]))
    for number, each in enumerate(asked, start=1):
        row = Row(Path(str(folder / QUESTIONS)), f"question {number} of {part} ({each.query_id})", each.model_dump())
        made.items.append(_item(made, row, each, texts))
    return made.built()


def read_questions_file(folder: Traversable) -> tuple[PlacedQuestion, ...]:
    """Read the lines of ``questions.jsonl``. Raises InputError naming a malformed line or a duplicate id."""
    file = folder / QUESTIONS
    found: dict[str, PlacedQuestion] = {}
    for number, line in enumerate(_read(file).decode("utf-8").splitlines(), start=1):
        try:
            each = PlacedQuestion.model_validate_json(line)
        except ValidationError as error:
            what = error.errors()[0]
            raise InputError(
                f"{file}, line {number}: the field {'.'.join(map(str, what['loc'])) or '(line)'}: {what['msg']}. "
                "Correct that line."
            ) from error
        if found.setdefault(each.query_id, each) is not each:
            raise InputError(
                f"{file}, line {number}: query_id {each.query_id!r} occurs in an earlier line. Rename one."
            )
    return tuple(found.values())


def read_archives(folder: Traversable) -> Archives:
    """Read the documents of each side. Raises ConfigError if the file is malformed, InputError if it is missing."""
    return parse_config(Archives, _read(folder / ARCHIVES).decode("utf-8"), str(folder / ARCHIVES), {})


def _item(made: Builder, row: Row, each: PlacedQuestion, texts: Mapping[str, Text]) -> Item:
    meant = [texts[name] for name in each.documents if name in texts]
    if len(meant) != len(each.documents):
        unknown = sorted(set(each.documents) - set(texts))
        row.bad("documents", f"names {unknown[0]!r}, no document of its side's archive")
    scope = meant if each.scope == "documents" else list(texts.values())
    evidence = tuple(_evidence(row, place, texts) for place in each.evidence)
    values = dict.fromkeys(value for place in each.evidence for value in place.values)
    parts = operand_parts(values) if values else grounded(one_part(each.answers), [text.text for text in meant])
    kind = row.type_of("kind", FILINGS_QUESTIONS, each.kind)
    gold = made.gold(row, "query_id", each.answers, kind, each.kind, parts)
    return Item(
        gold,
        tuple(text.document for text in meant),
        tuple(dict.fromkeys(text.text_id for text in scope)),
        evidence,
        calculation=each.calculation,
    )


def _evidence(row: Row, place: Place, texts: Mapping[str, Text]) -> Evidence:
    if place.document not in texts:
        row.bad("evidence", f"names {place.document!r}, no document of its side's archive")
    text = texts[place.document]
    shown = text.text[place.start_char : place.end_char]
    if not place.start_char < place.end_char <= len(text.text) or not shown.strip():
        row.bad("evidence", f"has the place {place.start_char}:{place.end_char}, which {place.document} does not have")
    for value in place.values:
        if value not in shown:
            row.bad("evidence", f"names the value {value!r}, which is not at its place in {place.document}")
    return Evidence(text.text_id, place.start_char, place.end_char)


def _document(file: Path, sha256: str) -> str:
    """Return the document's text. Raises InputError if it is missing or differs from the one measured."""
    content = _read(file)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{file} is not the text in which the evidence of {FILINGS_QUESTIONS} was placed (its SHA-256 begins with "
            f"{found[:12]}, not with {sha256[:12]}), so every place in it could be wrong. Put the original file there."
        )
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").strip()


def _read(file: Traversable) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({type(error).__name__}), and {FILINGS_QUESTIONS} needs it. Give the data folder "
            "that holds filings, reports and loong_finance as they were measured."
        ) from error
