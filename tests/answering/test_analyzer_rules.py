"""The rule analyzer on hand-written questions, most of them in the manner of annual reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, analyzer_keys, load_analyzer
from okralong.pipelines.answering.analyzers.rules import KeywordRules, covered_share
from okralong.pipelines.answering.analyzers.words import literal_tokens, names
from okralong.pipelines.core.config import parse_config
from okralong.pipelines.core.types import Analysis, ConfigError

QUESTIONS = {
    "extractive": [
        "Who is the chief executive of Alder Orchards?",
        "What was the net revenue of the cider division in 2023?",
        "When did Lantern Works open its office in Marrow Bay?",
        "Where is the company's head office?",
        "How many people did Skerry Ferries employ at the end of 2022?",
        "Which auditor signed the report for 2021?",
        "What dividend per share did the board propose?",
        "What interest rate does the bond due in 2030 carry?",
        "In which year was the Petrel built?",
        "Does the company own its factory in Port Ellery?",
    ],
    "arithmetic": [
        "What was the percentage change in revenue from 2021 to 2022?",
        "By how much did operating costs rise between 2020 and 2023?",
        "What is the average number of crossings per boat in 2023?",
        "How much more did Apples sell than Pears in 2022?",
        "What share of total revenue came from cider in 2023?",
        "What is the ratio of current assets to current liabilities in 2023?",
        "What was the difference between gross and net income?",
        "What is the total of lamps sold in 2022 and 2023 combined?",
        "What was the % growth in cells sold from 2022 to 2023?",
        "Calculate the operating margin of the ferry segment.",
    ],
    "multi-source": [
        "Which company had higher revenue in 2023, Alder Orchards or Lantern Works?",
        "Did both Alder Orchards and Skerry Ferries raise their dividend?",
        "Which of the two boats is older?",
        "Compare the head count of Alder Orchards with that of Lantern Works.",
        "Was the Petrel or the Gannet built first?",
        "Is the auditor of Lantern Works the same as the auditor of Skerry Ferries?",
        "Who has led their company longer, Mara Calder or Tobias Venn?",
        "Are Port Ellery and Marrow Bay both in the same county?",
        "What do the founders of Alder and Lantern have in common?",
        "Which segment grew faster in 2022, Apples or Pears?",
    ],
    "multi-bridge": [
        "Where was the founder of Alder Orchards born?",
        "What is the revenue of the company that acquired Lantern Works?",
        "Who leads the firm that built the Gannet?",
        "When was the person who founded Alder Orchards elected mayor?",
        "In which city did the director of the film about Tobias Venn study?",
        "What does the subsidiary that opened the office in Marrow Bay sell?",
        "Who is the paternal grandfather of Mara Calder?",
        "What is the nationality of the composer of the company's jingle?",
        "How many people work for the segment that lost the Petrel contract?",
        "Who audits the company whose factory stands in Port Ellery?",
    ],
    "abstractive": [
        "How does the company manage its exposure to exchange rates?",
        "Why did sales of pears fall?",
        "Summarise the risks that the board sees for the coming year.",
        "Describe the strategy for the cider division.",
        "What are the main reasons for the new segment structure?",
        "Explain how the pension obligation is valued.",
        "What factors affected the gross margin?",
        "How did the frost influence the outlook?",
        "Give an overview of the company's sustainability measures.",
        "What is the impact of the new press on the business?",
    ],
}

PASSAGE = "Mara Calder has led Alder Orchards since 2014. Revenue from cider was 1,480 thousand crowns in 2023."


def analyse(question: str, *passages: str) -> Analysis:
    [analysis] = KeywordRules().analyze([AnalysisInput(question, passages)])
    return analysis


@pytest.mark.parametrize(("expected", "question"), [(kind, text) for kind in QUESTIONS for text in QUESTIONS[kind]])
def test_type(expected: str, question: str) -> None:
    analysis = analyse(question)
    assert analysis.type == expected
    assert analysis.analyzer == "keyword-rules"
    # Rules know little: never certain, never excluding, but the chosen label leads clearly.
    assert 0.3 < analysis.type_probabilities[expected] < 0.8
    assert min(analysis.type_probabilities.values()) > 0.02


@pytest.mark.parametrize(
    ("question", "pattern"),
    [
        ("Who has led Alder Orchards since 2014?", "exact"),
        ('What does "Revenue from cider" mean?', "exact"),
        ("What is XQZT?", "semantic"),
        ("Which employees received remuneration abroad?", "semantic"),
        ("what was the revenue from cider sales?", "same"),
    ],
)
def test_pattern(question: str, pattern: str) -> None:
    analysis = analyse(question, PASSAGE)
    assert analysis.pattern == pattern
    assert analysis.pattern_probabilities[pattern] == pytest.approx(0.7)


def test_evidence_follows_the_words_that_are_covered() -> None:
    assert covered_share("Who has led Alder Orchards?", [PASSAGE]) == 1
    assert covered_share("When do penguins moult?", [PASSAGE]) == 0
    full, none = analyse("Who leads Alder Orchards?", PASSAGE), analyse("When do penguins moult?", PASSAGE)
    assert full.evidence
    assert not none.evidence
    assert 0.5 < full.evidence_probability <= 0.8
    assert 0.2 <= none.evidence_probability < 0.5


@pytest.mark.parametrize("question", ["", "?", "the of and", "\x00\x00", "ⅷ 金 ☃", "A" * 20_000])
def test_odd_questions_get_an_answer_too(question: str) -> None:
    analysis = analyse(question)
    assert analysis.type == "extractive"
    assert not analysis.evidence


def test_names_and_literals() -> None:
    assert names("Which is larger, University of New Haven or Port Ellery's harbour?") == [
        "University of New Haven",
        "Port Ellery",
    ]
    assert names("What did Mara Calder say?") == ["Mara Calder"]
    assert set(literal_tokens('Did "late frost" cost AAPL 1,250.5 in Q3?')) >= {"late frost", "AAPL", "1,250.5", "Q3"}


def test_a_kind_or_a_trained_folder_can_be_named(tmp_path: Path) -> None:
    assert analyzer_keys("rules") == {"analyzer.kind": "rules"}
    with pytest.raises(ConfigError, match=r"neither a kind \(heads, label_scorer, rules, llm, labels\) nor a folder"):
        analyzer_keys(str(tmp_path))
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "org/model"}', encoding="utf-8")
    adapter = {"analyzer.adapter": str(tmp_path)}
    assert analyzer_keys(str(tmp_path)) == {"analyzer.kind": "label_scorer", "analyzer.model": "org/model", **adapter}
    (tmp_path / "heads.json").write_text("{}", encoding="utf-8")
    assert analyzer_keys(str(tmp_path)) == {"analyzer.kind": "heads", **adapter}


@pytest.mark.slow  # imports transformers
def test_config_chooses_the_rules_and_refuses_nonsense() -> None:
    config = parse_config(AnalyzerConfig, "kind: rules", "answer.yaml")
    assert load_analyzer(config).name == "keyword-rules"
    refused = ("kind: magic", "kind: rules\nadapter: some/folder", "max_batch: 0", "kind: heads\nadapter: null")
    for text in (*refused, "kind: label_scorer\nmodel: other/model"):
        with pytest.raises(ConfigError, match=r"answer\.yaml"):
            parse_config(AnalyzerConfig, text, "answer.yaml")
    missing = AnalyzerConfig(kind="label_scorer", model="/no/such/folder", adapter=None)
    with pytest.raises(ConfigError, match=r"no/such/folder.*rules"):
        load_analyzer(missing)
