"""Who replied, as answers rows keep it: the last reply of the question where the answer does not say it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.records import MODELS_NAMED, NAME_CHARS, models_named
from okralong.pipelines.run.rows import answer_row
from tests.llm.tools import a_call, paid, rows


async def settled(ledger: RunLedger, number: int, model: str) -> None:
    await ledger.intend(a_call(number))
    await ledger.settle(replace(paid(a_call(number), 0.01), snapshot=model))


def row_of(query_id: str, *replied_by: str, status: str = "answered") -> dict[str, object]:
    answer = Answer(status, "12", replied_by=replied_by)  # type: ignore[arg-type]
    return answer_row(Question(query_id, "?"), (), answer, "okralong", {})


async def test_the_answer_says_it_else_the_last_reply_does_also_after_a_restart(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), None)
    await settled(ledger, 1, "first-2026")
    await settled(ledger, 2, "second-2026")
    await ledger.close()
    ledger = RunLedger(Folder.of(tmp_path), None)
    await ledger.finish(row_of("q", status="failed"))
    await ledger.finish(row_of("read", "cross_encoder@abc"))
    await ledger.finish(row_of("nobody"))
    await ledger.close()
    found = {row["query_id"]: row["replied_by"] for row in rows(tmp_path, "answers")}
    assert found == {"q": "second-2026", "read": "cross_encoder@abc", "nobody": None}


@pytest.mark.parametrize("said", ["m" * 2_000_000, "cut \ud83d in two", '<script>="x"'])
async def test_a_name_is_a_bounded_text(tmp_path: Path, said: str) -> None:
    ledger = RunLedger(Folder.of(tmp_path), None)
    await settled(ledger, 1, said.encode("utf-8", "replace").decode())
    await ledger.finish(row_of("q"))
    await ledger.finish(row_of("other", said))
    await ledger.close()
    first, second = rows(tmp_path, "answers")
    assert first["replied_by"] == second["replied_by"] == said[:NAME_CHARS].replace("\ud83d", "?")


def test_each_model_is_named_once_and_of_many_the_first() -> None:
    assert models_named(["a", "", "b", "a"]) == "a; b"
    assert models_named(map(str, range(MODELS_NAMED + 3))) == "0; 1; 2; 3; and 3 more"
    assert models_named([]) == ""
