"""The operands of calculations, as TAT-QA, FinQA and UDA wrote them down.

TAT-QA has a derivation ("(242 + 545) / 2"), UDA's copy of it the facts as well (["242", "545"]), FinQA a program
("divide(530, 922)"). The questions of ``reports`` come without them and are looked up by their text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.types import InputError
from okralong.pipelines.evaluation.recall import words

FILES: Final = (
    "tatqa/tatqa_dataset_dev.json",
    "uda/bench_tat_qa.json",
    "uda/bench_fin_qa.json",
    "finqa/dev_200.json",
    "finqa/train_100.json",
)
"""Where operands are looked for, below the data folder. A file that is missing just adds none."""

_NUMBER: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?%?|\d+(?:\.\d+)?%?|\.\d+%?")
_CONSTANT: Final = re.compile(r"/\s*(?:[2-9]|1[0-2])(?![\d.,])|[*/x]\s*100(?![\d.,])")
_STEP: Final = re.compile(r"([a-z_]+)\(([^()]*)\)")
_SIGNS: Final = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "exp": "**"}
_ARGUMENT: Final = re.compile(r"[(,]\s*(?=([^(),#]+)\s*[,)])")


@dataclass
class OperandBook:
    """Operands by question. ``sources`` are the files that were there."""

    sources: list[str] = field(default_factory=list)
    _known: dict[str, list[tuple[frozenset[str], tuple[str, ...]]]] = field(default_factory=dict)

    def add(self, question: str, answers: Sequence[str], operands: tuple[str, ...]) -> None:
        """Note the operands of a question with these gold answers."""
        if operands:
            self._known.setdefault(_key(question), []).append((_keys(answers), operands))

    def operands(self, question: str, answers: Sequence[str]) -> tuple[str, ...]:
        """The operands of a question that has one of these answers; () when nobody wrote them down.

        The answer is compared too, since reports of different companies are asked the same words.
        """
        wanted = _keys(answers)
        return next((operands for known, operands in self._known.get(_key(question), ()) if known & wanted), ())


def read_operands(data: Path) -> OperandBook:
    """All operands of the files below ``data``. Raises InputError when one of them has another form."""
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
                f"{file} has not the form in which its authors publish it ({type(error).__name__}: {error}). "
                "Fetch it again, or take it away: operands are then unknown and not scored."
            ) from error
        book.sources.append(name)
    return book


def derivation_operands(derivation: str) -> tuple[str, ...]:
    """The numbers of a derivation, each once, less what is no figure of the report: a divisor up to 12 (the n of an
    average) and the 100 of a percentage."""
    return tuple(dict.fromkeys(_NUMBER.findall(_CONSTANT.sub(" ", derivation))))


def program_operands(program: str) -> tuple[str, ...]:
    """The numbers of a FinQA program, each once, less constants (``const_100``) and earlier results (``#0``)."""
    arguments = (match.group(1).strip() for match in _ARGUMENT.finditer(program))
    return tuple(dict.fromkeys(each for each in arguments if _NUMBER.fullmatch(each.lstrip("-"))))


def program_expression(program: str) -> str:
    """A FinQA program as one expression: "subtract(303, 189), divide(#0, 189)" is "(303 - 189) / 189".

    Empty where it has a step that no expression can say (table operations, "greater").
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
    """A figure, a constant or an earlier step's expression; empty for anything else."""
    if argument.startswith("#"):
        number = argument[1:]
        return done[int(number)] if number.isdigit() and int(number) < len(done) else ""
    plain = argument.removeprefix("const_").replace("m1", "-1")
    return plain if _NUMBER.fullmatch(plain.lstrip("-")) else ""


def _rows(content: Any) -> Iterator[Mapping[str, Any]]:
    """The questions of any of the files: by document name (UDA), or a list of contexts (TAT-QA) or items (FinQA)."""
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
