"""Define a question writer's examples and prompts, and read its replies.

A small model learns from questions that people wrote. It then writes several questions about each passage of the train
side's documents, each with its answer first, as in PAQ (Lewis et al. 2021, section 2). The cross-encoder learns from
these before it learns from people's questions (``cross_encoder_rows``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import Field, model_validator

from okralong.lab.training.recipe import Count, ReadingExample
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import InputError

if TYPE_CHECKING:
    from okralong.lab.training.rows.tables import RankingRow

SYSTEM: Final = (
    "Write a question that the passage answers. First its answer in words of the passage, or none where no short span "
    "of it is the answer."
)
"""The instructions of a writer, whose replies ``written_in`` parses."""

NOTHING: Final = "none"
"""The answer in a reply if the question has no short answer span."""

LONGEST_ANSWER: Final = 120  # project default
"""Most characters of an answer that is a span."""

LEAST_WORDS, MOST_CHARS = 4, 300  # project default
"""Fewest words and most characters of a question."""

RELEVANT: Final = 0.5  # project default
"""A question is learned only if its passage has at least this share of a piece of evidence."""

_REPLY: Final = re.compile(r"Answer: (.*)\nQuestion: (\S.*)$")


class Kind(Settings):
    """A kind of question, learned from the questions of ``sets`` (names).

    ``ask`` has the number of questions of each kind to write about each passage of these sets' documents. At most
    ``most`` rows of this kind are learned.
    """

    sets: list[str] = Field(min_length=1)
    ask: dict[str, Count] = Field(min_length=1)
    most: Count | None = None


class WrittenConfig(Settings):
    """The options of ``configs/training/written.yaml``; ``kinds`` are by name.

    Of the questions that the kinds ask for, about ``questions`` are drawn and written (None: all). A question is used
    if its passage is among the first ``found`` of its document by BM25 and vectors together; ``negatives`` others of
    these are added to its row.
    """

    kinds: dict[str, Kind] = Field(min_length=1)
    questions: Count | None = None
    found: Annotated[int, Field(ge=1, le=20)] = 5
    negatives: Count = 11

    @model_validator(mode="after")
    def _asks_for_kinds(self) -> Self:
        unknown = sorted({kind for each in self.kinds.values() for kind in each.ask} - self.kinds.keys())
        if unknown:
            raise ValueError(f"kinds ask for {', '.join(unknown)}, which is not among the kinds")
        return self

    def kind_of(self, name: str) -> str | None:
        """Return the kind that learns from a set's questions, or None."""
        return next((kind for kind, each in self.kinds.items() if name in each.sets), None)


@dataclass(frozen=True, slots=True)
class WrittenQuestion:
    """A written question of a ``kind`` about ``passage``; ``answer`` occurs there as whole words, or is empty."""

    kind: str
    passage: str
    answer: str
    question: str

    @property
    def places(self) -> list[tuple[int, int]]:
        """The ranges of the answer in the passage."""
        pattern = rf"(?<!\w){re.escape(self.answer)}(?!\w)"
        return [match.span() for match in re.finditer(pattern, self.passage)] if self.answer else []


def prompt(kind: str, passage: str) -> str:
    """Return the prompt for a question of a kind about a passage."""
    return f"Kind: {kind}\n\nPassage:\n{passage}"


def written_in(reply: str, kind: str, passage: str) -> WrittenQuestion | None:
    """Return the question in a writer's reply, or None if there is none or its answer is not in the passage.

    The answers "yes" and "no" are not spans of the passage.
    """
    match = _REPLY.match(reply.strip())
    if match is None:
        return None
    answer, question = match[1].strip(), match[2].strip()
    if len(question.split()) < LEAST_WORDS or len(question) > MOST_CHARS:
        return None
    if answer.lower() in (NOTHING, "yes", "no"):
        return WrittenQuestion(kind, passage, "", question)
    found = WrittenQuestion(kind, passage, answer, question)
    return found if found.places else None


def writer_examples(rows: Sequence[RankingRow], config: WrittenConfig) -> list[ReadingExample]:
    """Return the examples for a writer. A row's passage is the one with most evidence, if possible with the answer."""
    examples = []
    for row in rows:
        kind = config.kind_of(row.source.split(" ")[0])
        places = zip(row.passages, row.relevance, row.starts, row.ends, strict=True)
        holding = [(start >= 0, held, text, start, end) for text, held, start, end in places if held >= RELEVANT]
        if kind is None or not holding:
            continue
        placed, _, passage, start, end = max(holding, key=lambda each: each[:2])
        answer = passage[start:end] if placed and end - start <= LONGEST_ANSWER else NOTHING
        answer = answer if "\n" not in answer else NOTHING
        reply = f"Answer: {answer}\nQuestion: {row.question}"
        examples.append(ReadingExample(SYSTEM, prompt(kind, passage), reply))
    return examples


@dataclass(frozen=True, slots=True)
class Passages:
    """The number of questions to write by passage and kind, and about how many of them are written (None: all)."""

    passages: Mapping[str, Mapping[str, int]]
    questions: int | None


def write_passages(path: Path, asked: Passages) -> None:
    """Write the passages as a JSON object, for a machine without Parquet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(asked)), encoding="utf-8")


def read_passages(path: Path) -> Passages:
    """Read a file that ``write_passages`` wrote. Raises InputError if it is unreadable or incomplete."""
    try:
        return Passages(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} is not what `okralong train-data --for cross_encoder --writer WRITER --export` writes ({error}). "
            "Was it copied in full? Copy it again."
        ) from error


def written_line(question: WrittenQuestion) -> str:
    """Return a question as a line that ``read_written`` can read."""
    return json.dumps(asdict(question)) + "\n"


def read_written(path: Path) -> list[WrittenQuestion]:
    """Read a writer's questions, without duplicates about the same passage.

    Raises InputError naming a malformed line.
    """
    found: dict[tuple[str, str], WrittenQuestion] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            said: dict[str, Any] = json.loads(line)
            if "batch" in said:  # a mark at which a killed writer resumes
                continue
            one = WrittenQuestion(**said)
            if not all(isinstance(value, str) for value in said.values()):
                raise TypeError("a value is not a text")
            if one.answer and not one.places:
                raise ValueError("its answer is not in its passage")
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{path}, line {number}: is not a written question ({error}). A line is a JSON object with kind, "
                "passage, answer and question, all of them texts. Remove the line, or delete the file to write it "
                "again."
            ) from error
        found.setdefault((one.passage, one.question.lower()), one)
    return list(found.values())
