"""Strategies named by their place: the one that docs/methods.md shows, from a file and from a module."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import ConfigError, Question
from okralong.pipelines.methods.registry import describe, load_strategy
from okralong.pipelines.run.config import RunConfig, fingerprint
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import ScriptedTools, paper_policy

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods.md"
RESEARCH = "How much did Alder spend on research?"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The page's example as a file."""
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    file = tmp_path / "hybrid_twice.py"
    file.write_text(found[1], encoding="utf-8")
    assert 20 < found[1].count("\n") < 45
    return file


async def test_the_pages_example_runs(mine: Path) -> None:
    said = 'Evidence: [1] "Alder spent 41 million crowns on research"\nAnswer: 41 million crowns'
    tools = ScriptedTools([ALDER, BIRCH], {"generate": [said]})
    answer = await load_strategy(str(mine))(Question("q1", RESEARCH), tools)
    assert tools.steps() == [
        ("record_plan", "plan"),
        ("retrieve", "retrieve"),
        ("complete", "first/generate"),
        ("complete", "second/generate"),
    ]
    assert tools.of("retrieve")[0].details == {"query": RESEARCH, "granularity": 256, "k": 20}
    assert tools.prompt("first/generate").count("<passage ") > 1
    assert tools.prompt("second/generate").count("<passage ") == 1
    assert (answer.answer, answer.citations[0].doc_id) == ("41 million crowns", ALDER.doc_id)


async def test_without_a_source_the_first_answer_stands(mine: Path) -> None:
    tools = ScriptedTools([ALDER], {"generate": ["Answer: unanswerable"]})
    assert (await load_strategy(str(mine))(Question("q1", RESEARCH), tools)).status == "unanswerable"
    assert tools.steps()[-1] == ("complete", "first/generate")


def test_what_a_file_says_of_itself_is_heard(mine: Path) -> None:
    name = str(mine)
    spec = describe(name, paper_policy())
    assert spec.needs.granularities == (256,)
    assert spec.needs.unforeseen == "the first reply decides what the second prompt shows"
    assert not spec.needs.scorer
    assert not spec.needs.logprobs
    assert describe("flare", paper_policy()).needs.logprobs
    assert describe("std_rag", paper_policy()).needs.unforeseen is None
    mine.write_text(f"{mine.read_text()}other = answer")
    named = [describe(each, paper_policy()).name for each in (name, f"{name}:other", "std_rag")]
    assert named == ["hybrid_twice", "hybrid_twice:other", "std_rag"]


def test_another_process_finds_the_file_from_wherever_it_works(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mine.parent)
    assert describe("hybrid_twice.py", paper_policy()).place == f"{mine.resolve()}:answer"
    assert describe("okralong", paper_policy()).place == "okralong"
    module = "okralong.pipelines.methods.long_context:answer"
    assert describe(module, paper_policy()).place == module
    monkeypatch.chdir("/")
    assert callable(load_strategy(f"{mine}:answer"))


def test_a_run_goes_on_only_with_the_file_that_it_began_with(mine: Path, tmp_path: Path) -> None:
    def of(strategy: str) -> str:
        config = load_config(RunConfig, "answer.yaml", {"strategy": strategy})
        return fingerprint(config, paper_policy(), describe(strategy, paper_policy()), {})

    moved = tmp_path / "elsewhere.py"
    moved.write_text(mine.read_text())
    before = of(str(mine))
    assert of(str(moved)) == before, "where it lies decides no answer"
    mine.write_text(mine.read_text().replace("count: Count = 6", "count: Count = 7"))
    assert of(str(mine)) != before
    assert describe("std_rag", paper_policy()).identity == "std_rag"


def test_a_module_and_its_function(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(mine.parent))
    try:
        assert load_strategy("hybrid_twice:answer") is sys.modules["hybrid_twice"].answer
        assert describe("hybrid_twice:answer", paper_policy()).needs.granularities == (256,)
    finally:
        sys.modules.pop("hybrid_twice", None)


def test_what_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.py cannot be read"):
        load_strategy(str(tmp_path / "nowhere.py"))
    with pytest.raises(ConfigError, match=r"cannot be loaded: ModuleNotFoundError.*no_such_module_here"):
        load_strategy("no_such_module_here:answer")
    with pytest.raises(ConfigError, match="has no function 'reply'"):
        load_strategy("json:reply")
    with pytest.raises(ConfigError, match="has no function needs"):
        load_strategy("json:dumps")
    broken = tmp_path / "broken.py"
    broken.write_text("def answer(:\n")
    with pytest.raises(ConfigError, match="SyntaxError"):
        load_strategy(str(broken))
    broken.write_text("raise RuntimeError('no licence')\n")
    with pytest.raises(ConfigError, match="no licence"):
        load_strategy(str(broken))
