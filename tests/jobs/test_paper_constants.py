"""Each constant of the papers, read back from what runs have written: their journals, plans and contexts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.codec import decode
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Analysis, Plan
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import PAPER, endpoint
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow

WORKFLOW = {
    "extractive": "linear",
    "abstractive": "linear",
    "arithmetic": "extend",
    "multi-source": "split",
    "multi-bridge": "step",
}
WEIGHTS = {"exact": (3.0, 2.0), "semantic": (2.0, 3.0), "same": (1.0, 1.0)}

Steps = Mapping[tuple[str, str], dict[str, Any]]
"""The bodies of a question's journal by path and kind. A row of a retrieval: chunk_id, doc_id, granularity, ordinal,
start_char, end_char, n_tokens, table_id, score."""


def _by_question(journal: Sequence[Mapping[str, Any]]) -> dict[str, Steps]:
    steps: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for row in journal:
        steps.setdefault(row["query_id"], {})[row["path"], row["kind"]] = json.loads(row["body"])
    return dict(steps)


def test_the_papers_constants_are_what_was_done(run_rows: dict[str, Any]) -> None:
    """Chunk sizes, counts, weights, threshold and workflows."""
    seen: set[str] = set()
    for question in _by_question(run_rows["journal"]).values():
        analysed = question["analyze", "analysis"]
        assert len(analysed["chunk_ids"]) == 3
        analysis = decode(Analysis, json.dumps(analysed["analysis"]))
        plan = decode(Plan, json.dumps(question["plan", "plan"]))
        seen.add(analysis.type)
        primary = question["primary/retrieve", "retrieval"]["wanted"]
        assert primary["granularity"] == 150
        assert plan.workflow == WORKFLOW[analysis.type]
        contextual = analysis.type == "abstractive"
        assert plan.count == (8 if contextual else 5)
        assert plan.granularity == (150 if analysis.evidence else 400 if contextual else 256)
        assert (plan.exact_weight, plan.semantic_weight) == WEIGHTS[analysis.pattern]
        assert (plan.candidates, plan.threshold) == (20, 0.1)
        assert (plan.max_sub_questions, plan.sub_question_count) == (4, 5)
        retrievals = {path: body["wanted"] for (path, kind), body in question.items() if kind == "retrieval"}
        later = {path: wanted for path, wanted in retrievals.items() if path != "primary/retrieve"}
        assert {(wanted["granularity"], wanted["k"]) for wanted in later.values()} == {(plan.granularity, 20)}
        if plan.workflow == "split":
            assert set(later) == {"split/1/retrieve", "split/2/retrieve"}
        for body in (body for (_, kind), body in question.items() if kind == "retrieval"):
            for chunk in [*body["exact"], *body["semantic"]]:
                assert chunk[6] <= body["wanted"]["granularity"], "a chunk is longer than its granularity"
    assert seen == set(WORKFLOW)


def _stretched(rows: Sequence[Sequence[Any]]) -> dict[str, float]:
    scores = [row[-1] for row in rows]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return {row[0]: (row[-1] - low) / (high - low) if high > low else 1.0 for row in rows}


def _shown_characters(spans: Sequence[tuple[str, int, int]]) -> set[tuple[str, int]]:
    return {(doc_id, place) for doc_id, start, end in spans for place in range(start, end)}


def _context(row: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    return [(span["doc_id"], span["start_char"], span["end_char"]) for span in row["context"]]


def test_the_context_is_what_the_papers_arithmetic_says(run_rows: dict[str, Any]) -> None:
    """B.3 done by hand: min-max to 0..1 per side, 3:2 or 1:1, the best 5 or 8, none below a tenth of the first."""
    answers = {row["query_id"]: row for row in run_rows["answers"]}
    same, dropped = 0, 0
    for query_id, steps in _by_question(run_rows["journal"]).items():
        plan = steps["plan", "plan"]
        if plan["workflow"] != "linear":
            continue
        found = steps["retrieve", "retrieval"]
        pattern, kind = (steps["analyze", "analysis"]["analysis"][field] for field in ("pattern", "type"))
        exact_weight, semantic_weight = WEIGHTS[pattern]
        exact, semantic = _stretched(found["exact"]), _stretched(found["semantic"])
        score = {
            chunk_id: exact_weight * exact.get(chunk_id, 0.0) + semantic_weight * semantic.get(chunk_id, 0.0)
            for chunk_id in {**exact, **semantic}
        }
        best = sorted(score, key=lambda chunk_id: (-score[chunk_id], chunk_id))
        above = [chunk_id for chunk_id in best if score[chunk_id] >= 0.1 * score[best[0]]]
        chosen = above[: 8 if kind == "abstractive" else 5]
        chunks = {row[0]: row for row in [*found["exact"], *found["semantic"]]}
        selected = _shown_characters([(chunks[one][1], chunks[one][4], chunks[one][5]) for one in chosen])
        shown = _shown_characters(_context(answers[query_id]))
        assert selected <= shown
        if not any(chunks[chunk_id][7] for chunk_id in chosen):  # else a cut table is shown whole
            assert selected == shown
            same += 1
        dropped += len(above) < len(best)
    # Unequal weights may have no question in the sample: tests/answering/test_fuse.py has them.
    assert min(same, dropped) > 0, "the sample has a question for each case"


@pytest.mark.soak  # two more runs; tests/answering/test_strategies.py has what the baselines ask for
def test_the_baselines_constants_are_what_was_done(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    """Standard RAG: the 5 best dense chunks of 512 tokens. Long context over its window: as many of 200 as fit."""
    first = json.loads((sample_folder / "questions.jsonl").read_text().splitlines()[0])
    questions = tmp_path / "q.jsonl"
    questions.write_text(json.dumps(first))
    paths = {"std_rag": "retrieve", "long_context": "full_text/retrieve"}
    shown, ranked = {}, {}
    for (strategy, path), count, window in zip(paths.items(), (5, 200), (128_000, 2_500), strict=True):
        given = {**endpoint(reader), "llm.window": window, "policy": PAPER, "strategy": strategy}
        answer(sample_archive, questions, tmp_path / strategy, **given)
        folder = Folder.of(tmp_path / strategy)
        (row,) = table(folder, "answers")
        (steps,) = _by_question(table(folder, "journal")).values()
        plan, found = steps["plan", "plan"], steps[path, "retrieval"]
        assert json.loads(row["plan"]) == plan
        assert (plan["workflow"], plan["granularity"], plan["count"]) == ("linear", 512, count)
        assert (plan["exact_weight"], plan["semantic_weight"], plan["threshold"]) == (0.0, 1.0, 0.0)
        assert (found["wanted"]["granularity"], found["wanted"]["k"]) == (512, count)
        ranked[strategy] = [(row[1], row[4], row[5]) for row in found["semantic"]]
        shown[strategy] = _context(row)
    assert len(ranked["long_context"]) > 5
    assert shown["std_rag"] == ranked["std_rag"] == ranked["long_context"][:5]
    prefixes = [_shown_characters(ranked["long_context"][:n]) for n in range(1, len(ranked["long_context"]))]
    assert _shown_characters(shown["long_context"]) in prefixes, "the best dense chunks, and not the whole scope"
