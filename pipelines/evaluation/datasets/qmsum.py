"""QMSum: summaries of whole meetings (general) and of what was said on one topic (specific; Zhong et al. 2021).

One meeting a line: ``meeting_transcripts`` (speaker, content), ``general_query_list`` (query, answer) and
``specific_query_list``, which also has ``relevant_text_span``: pairs of turn numbers, written as texts, counted from 0,
the last included. The meeting becomes one text, a line "speaker: content" for each turn, spaced as published ("well ,
yes"). Neither meetings nor queries have a name: a meeting is called by its words, a query by its place in its list.

Evidence of a specific query is one piece for each span: from its first turn to the end of its last. General queries
have none: all of the meeting is asked about. Nothing stands near sub-questions, so there are no gold queries; and the
answers are summaries, so there are no parts to look for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.datasets.fields import Row, jsonl_rows
from okralong.pipelines.evaluation.datasets.pieces import Range, keep_text, trimmed
from okralong.pipelines.evaluation.datasets.types import question_type
from okralong.pipelines.evaluation.datasets.values import DataSet, Evidence, Item, Text, text_id
from okralong.pipelines.evaluation.gold import Gold

NAME: Final = "qmsum"


def read(path: Path, part: str) -> DataSet:
    """A file such as ``train.jsonl``. Raises InputError naming file, row and field."""
    texts: dict[str, Text] = {}
    items: list[Item] = []
    for row in jsonl_rows(path):
        written, turns = _transcript(row)
        if text_id(written) in texts:
            row.bad("meeting_transcripts", "holds a meeting that an earlier row has")
        text = keep_text(texts, f"meeting-{text_id(written)}", written)
        for number, query in enumerate(row.rows("general_query_list"), start=1):
            items.append(_item(query, text, "general", number, ()))
        for number, query in enumerate(row.rows("specific_query_list"), start=1):
            items.append(_item(query, text, "specific", number, tuple(dict.fromkeys(_spans(query, text, turns)))))
    return DataSet(NAME, part, texts, tuple(items))


def _transcript(row: Row) -> tuple[str, list[Range]]:
    """The meeting as text, and the range of each turn."""
    lines: list[str] = []
    turns: list[Range] = []
    position = 0
    for turn in row.rows("meeting_transcripts", "turn"):
        line = f"{turn.text('speaker')}: {turn.get('content', str)}"
        lines.append(line)
        turns.append((position, position + len(line)))
        position += len(line) + 1
    if not lines:
        row.bad("meeting_transcripts", "has no turns")
    return "\n".join(lines), turns


def _item(query: Row, text: Text, label: str, number: int, evidence: tuple[Evidence, ...]) -> Item:
    question = Question(
        f"{NAME}-{text.text_id}-{label}-{number}",
        query.text("query"),
        answers=(query.text("answer"),),
        type=question_type(NAME, label),
    )
    return Item(Gold(question, NAME, label), documents=(text.document,), text_ids=(text.text_id,), evidence=evidence)


def _spans(query: Row, text: Text, turns: Sequence[Range]) -> Iterator[Evidence]:
    for span in query.get("relevant_text_span", list):
        match span:
            case [str(first), str(last)] if first.isdecimal() and last.isdecimal():
                start, end = int(first), int(last)
            case _:
                query.bad("relevant_text_span", f"holds {span!r} and not the numbers of a first and a last turn")
        if not start <= end < len(turns):
            query.bad("relevant_text_span", f"holds {span!r}, which are not turns of the {len(turns)} of the meeting")
        yield Evidence(text.text_id, *trimmed(text.text, (turns[start][0], turns[end][1])))
