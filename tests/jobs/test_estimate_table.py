"""An estimate on the terminal, and the calls of the command that are refused. Nothing here starts Ray."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from okralong.jobs.estimate import EstimateResult, print_estimate
from okralong.pipelines.run.estimate import Figures, Range, StrategyEstimate
from tests.jobs.conftest import call


def figures(questions: int, scale: float, batch: bool = True) -> Figures:
    """Every figure ``scale`` times a round one, give or take a tenth."""

    def around(value: float) -> Range:
        return Range(0.9 * scale * value, scale * value, 1.1 * scale * value)

    dollars = around(4.0)
    tokens = around(1_500_000), Range(0.0, 0.0, 0.0), around(40_000), around(1_660_000)
    return Figures(questions, *tokens, dollars, around(2.0) if batch else None)


def page(result: EstimateResult) -> str:
    printed = io.StringIO()
    print_estimate(Console(file=printed), result)
    return " ".join(printed.getvalue().split())


def test_strategies_stand_side_by_side_as_a_whole_by_type_and_by_workflow() -> None:
    def of(scale: float, problems: dict[str, str] | None = None) -> StrategyEstimate:
        parts = {"extractive": figures(700, 0.7 * scale), "multi-bridge": figures(300, 0.3 * scale)}
        ways = {"linear": figures(700, 0.7 * scale), "step": figures(300, 0.3 * scale)}
        return StrategyEstimate(figures(1000, scale), parts, ways, problems or {})

    problems = {f"q{number}": "no room" for number in range(7)}
    strategies = {"okralong": of(1.0), "std_rag": of(2.0, problems), "long_context": of(20.0)}
    said = page(
        EstimateResult("gpt-4o", 1000, 2, 10, 0.0421, strategies, {"old": "no chunks"}, ("a note",), "no more money", 3)
    )
    for words in (
        "1,000 questions to gpt-4o",
        "all (1,000) │ okralong │ 1.5M [1.35M, 1.65M] │ 40k [36k, 44k] │ 1.66M [1.49M, 1.83M]",
        "$4.0000 [3.6000, 4.4000] │ $2.0000 [1.8000, 2.2000]",
        "long_context │ 30M",
        "$80.00 [72.00, 88.00]",
        "extractive (700) │ okralong",
        "step workflow (300) │ okralong",
        "90% of the simulated runs lie in this range",
        "10 of the questions are already answered; the figures include their $0.0421",
        "- a note",
        "- old is not shown: no chunks",
        "- 2 rows cannot be asked",
        "- std_rag, q4: no room",
        "- std_rag: 2 more questions cannot be asked",
        "stopped: no more money",
    ):
        assert words in said, words
    assert "q5: no room" not in said
    assert "cached" not in said


def test_cached_tokens_are_shown_where_a_pilot_saw_any() -> None:
    warm = replace(figures(10, 0.001), cached_tokens=Range(100.0, 200.0, 300.0))
    said = page(EstimateResult("m", 10, 0, 5, 0.1, {"okralong": StrategyEstimate(warm, {}, {}, {})}, {}))
    assert "prompt ┃ cached ┃ completion" in said
    assert "│ 200 [100, 300] │" in said


def test_all_ways_to_pay_stand_side_by_side() -> None:
    plain = figures(10, 0.001)
    usd = replace(plain, flex_usd=Range(0.001, 0.002, 0.003), warm_usd=Range(0.002, 0.0025, 0.003))
    estimates = {"long_context": StrategyEstimate(usd, {}, {}, {}), "okralong": StrategyEstimate(plain, {}, {}, {})}
    said = page(EstimateResult("m", 10, 0, 0, 0.0, estimates, {}))
    assert "real time ┃ prefixes cached ┃ flex ┃ batch" in said
    assert "$0.0025 [0.0020, 0.0030] │ $0.0020 [0.0010, 0.0030] │ $0.0020" in said
    assert "$0.0040 [0.0036, 0.0044] │ $0.0040 [0.0036, 0.0044] │ - │ $0.0020" in said


def test_a_price_without_a_batch_shows_none() -> None:
    alone = StrategyEstimate(figures(3, 0.001, batch=False), {}, {}, {})
    said = page(EstimateResult("mine", 3, 0, 0, 0.0, {"okralong": alone}, {}))
    assert "$0.0040 [0.0036, 0.0044] │ -" in said
    assert "already answered" not in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{tmp}/archive", "--questions", "q"], "Run okralong index"),
        (["{tmp}/archive", "--questions", "q", "--pilot", "5"], "Name the folder with --run"),
        (["{tmp}/archive", "--questions", "q", "--tag", "mine"], "takes NAME=VALUE"),
        (["{tmp}/archive", "--questions", "q", "--strategy", "guess"], "no strategy 'guess'"),
    ],
)
def test_wrong_calls_are_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    says: str,
) -> None:
    code, said = call(monkeypatch, capsys, "estimate", *(argument.format(tmp=tmp_path) for argument in arguments))
    assert code == 2, said
    assert says in said
    assert "Traceback" not in said
