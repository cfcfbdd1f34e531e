"""Ask the canaries of a night, and judge their answers."""

from __future__ import annotations

from typing import Any

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.records import models_named
from okralong.pipelines.reporting.diff import same_answer
from okralong.pipelines.reporting.metrics import Typed, answer_marks
from okralong.pipelines.run.canaries import Verdict, Wrong
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import Prepared
from okralong.pipelines.run.rows import table


def canary_config(config: RunConfig, budget_usd: float | None) -> RunConfig:
    """Return the config for canaries: without stored replies, in real time, as nobody waits a day for a verdict."""
    llm = config.llm.model_copy(update={"mode": "realtime"})
    update = {"llm": llm, "replies_from": [], "carry": [], "budget_usd": budget_usd}
    return config.model_copy(update=update)


def judged(prepared: Prepared, run: Folder) -> Verdict:
    """Compare the answers of a run of canaries with their gold answers: typed ones by value, others by words."""
    golds = {each.question.query_id: each.question.answers for each in prepared.questions}
    rows = [row for row in table(run, "answers") if row["query_id"] in golds]
    asked = [row for row in rows if row["calls"]]
    wrong = [
        Wrong(row["query_id"], row["answer"] or f"({row['status']})", golds[row["query_id"]][0])
        for row in asked
        if not _is_right(row, golds[row["query_id"]])
    ]
    named = models_named(row["replied_by"] or "" for row in asked) or prepared.config.llm.model
    return Verdict(
        asked=len(asked),
        right=len(asked) - len(wrong),
        model=named,
        wrong=wrong,
        left_out=len(prepared.unscoped) + len(rows) - len(asked),
        usd=sum(row["cost_usd"] or 0.0 for row in rows),
    )


def _is_right(row: dict[str, Any], golds: tuple[str, ...]) -> bool:
    answer, typed = row["answer"] or "", Typed.of(row)
    if answer_marks("", row["status"], answer, golds, typed).em == 1:
        return True
    words = typed is None and row["status"] == "answered"
    return words and any(same_answer(gold, answer, row["question"]) for gold in golds)
