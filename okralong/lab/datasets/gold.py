"""Gold data of questions: answer recall, the operands of calculations, and the analyzer's labels."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.answering.analyzers.analysis import TYPES, sure_analysis
from okralong.pipelines.core.types import Analysis, InputError, Pattern, Question

# --------
# Answer recall: is everything that the answer needs in the context that the generator was shown?
#
# It measures retrieval, not the reply. All *parts* of an answer are needed, each in any of its wordings. A short answer
# is one part, a list has a part per item, a calculation one per operand. Long free answers, yes or no, and calculations
# with unknown operands have no parts and no recall.
#
# Texts are compared by words: case, punctuation, currency, signs, thousands separators and line breaks have no effect.
# A short number may be found by chance; a reworded answer is not found.

Parts = tuple[tuple[str, ...], ...]

MOST_WORDS: Final = 12  # project default
"""Gold answers with more words are not searched for, since no text contains them literally."""

_NO_FACTS: Final = frozenset({"yes", "no", "true", "false", "unanswerable", "none", "n a", ""})
_SEPARATOR: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_PERCENT: Final = re.compile(r"\bper\s?cent\b")
_WORD: Final = re.compile(r"\d+\.\d+|(?<![\d\w])\.\d+|\d+|%|[^\W\d_]+")


_COMMON: Final = """
a an the of in on at to for and or by with from as is are was were be been its it this that their his her which what who
how when where did does do has have had not than into under over per between
"""

COMMON: Final = frozenset(_COMMON.split())  # project default
"""Words that have no information about an answer."""


def words(text: str) -> list[str]:
    """Return the words and numbers of a text in comparable form: ["1544.5", "%"] for "$ (1,544.50) Percent"."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return [_number(word) for word in _WORD.findall(_PERCENT.sub("%", _SEPARATOR.sub("", plain)))]


def findable(answers: Iterable[str]) -> tuple[str, ...]:
    """Return the searchable answers: those of 1 to ``MOST_WORDS`` words, except yes and no."""
    return tuple(a for a in answers if len(a.split()) <= MOST_WORDS and " ".join(words(a)) not in _NO_FACTS)


def answer_recall(parts: Parts, shown: Sequence[str]) -> float | None:
    """Return the share of ``parts`` that occur in one of the texts shown, or None if there are no parts."""
    if not parts:
        return None
    texts = [_prepared(text) for text in shown]
    found = sum(any(_stands(wording, texts) for wording in part) for part in parts)
    return found / len(parts)


@lru_cache(maxsize=64)  # a document is searched for each question about it
def _prepared(text: str) -> str:
    return f" {' '.join(words(text))} "


def _stands(wording: str, texts: Sequence[str]) -> bool:
    wanted = " ".join(words(wording))
    return bool(wanted) and any(f" {wanted} " in text for text in texts)


def _number(word: str) -> str:
    if "." not in word:
        return word
    trimmed = word.rstrip("0").rstrip(".")
    return f"0{trimmed}" if trimmed.startswith(".") else trimmed or "0"


@dataclass(frozen=True, slots=True)
class Gold:
    """A question with its gold answers and mapped type.

    The answers are wordings of one answer, each of which is right. ``dataset`` and ``source_type`` are the source's own
    names; ``parts`` is the input of ``answer_recall``.
    """

    question: Question
    dataset: str
    source_type: str = ""
    parts: Parts = ()

    @property
    def cluster(self) -> str:
        """One name for all documents that the question is about. The bootstrap resamples by it."""
        return ";".join(self.question.doc_ids)


# --------
# The operands of calculations in TAT-QA, FinQA and UDA.
#
# TAT-QA has a derivation ("(242 + 545) / 2"), UDA's copy of it also the facts (["242", "545"]), and FinQA a program
# ("divide(530, 922)"). The questions of ``reports`` have no operands; they are looked up in these sets by their text.

FILES: Final = (
    "tatqa/tatqa_dataset_dev.json",
    "uda/bench_tat_qa.json",
    "uda/bench_fin_qa.json",
    "finqa/dev_200.json",
    "finqa/train_100.json",
)
"""Files below the data folder that have operands. Missing ones are skipped."""

_NUMBER: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?%?|\d+(?:\.\d+)?%?|\.\d+%?")
_CONSTANT: Final = re.compile(r"/\s*(?:[2-9]|1[0-2])(?![\d.,])|[*/x]\s*100(?![\d.,])")
_STEP: Final = re.compile(r"([a-z_]+)\(([^()]*)\)")
_SIGNS: Final = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "exp": "**"}
_ARGUMENT: Final = re.compile(r"[(,]\s*(?=([^(),#]+)\s*[,)])")


@dataclass
class OperandBook:
    """Operands by question. ``sources`` lists the files that were found."""

    sources: list[str] = field(default_factory=list)
    _known: dict[str, list[tuple[frozenset[str], tuple[str, ...]]]] = field(default_factory=dict)

    def add(self, question: str, answers: Sequence[str], operands: tuple[str, ...]) -> None:
        """Add the operands of a question with these gold answers."""
        if operands:
            self._known.setdefault(_key(question), []).append((_keys(answers), operands))

    def operands(self, question: str, answers: Sequence[str]) -> tuple[str, ...]:
        """Return the operands of a question that has one of these answers, or () if they are unknown.

        The answer is compared, too, because questions about different companies may have the same wording.
        """
        wanted = _keys(answers)
        return next((operands for known, operands in self._known.get(_key(question), ()) if known & wanted), ())


