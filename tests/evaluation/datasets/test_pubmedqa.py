"""PubMedQA: an abstract by its sections, the results as evidence, a decision as the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.papers import read_pubmedqa
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, shown


def abstract(**changes: Any) -> dict[str, Any]:
    return {
        "QUESTION": "Does tea help?",
        "CONTEXTS": ["Tea is drunk.", "We asked 12 people.", "Nine slept well. "],
        "LABELS": ["BACKGROUND", "METHODS", "RESULTS"],
        "final_decision": "maybe",
        "LONG_ANSWER": "Tea may help.",
        **changes,
    }


def test_the_sections_are_lines_and_the_results_are_evidence(tmp_path: Path) -> None:
    data = read_pubmedqa(json_file(tmp_path / "l.json", {"123": abstract()}), "labelled")
    (item,), (text,) = data.items, data.texts.values()
    assert text.text == "BACKGROUND: Tea is drunk.\nMETHODS: We asked 12 people.\nRESULTS: Nine slept well."
    assert shown(data, item) == ["RESULTS: Nine slept well."]
    assert item.documents == (text.document,) == ("123",)
    question = item.gold.question
    assert (question.query_id, question.answers, question.type) == ("pubmedqa-123", ("maybe",), "extractive")
    assert item.gold.parts == ()


@pytest.mark.parametrize(
    ("labels", "evidence"),
    [
        (["AIM", "METHODS AND RESULTS", "CONCLUSION"], ["METHODS AND RESULTS: b", "CONCLUSION: c"]),
        (["AIM", "SETTING", "UNLABELLED"], ["AIM: a", "SETTING: b", "UNLABELLED: c"]),
    ],
)
def test_what_was_found_is_evidence_or_else_every_section(
    tmp_path: Path, labels: list[str], evidence: list[str]
) -> None:
    row = abstract(LABELS=labels, CONTEXTS=["a", "b", "c"])
    data = read_pubmedqa(json_file(tmp_path / "l.json", {"123": row}), "labelled")
    assert shown(data, data.items[0]) == evidence


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"LABELS": ["RESULTS"]}, "'CONTEXTS' has 3 sections, and LABELS 1"),
        ({"final_decision": "perhaps"}, "'final_decision' is 'perhaps' and not yes, no or maybe"),
    ],
)
def test_mistakes_are_named_by_the_pubmed_id(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=f"abstract 123: the field {why}"):
        read_pubmedqa(json_file(tmp_path / "l.json", {"123": abstract(**changes)}), "labelled")
