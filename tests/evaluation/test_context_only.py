"""The context that would be shown, with real strategies over a small archive and no LLM; and what fits a window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.reports.context_only import NoLog, SilentGenerator, make_ports, page, show, table
from benchmarks.reports.gold_file import read_gold
from benchmarks.reports.prepare import fitting, main
from benchmarks.reports.scoring import Sheet
from benchmarks.reports.summary import groups, summarise
from okralong.lab.datasets.gold import Gold
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Analysis, Answer, Question
from okralong.pipelines.methods.registry import load_strategy
from tests.evaluation.data import write_data
from tests.search.small_archive import GRANULARITY, Small, write_archive

CORPUS = {"alder": [f"Paragraph {n} of Alder names the figure {1000 + n}." for n in range(12)], "birch": ["Nothing."]}
SIZES = {"std_rag.granularity": GRANULARITY, "std_rag.count": 2, "full_text.fallback_granularity": GRANULARITY}
SIZES |= {"primary.granularity": GRANULARITY, "factoid.granularity_present": GRANULARITY}
SIZES |= {"factoid.granularity_absent": GRANULARITY}


ASKED = Question("q", "Which?", ("ald*",), ("1,003",), type="extractive")


def _ports(small: Small, window: int, generator: SilentGenerator) -> Ports:
    vectors = {"Which?": small.vectors[small.chunk_ids.index(f"alder-{GRANULARITY}-00003")]}
    policy = load_config(Policy, "policy/paper.yaml", dict(SIZES))
    return make_ports(small.open(), policy, vectors, generator, window, reply=50)


async def _show(small: Small, strategy: str, window: int) -> list[Sheet]:
    generator = SilentGenerator(count_tokens)
    golds = [Gold(ASKED, "made-up", "", (("1,003",),))]
    return await show(strategy, golds, _ports(small, window, generator), generator)


async def _answer(small: Small, strategy: str, window: int) -> Answer:
    async def by_rules(asked: AnalysisInput) -> Analysis:
        return KeywordRules().analyze([asked])[0]

    generator = SilentGenerator(count_tokens)
    ports = replace(_ports(small, window, generator), analyze=by_rules)
    scope = ports.archive.resolve(ASKED.doc_ids)
    return await load_strategy(strategy)(ASKED, QuestionTools(ports, ASKED, scope, NoLog(), generator.fan_out))


async def test_standard_rag_shows_its_top_chunks(tmp_path: Path) -> None:
    (sheet,) = await _show(write_archive(tmp_path, CORPUS), "std_rag", window=4000)
    assert (sheet.recall, sheet.workflow) == (1.0, "top chunks")
    assert sheet.context_tokens == sum(len(text.split()) for text in CORPUS["alder"][:2])  # the archive's own counts
    assert sheet.spent.prompt_tokens > sheet.context_tokens


async def test_long_context_shows_the_scope_or_what_fits(tmp_path: Path) -> None:
    small = write_archive(tmp_path, CORPUS)
    (whole,) = await _show(small, "long_context", window=4000)
    (part,) = await _show(small, "long_context", window=330)
    assert (whole.workflow, whole.recall) == ("whole scope", 1.0)
    assert (part.workflow, part.recall) == ("top chunks", 1.0)  # the query's vector is that of the right chunk
    assert part.spent.prompt_tokens + 50 <= 330
    assert 0 < part.context_tokens < whole.context_tokens
    page = table({"long_context": {name: summarise(members) for name, members in groups([whole, part]).items()}})
    assert "| long_context | all | 2 | 1.000 (2; 0) |" in page


@pytest.mark.parametrize(("window", "origins"), [(4000, {"full"}), (330, {"retrieved", "merged"})])
async def test_precise_mode_escalates_to_what_long_context_shows(
    tmp_path: Path, window: int, origins: set[str]
) -> None:
    small = write_archive(tmp_path, CORPUS)
    at_once = await _answer(small, "long_context", window)
    plain, escalated = await _answer(small, "okralong", window), await _answer(small, "okralong_precise", window)
    assert escalated.plan is not None
    assert escalated.plan.escalate
    assert {passage.origin for passage in at_once.context} <= origins
    assert escalated.context == at_once.context != plain.context
    said = " ".join(page({"command": "", "summaries": {}}).split())
    assert "What ``long_context`` shows is also, passage by passage, what ``okralong_precise`` shows" in said


def test_what_fits_is_counted_with_prompt_and_reply() -> None:
    texts = {"alder": "word " * 1000, "birch": "word " * 5000}
    golds = [Gold(Question(name, "Which?", (name,)), "made-up") for name in ("alder", "birch", "*", "none")]
    prompt = next(w for w in range(1000, 2000) if fitting(golds, texts, count_tokens, w, reply=0))
    assert prompt > count_tokens(texts["alder"]) + 50
    for window, reply, fit in (
        (prompt + 96, 96, ["alder"]),
        (prompt + 95, 96, []),
        (9000, 96, ["alder", "birch", "*"]),
    ):
        assert [gold.question.query_id for gold in fitting(golds, texts, count_tokens, window, reply)] == fit


def test_prepare_writes_the_three_files(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    (data / "reports" / "docs" / "alder_2019.txt").write_text("Sales were $ 1,544 thousand.")
    assert main([str(data), str(tmp_path / "out")]) == 0
    assert len(read_gold(tmp_path / "out" / "gold.jsonl")) == 9
    assert (tmp_path / "out" / "questions.jsonl").read_text().count("\n") == 9
    assert (tmp_path / "out" / "questions_fit.jsonl").read_text().count("alder_2019") == 4
    assert main([str(tmp_path / "nowhere"), str(tmp_path / "out")]) == 2
