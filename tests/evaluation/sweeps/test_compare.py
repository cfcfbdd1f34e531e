"""Two runs compared: what is better and worse, what is refused, and when a nightly check fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okralong.lab.sweeps.comparison import compare_runs, regression
from okralong.pipelines.core.types import ConfigError, InputError
from tests.archives.written import write_version
from tests.evaluation.sweeps.invented_run import usual_run, write_questions
from tests.jobs.conftest import call


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A run, the same a night later with the sales wrong, and the gold."""
    texts = {"alder": "Sales were $ 1,544 in 2019. The chair is Ida Moss.", "birch": "Costs were 1,241 and 303."}
    rows = [{"doc_id": doc_id, "text": text, "n_tokens": 1, "tables": []} for doc_id, text in texts.items()]
    archive = write_version(tmp_path / "archive", rows, [512], {"model": "m"})
    for name, sales in (("a", "1544"), ("b", "1,100")):
        run = usual_run(tmp_path / name, sales)
        run.write_bytes("run.json", json.dumps({"archive": str(archive)}).encode())
    return tmp_path / "a", tmp_path / "b", write_questions(tmp_path)


def test_differences_are_the_second_less_the_first(runs: tuple[Path, Path, Path]) -> None:
    first, second, questions = map(str, runs)
    found = {each.metric: each for each in compare_runs(first, second, questions)}
    f1 = found["f1"]
    assert (f1.first, f1.second) == (pytest.approx((1 + 2 / 3) / 2), pytest.approx((0 + 2 / 3) / 2))
    assert (f1.difference, f1.n) == (pytest.approx(-0.5), 2)
    assert (found["evidence_recall"].difference, found["weighted_tokens"].difference) == (0.0, 0.0)
    assert "judge" not in found
    assert f1.worse_by() == pytest.approx(0.5)


def test_a_regression_is_beyond_its_bound_whichever_way_is_worse(runs: tuple[Path, Path, Path]) -> None:
    first, second, questions = map(str, runs)
    worse = compare_runs(first, second, questions)
    assert regression(worse, "f1", 0.49) is not None
    assert regression(worse, "f1", 0.51) is None
    assert regression(compare_runs(second, first, questions), "f1", 0.0) is None, "better is never a regression"
    assert regression(worse, "weighted_tokens", 0.0) is None
    with pytest.raises(ConfigError, match="takes f1, em"):
        regression(worse, "accuracy", 0.1)
    with pytest.raises(ConfigError, match="have no judge"):
        regression(worse, "judge", 0.1)


def test_runs_over_other_questions_are_refused(runs: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, second, questions = map(str, runs)
    with pytest.raises(InputError, match="--questions"):
        compare_runs(first, second)
    (tmp_path / "c").mkdir()
    with pytest.raises(InputError, match="not a run folder"):
        compare_runs(first, str(tmp_path / "c"), questions)
    few = tmp_path / "few.jsonl"
    few.write_text('{"query_id": "late", "question": "Late?"}\n')
    with pytest.raises(InputError, match="finished 0 questions"):
        compare_runs(first, second, str(few))


def test_cells_of_a_sweep_know_their_questions(runs: tuple[Path, Path, Path]) -> None:
    first, second, questions = runs
    for run in (first, second):
        (run / "cell.json").write_text(json.dumps({"questions": f"../{questions.name}"}))
    assert compare_runs(str(first), str(second)) == compare_runs(str(first), str(second), str(questions))


def test_the_command_is_a_nightly_check(
    runs: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, questions = runs
    given = ["compare", first, second, "--questions", questions]
    code, said = call(monkeypatch, capsys, *given)
    assert (code, "-0.500" in said) == (0, True)
    code, said = call(monkeypatch, capsys, *given, "--metric", "f1", "--worse-than", "0.02")
    assert code == 1
    assert "regression: f1 is worse by 0.5, beyond the bound of 0.02" in said
    code, said = call(monkeypatch, capsys, *given, "--metric", "em", "--worse-than", "0.6")
    assert (code, "em is not worse by more than 0.6" in said) == (0, True)


def test_what_neither_was_asked_halves_no_difference(runs: tuple[Path, Path, Path]) -> None:
    first, second, questions = map(str, runs)
    (tokens,) = [e for e in compare_runs(first, second, questions) if e.metric == "weighted_tokens"]
    assert (tokens.first, tokens.n) == (140, 2), "the costs were over_budget in both: 280 and 0 of what was asked"


def test_runs_without_gold_answers_are_compared_by_the_rest(
    runs: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, questions = runs
    questions.write_text('{"query_id": "sales", "question": "Sales?"}\n{"query_id": "chair", "question": "Chair?"}\n')
    given = ["compare", first, second, "--questions", questions]
    code, said = call(monkeypatch, capsys, *given)
    assert (code, "weighted_tokens" in said) == (0, True)
    code, said = call(monkeypatch, capsys, *given, "--worse-than", "0.1")
    assert (code, "have no f1" in said) == (2, True)
