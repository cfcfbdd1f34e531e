"""Self-training: only what the teacher is sure of, nothing that is known already, no type drowns the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from okralong.pipelines.answering.analysis import AnalysisInput
from okralong.pipelines.answering.analyzer import AnalyzerConfig
from okralong.pipelines.answering.analyzer_rules import KeywordRules
from okralong.pipelines.core.types import Analysis, InputError, Question
from okralong.pipelines.lab.training.analyzer_data import TrainingRow
from okralong.pipelines.lab.training.run import SelfTraining, self_labelled, unlabelled_questions

RULES = AnalyzerConfig(kind="rules")
ASKED = [
    *(Question(f"n{n}", f"What is the average rent of firm {n} from 2020 to 2022?") for n in range(6)),
    *(Question(f"c{n}", f"Which was founded first, Alder Works or Birch Mill {n}?") for n in range(3)),
    Question("odd", "Hm?"),
]


class Watched:
    """The keyword rules, which give about 0.7 to what a rule chose and less to what none did."""

    name = "watched"

    def __init__(self) -> None:
        self.asked: list[AnalysisInput] = []

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        self.asked += batch
        return KeywordRules().analyze(batch)


def test_sure_types_become_rows_and_known_questions_do_not() -> None:
    known = [
        TrainingRow("n0", "set all", ("d",), f"  {ASKED[0].question.upper()}", (), (), (), (), "arithmetic", None, None)
    ]
    teacher = Watched()
    said = {each.query_id: KeywordRules().analyze([AnalysisInput(each.question, ())])[0] for each in ASKED}
    sure = max(said["odd"].type_probabilities.values()) + 0.01
    rows = self_labelled(SelfTraining(teacher=RULES, above=sure, per_type=4), teacher, ASKED, known)
    assert not any(row.query_id in ("n0", "odd") for row in rows)
    assert ASKED[0].question not in {each.question for each in teacher.asked}
    assert Counter(row.type for row in rows) == {"arithmetic": 4, "multi-source": 3}
    assert all((row.passages, row.pattern, row.evidence) == ((), None, None) for row in rows)
    assert self_labelled(SelfTraining(teacher=RULES, above=0.999), teacher, ASKED, known) == []


def test_questions_come_from_the_rows_folder_or_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "unlabelled.jsonl").write_text('{"query_id": "a", "question": "Why?"}\n', encoding="utf-8")
    (tmp_path / "mine.csv").write_text("question\nWhere?\n", encoding="utf-8")
    assert [each.question for each in unlabelled_questions(SelfTraining(teacher=RULES), tmp_path)] == ["Why?"]
    mine = SelfTraining(teacher=RULES, questions=str(tmp_path / "mine.csv"))
    assert [each.question for each in unlabelled_questions(mine, tmp_path)] == ["Where?"]
    with pytest.raises(InputError, match="does not exist"):
        unlabelled_questions(SelfTraining(teacher=RULES), tmp_path / "nowhere")
