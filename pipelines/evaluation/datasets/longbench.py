"""LongBench items as they were put to a model: whole prompts with their gold answers (Bai et al. 2024).

A file is one object: {"0": {"origin_prompt": ..., "gold": [...]}, ...}. The prompt is an instruction, the passages, the
instruction again, "Question: ..." and "Answer:". What stands between the two instructions becomes the item's one text,
"Passage 1:" lines included; neither it nor the question has a name, so the text is called by its words and the question
by its key in the file.

The label is the file's name without its ending (hotpotqa, 2wikimqa, qasper), as LongBench drops the sets' own. The gold
answers are wordings of the same answer. There is no evidence and there are no sub-questions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.evaluation.datasets.answer_parts import grounded, one_part
from okralong.pipelines.evaluation.datasets.fields import Row, read_json, row_of, texts_of
from okralong.pipelines.evaluation.datasets.pieces import keep_text
from okralong.pipelines.evaluation.datasets.types import question_type
from okralong.pipelines.evaluation.datasets.values import DataSet, Item, Text, text_id
from okralong.pipelines.evaluation.gold import Gold

NAME: Final = "longbench"

INSTRUCTION: Final = (
    "Answer the question based on the given passages. Only give me the answer and do not output any other words."
)
"""LongBench's own wording, the same in the prompts of the three sets."""

BEFORE: Final = f"{INSTRUCTION}\n\nThe following are given passages.\n"
BETWEEN: Final = f"\n\n{INSTRUCTION}\n\nQuestion: "
AFTER: Final = "\nAnswer:"


def read(path: Path, part: str) -> DataSet:
    """A file such as ``hotpotqa.json``. Raises InputError naming file, row and field."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} holds {type(content).__name__}, not an object of prompts. Fetch the file again.")
    type_ = question_type(NAME, path.stem)
    texts: dict[str, Text] = {}
    items = []
    for key, value in content.items():
        row = row_of(path, f"row {key!r}", value)
        passages, asked = _cut(row)
        text = keep_text(texts, f"{NAME}-{text_id(passages)}", passages)
        answers = _answers(row)
        question = Question(f"{NAME}-{path.stem}-{key}", asked, answers=answers, type=type_)
        gold = Gold(question, NAME, path.stem, grounded(one_part(answers), [passages]))
        items.append(Item(gold, documents=(text.document,), text_ids=(text.text_id,)))
    return DataSet(NAME, part, texts, tuple(items))


def _cut(row: Row) -> tuple[str, str]:
    """The passages and the question of a prompt."""
    prompt = row.text("origin_prompt").rstrip()
    passages, _, asked = prompt.removeprefix(BEFORE).removesuffix(AFTER).rpartition(BETWEEN)
    if not (prompt.startswith(BEFORE) and prompt.endswith(AFTER) and passages.strip() and asked.strip()):
        row.bad("origin_prompt", "is not an instruction, passages, the instruction again, a question and 'Answer:'")
    return passages, asked.strip()


def _answers(row: Row) -> tuple[str, ...]:
    answers = [answer.strip() for answer in texts_of(row, "gold", row.get("gold", list))]
    if not all(answers) or not answers:
        row.bad("gold", "holds no answer or an empty one")
    return tuple(dict.fromkeys(answers))
