"""What the reader learns from: a prompt as the executor would send it, and the reply that it should get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from okralong.pipelines.core.schemas import READING_ROWS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError, Message, Passage
from okralong.pipelines.evaluation.datasets.pooling import Span
from okralong.pipelines.evaluation.split.keys import Side

_FILE: Final = "reading.parquet"


@dataclass(frozen=True, slots=True)
class ReadingRow:
    """One call of the generator. ``source`` is "set part"; ``documents`` are those by which figures cluster.

    ``role`` is generate, split or step; ``system`` and ``user`` are the prompt, ``reply`` is what a perfect reader
    would say. ``passages`` are those of the prompt, ``evidence`` the gold spans. ``answers`` are the gold wordings;
    where the evidence was held back (``answerable`` false) that is "unanswerable". ``calculator`` says that the prompt
    asks for a calculation's expression.
    """

    query_id: str
    source: str
    documents: tuple[str, ...]
    role: str
    type: str
    question: str
    system: str
    user: str
    reply: str
    answers: tuple[str, ...]
    answerable: bool
    calculator: bool
    passages: tuple[Passage, ...] = ()
    evidence: tuple[Span, ...] = ()

    @property
    def messages(self) -> list[Message]:
        """The prompt."""
        return [Message("system", self.system), Message("user", self.user)]


def write_reading(folder: Folder, side: Side, rows: Sequence[ReadingRow]) -> None:
    """Write the rows of one side of the split; those that stood there are replaced."""
    table = pa.Table.from_pylist([_plain(row) for row in rows], schema=READING_ROWS)
    folder.at(f"side={side}").write_table(_FILE, table)


def read_reading(folder: Folder, side: Side) -> list[ReadingRow]:
    """The rows of one side, in the order written. Raises InputError when there are none."""
    table = folder.at(f"side={side}")
    found = table.read_tables(READING_ROWS).to_pylist()
    if not found:
        raise InputError(
            f"{table.path} holds no reading rows. Make them with `okralong train-data DATA --config "
            "training/reading.yaml --out DIR`."
        )
    return [_row(each) for each in found]


def _plain(row: ReadingRow) -> dict[str, Any]:
    passages = [
        {"doc_id": each.doc_id, "start_char": each.start_char, "end_char": each.end_char, "text": each.text}
        for each in row.passages
    ]
    return {**asdict(row), "passages": passages}


def _row(values: dict[str, Any]) -> ReadingRow:
    passages = tuple(Passage(**each, n_tokens=0, score=0.0) for each in values["passages"])
    evidence = tuple(Span(**each) for each in values["evidence"])
    lists = {name: tuple(values[name]) for name in ("documents", "answers")}
    return ReadingRow(**{**values, **lists, "passages": passages, "evidence": evidence})
