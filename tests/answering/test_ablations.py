"""What ablations change: given labels, labels corrupted on purpose, one retriever alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from okralong.lab.sweeps.material import write_labels
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.analyzer import (
    AnalyzerConfig,
    CorruptConfig,
    Corrupted,
    GivenLabels,
    load_analyzer,
)
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.answering.organizer import fusion_weights, organize
from okralong.pipelines.core.types import Analysis, ConfigError, Pattern
from okralong.pipelines.methods.registry import describe
from okralong.pipelines.run.config import fingerprint
from tests.fakes.tools import analysis, paper_policy

ASKED = [AnalysisInput(f"What was the revenue in {1900 + n}?", (), query_id=f"q{n}") for n in range(600)]


def labels(said: Analysis) -> tuple[Any, ...]:
    return said.type, said.pattern, said.evidence


def wrong(share: float, seed: int = 7) -> set[tuple[int, int]]:
    """Which labels (question, field) differ from the rules'."""
    right = KeywordRules().analyze(ASKED)
    said = Corrupted(KeywordRules(), share, seed).analyze(ASKED)
    return {
        (number, field)
        for number, (one, other) in enumerate(zip(right, said, strict=True))
        for field in range(3)
        if labels(one)[field] != labels(other)[field]
    }


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
def test_so_many_labels_are_wrong_and_always_the_same(share: float) -> None:
    found = wrong(share)
    assert len(found) / (3 * len(ASKED)) == pytest.approx(share, abs=0.03)
    assert found == wrong(share)
    assert found != wrong(share, seed=8)
    assert found > wrong(share / 2), "what is wrong at a share is wrong at every higher one"


def test_none_and_all() -> None:
    assert wrong(0.0) == set()
    assert len(wrong(1.0)) == 3 * len(ASKED)


def test_a_changed_label_is_given_as_sure_and_the_others_keep_their_probabilities() -> None:
    (right,), (said,) = KeywordRules().analyze(ASKED[:1]), Corrupted(KeywordRules(), 1.0, 7).analyze(ASKED[:1])
    assert said.type_probabilities[said.type] == 1.0
    assert said.evidence_probability == float(not right.evidence)
    assert said.analyzer == "keyword-rules, 100% corrupted (seed 7)"
    (kept,) = Corrupted(KeywordRules(), 0.0, 7).analyze(ASKED[:1])
    assert kept.type_probabilities == pytest.approx(right.type_probabilities)
    assert kept.evidence_probability == pytest.approx(right.evidence_probability)


def test_labels_come_from_a_file_by_query_id(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    write_labels(file, [("q0", ("multi-bridge", "exact", True)), ("q1", ("abstractive", "same", False))])
    config = AnalyzerConfig(kind="labels", labels=str(file), corrupt=CorruptConfig(share=0.0))
    said = load_analyzer(config).analyze(ASKED[:2])
    assert [labels(each) for each in said] == [("multi-bridge", "exact", True), ("abstractive", "same", False)]
    with pytest.raises(KeyError):
        GivenLabels.load(file).analyze(ASKED[2:3])


def test_labels_decide_a_run_by_their_content(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    write_labels(file, [("q0", ("multi-bridge", "exact", True))])
    config = AnalyzerConfig(kind="labels", labels=str(file))
    before = config.identity()
    write_labels(file, [("q0", ("multi-bridge", "exact", False))])
    assert config.identity() != before
    spoiled = AnalyzerConfig(kind="rules", corrupt=CorruptConfig(share=0.1))
    assert spoiled.identity()["corrupt"] == {"share": 0.1, "seed": 7}


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="belong together"):
        AnalyzerConfig(kind="labels")
    with pytest.raises(ValidationError, match="belong together"):
        AnalyzerConfig(kind="rules", labels="x.jsonl")
    with pytest.raises(ValidationError, match="corrupt"):
        AnalyzerConfig(kind="llm", corrupt=CorruptConfig(share=0.1))
    with pytest.raises(ConfigError, match="does not exist"):
        AnalyzerConfig(kind="labels", labels=str(tmp_path / "none")).identity()
    (tmp_path / "bad.jsonl").write_text(
        json.dumps({"query_id": "a", "type": "odd", "pattern": "same", "evidence": True})
    )
    with pytest.raises(ConfigError, match="line 1 has no labels"):
        GivenLabels.load(tmp_path / "bad.jsonl")


def test_one_retriever_alone() -> None:
    dense = paper_policy(fusion__only="semantic")
    for pattern in get_args(Pattern):
        assert fusion_weights(pattern, dense) == (0.0, 1.0)
    plan = organize(analysis("extractive", pattern="exact"), paper_policy(fusion__only="exact"), precise=False)
    assert (plan.exact_weight, plan.semantic_weight) == (1.0, 0.0)


def test_runs_from_before_go_on() -> None:
    """A policy that does not say ``only`` has the fingerprint that it had when nobody could."""
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.run.config import RunConfig

    config = load_config(RunConfig, "answer.yaml", {"analyzer.kind": "rules"})
    plain, dense = paper_policy(), paper_policy(fusion__only="semantic")
    first, second = (fingerprint(config, each, describe("okralong", each), {}) for each in (plain, dense))
    assert first != second
