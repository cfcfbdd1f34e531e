"""The reader that docs/architecture.md shows runs when it is listed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.types import Analysis, Question
from okralong.pipelines.methods import okralong
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import ScriptedTools

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"


async def test_the_pages_reader_answers_without_the_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    monkeypatch.setattr(okralong, "READERS", (names["Count"](), *okralong.READERS))
    tools = ScriptedTools([ALDER, BIRCH], {}, analysis=Analysis("extractive", "same", True, {}, {}, 1.0, "rules"))
    answer = await okralong.answer(Question("q1", "How many documents are there?"), tools)
    assert (answer.status, answer.answer, answer.replied_by) == ("answered", "2", ("count",))
    assert "complete" not in {kind for kind, _ in tools.steps()}