def read_operands(data: Path) -> OperandBook:
    """Read all operands of the files below ``data``. Raises InputError for a file in another format."""
    book = OperandBook()
    for name in FILES:
        file = data / name
        if not file.is_file():
            continue
        try:
            for row in _rows(json.loads(file.read_text(encoding="utf-8"))):
                _note(book, row)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{file} is not in its authors' published format ({type(error).__name__}: {error}). "
                "Fetch it again, or delete it: operands are then unknown and not scored."
            ) from error
        book.sources.append(name)
    return book


def derivation_operands(derivation: str) -> tuple[str, ...]:
    """Return the distinct numbers in a derivation that are figures of the report.

    A divisor up to 12 (the n of an average) and the 100 of a percentage are not figures.
    """
    return tuple(dict.fromkeys(_NUMBER.findall(_CONSTANT.sub(" ", derivation))))


def program_operands(program: str) -> tuple[str, ...]:
    """Return the distinct numbers in a FinQA program, except constants (``const_100``) and earlier results (``#0``)."""
    arguments = (match.group(1).strip() for match in _ARGUMENT.finditer(program))
    return tuple(dict.fromkeys(each for each in arguments if _NUMBER.fullmatch(each.lstrip("-"))))


def program_expression(program: str) -> str:
    """Return a FinQA program as one expression: "subtract(303, 189), divide(#0, 189)" is "(303 - 189) / 189".

    The result is empty if a step cannot be expressed (table operations, "greater").
    """
    done: list[str] = []
    for name, arguments in _STEP.findall(program):
        sign = _SIGNS.get(name)
        terms = [_term(each.strip(), done) for each in arguments.split(",")]
        if sign is None or len(terms) != 2 or not all(terms):
            return ""
        done.append(f" {sign} ".join(f"({term})" if " " in term else term for term in terms))
    return done[-1] if done else ""


def _term(argument: str, done: Sequence[str]) -> str:
    """Return the term for a figure, a constant or an earlier step; "" for anything else."""
    if argument.startswith("#"):
        number = argument[1:]
        return done[int(number)] if number.isdigit() and int(number) < len(done) else ""
    plain = argument.removeprefix("const_").replace("m1", "-1")
    return plain if _NUMBER.fullmatch(plain.lstrip("-")) else ""


def _rows(content: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the questions of a file, whose content is an object by document (UDA), or a list of contexts or items."""
    if isinstance(content, dict):
        for questions in content.values():
            yield from questions
        return
    for item in content:
        yield from item["questions"] if "questions" in item else [item["qa"]]


def _note(book: OperandBook, row: Mapping[str, Any]) -> None:
    if "program" in row:
        answers = row["answers"].values() if "answers" in row else (row["answer"], row["exe_ans"])
        book.add(row["question"], [str(answer) for answer in answers], program_operands(row["program"]))
        return
    answers = row["answers"]["answer"] if "answers" in row else row["answer"]
    listed = answers if isinstance(answers, list) else [answers]
    facts = tuple(dict.fromkeys(fact for fact in row.get("facts", ()) if words(fact)))
    operands = facts if facts and row["derivation"] else derivation_operands(row["derivation"])
    book.add(row["question"], [str(answer) for answer in listed], operands)


def _key(question: str) -> str:
    return " ".join(question.lower().split())


def _keys(answers: Sequence[str]) -> frozenset[str]:
    return frozenset(" ".join(words(answer)) for answer in answers)


# --------
# The analyzer's three gold labels, from the set's annotation and from this project's retrieval. In the bench they are
# an upper bound for analyzers, and in training the target.

PATTERN_CHUNKS: Final = 5
"""Number of chunks of each retriever that are compared: those of the factoid scope (paper appendix B.3)."""

PATTERN_MARGIN: Final = 0.0  # project default
"""A retriever is preferred if its chunks contain more of the evidence by more than this share."""


def pattern_label(exact_share: float, semantic_share: float) -> Pattern:
    """Return the retriever whose chunks contain more of the gold evidence, or "same"; shares are 0 to 1."""
    if exact_share > semantic_share + PATTERN_MARGIN:
        return "exact"
    return "semantic" if semantic_share > exact_share + PATTERN_MARGIN else "same"


def evidence_label(share: float) -> bool:
    """Return whether the primary chunks contain all of the evidence (``share`` is 0 to 1)."""
    return share >= 1.0


def gold_analysis(question_type: str, pattern: Pattern, evidence: bool) -> Analysis:
    """Return an analysis that gives these labels the probability 1. Raises ValueError for an unknown type."""
    if question_type not in TYPES:
        raise ValueError(f"{question_type!r} is not one of the question types {', '.join(TYPES)}")
    return sure_analysis(question_type, pattern, evidence, "gold")
