"""What a sweep may cost before anything is indexed: figures worked by hand from a policy's sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okralong.lab.datasets.pooling import Pooled, pool
from okralong.lab.datasets.wiki import read_hotpotqa
from okralong.lab.sweeps.config import CellPlan, SweepFolder, expand
from okralong.lab.sweeps.outline import CostEstimate, Outline, total
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import ConfigError
from tests.evaluation.evidence.town import rows
from tests.evaluation.sweeps.test_sweep_config import sweep

FILE = """
title: The town
side: test
overrides:
  analyzer.kind: rules
  llm.base_url: http://127.0.0.1:9/v1
  llm.model: gpt-4o-2024-08-06
  llm.window: 128000
sets: [{name: town, part: all, pool_tokens: 1000}]
methods: {okralong: {}, okralong_precise: {}, std_rag: {}, long_context: {}}
variants: {paper: {policy: policy/paper.yaml}}
"""


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Pooled:
    file = tmp_path_factory.mktemp("town") / "town.json"
    file.write_text(json.dumps(rows()), encoding="utf-8")
    data = read_hotpotqa(file, "all")
    return pool(data.items, data.texts, 900, 7, name="town")


def plans(tmp_path: Path, **given: object) -> dict[str, CellPlan]:
    return {plan.named.method: plan for plan in expand(sweep(FILE, **given), SweepFolder(tmp_path))}


def test_plain_methods_show_what_their_sizes_say(tmp_path: Path, pooled: Pooled) -> None:
    outline, planned = Outline(), plans(tmp_path)
    sizes = {document.doc_id: count_tokens(document.text) for document in pooled.documents}
    assert max(sizes.values()) < 5 * 512, "so Std-RAG shows the document, as long context does"
    whole = sum(sizes[doc_id] for question in pooled.questions for doc_id in question.doc_ids)
    for method in ("std_rag", "long_context"):
        found = outline.of(planned[method], pooled)
        assert (found.questions, found.calls) == (6, 6.0)
        assert found.prompt_tokens == pytest.approx(whole + 6 * outline.sizes.overhead)
        assert found.completion_tokens == pytest.approx(3 * 68 + 3 * 76, rel=0.03), "replies to bridges and comparisons"
        assert found.usd == pytest.approx((found.prompt_tokens * 2.5 + found.completion_tokens * 10) / 1e6)
        assert found.low_usd < found.usd < found.high_usd
        assert found.described


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ({"text": 2, "granularity": 40}, 2 * (40 + 40) + 8 * 6),
        ({"text": 0, "granularity": 40}, 10 * 6),
        ({"text": 0, "granularity": 400}, 3 * 6),  # a document of 900 tokens has no more chunks of that size
        ({"text": 2, "granularity": 40, "compression": False}, 2 * (40 + 40)),
        ({"text": 1, "max_tokens": 64}, 64 + 40),
    ],
)
def test_vectors_are_lines_beside_the_text(
    tmp_path: Path, pooled: Pooled, sizes: dict[str, object], shown: float
) -> None:
    outline = Outline()
    assert all(800 < count_tokens(document.text) <= 1200 for document in pooled.documents)
    variant = {"policy_overrides": {f"sara.{key}": value for key, value in sizes.items()}}
    found = outline.of(plans(tmp_path, methods={"sara": {}}, variants={"sized": variant})["sara"], pooled)
    assert found.prompt_tokens == pytest.approx(6 * (shown + outline.sizes.sara.overhead))
    assert found.completion_tokens == pytest.approx(6 * outline.sizes.sara.reply)
    assert found.described


def test_plain_text_under_a_budget_fills_it(tmp_path: Path, pooled: Pooled) -> None:
    outline = Outline()
    found = outline.of(plans(tmp_path, methods={"budget_rag": {}})["budget_rag"], pooled)
    assert found.prompt_tokens == pytest.approx(6 * (512 + outline.sizes.overhead))


def test_the_method_follows_the_types_of_the_questions(tmp_path: Path, pooled: Pooled) -> None:
    """Three bridges go step by step, three comparisons are split; all chunks together are the whole document."""
    outline, planned = Outline(), plans(tmp_path)
    priors = outline.priors
    plain, precise = (outline.of(planned[name], pooled) for name in ("okralong", "okralong_precise"))
    steps = sum((0.5 * 0.75) ** number for number in range(4))  # half of them answer, a quarter of the others give up
    assert plain.calls == pytest.approx(3 * (steps + 1 - steps / 2) + 3 * 2, rel=0.03)
    assert precise.calls == pytest.approx(plain.calls + 6 * priors.unanswerable.mean, rel=0.03)
    assert precise.prompt_tokens > plain.prompt_tokens


def test_a_full_text_after_the_chunks_counts_by_how_often_it_is_read(tmp_path: Path, pooled: Pooled) -> None:
    outline = Outline()
    planned = plans(tmp_path, methods={"std_rag": {}, "self_route": {}, "long_context": {}})
    plain, routed, whole = (outline.of(planned[name], pooled) for name in ("std_rag", "self_route", "long_context"))
    share = outline.priors.unanswerable.mean
    assert routed.calls == pytest.approx(plain.calls + 6 * share, rel=0.03)
    assert routed.prompt_tokens == pytest.approx(plain.prompt_tokens + share * whole.prompt_tokens, rel=0.03)
    assert routed.described


def test_a_tree_is_written_once_for_all_questions_of_a_cell(tmp_path: Path, pooled: Pooled) -> None:
    outline = Outline()
    usual, tree = outline.sizes.methods["raptor"], outline.sizes.trees["raptor"]
    read = sum(count_tokens(document.text) for document in pooled.documents)
    found = outline.of(plans(tmp_path, methods={"raptor": {}})["raptor"], pooled)
    assert found.prompt_tokens == pytest.approx(6 * usual.prompt_tokens + read * tree.prompt_tokens)
    assert found.calls == pytest.approx(6 * usual.calls + read * tree.calls)


def test_a_method_that_nobody_described_is_marked_and_the_embedded_model_is_free(
    tmp_path: Path, pooled: Pooled
) -> None:
    free = plans(tmp_path, overrides={"analyzer.kind": "rules"})
    assert Outline().of(free["std_rag"], pooled).usd == 0.0
    both = total(
        [
            CostEstimate(1, 1.0, 10.0, 1.0, 1.0, 0.6, 1.6),
            CostEstimate(2, 2.0, 20.0, 2.0, 2.0, 1.2, 3.2, described=False),
        ]
    )
    assert (both.questions, both.usd, both.high_usd, both.described) == (3, 3.0, pytest.approx(4.8), False)


def test_a_model_without_a_price_is_refused(tmp_path: Path, pooled: Pooled) -> None:
    unpriced = {"analyzer.kind": "rules", "llm.base_url": "http://127.0.0.1:9/v1", "llm.model": "llama3"}
    with pytest.raises(ConfigError, match="no price for the model 'llama3'"):
        Outline().of(plans(tmp_path, overrides=unpriced)["std_rag"], pooled)


def test_a_generator_that_analyzes_is_called_once_more(tmp_path: Path, pooled: Pooled) -> None:
    outline = Outline()
    heads, asked = (
        outline.of(plans(tmp_path, methods={"okralong": {}}, overrides__analyzer={"kind": kind})["okralong"], pooled)
        for kind in ("rules", "llm")
    )
    assert asked.calls == pytest.approx(heads.calls + 6, rel=0.02)
    assert asked.prompt_tokens > heads.prompt_tokens + 6 * outline.sizes.overhead
