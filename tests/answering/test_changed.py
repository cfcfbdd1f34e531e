"""Which questions rest on a change of the archive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okralong.pipelines.archive.versions import VersionDiff
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import ArchiveError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.job import LocalStreams, run_index
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import prepare, rests_on_change, since_version
from tests.archives.nights import encoder, made_up, night

DIFF = VersionDiff(added=("2024_AAPL",), changed=("notes",), removed=("2023_old",))


@pytest.mark.parametrize(
    ("scope", "doc_ids", "wanted"),
    [
        ((), (), True),
        (("notes",), ("notes",), True),
        (("other",), ("other",), False),
        (("2024_*",), ("2024_AAPL", "2024_MSFT"), True),
        (("2024_MSFT", "other"), ("2024_MSFT", "other"), False),
        (("2023_*",), ("2023_new",), True),
        (("2023_old",), (), True),
        (("2023_o?d", "other"), ("other",), True),
        (("never",), (), False),
    ],
)
def test_a_question_rests_on_its_documents(scope: tuple[str, ...], doc_ids: tuple[str, ...], wanted: bool) -> None:
    assert rests_on_change(scope, doc_ids, DIFF) is wanted


def test_nothing_changed_nothing_is_asked() -> None:
    assert not rests_on_change((), (), VersionDiff())
    assert not rests_on_change(("a",), ("a",), VersionDiff())


def test_a_run_is_left_with_the_questions_that_rest_on_a_change(tmp_path: Path) -> None:
    place, questions = tmp_path / "archive", tmp_path / "questions.jsonl"
    sizes = IndexConfig(granularities=[512])
    first = {name: made_up(name) for name in ("2023_a", "2024_a", "2024_b")}
    night(place, first, config=sizes)
    night(place, {name: text for name, text in first.items() if name != "2023_a"} | {"2024_b": "Now."}, config=sizes)
    scopes = {"kept": ["2024_a"], "changed": ["2024_*"], "gone": ["2023_a"], "never": ["1999_x"], "whole": []}
    rows = [{"query_id": name, "question": "?", "doc_ids": scope} for name, scope in scopes.items()]
    questions.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    prepared = prepare(str(place), str(questions), load_config(RunConfig, "answer.yaml", {"strategy": "std_rag"}))
    assert prepared.archive.location == f"{place}@2"
    left, diff = since_version(prepared, 1)
    assert (diff.added, diff.changed, diff.removed) == ((), ("2024_b",), ("2023_a",))
    assert [one.question.query_id for one in left.questions] == ["changed", "whole"]
    assert [question.query_id for question, _ in left.unscoped] == ["gone"]
    assert since_version(prepared, 2)[0].questions == []
    with pytest.raises(ArchiveError, match="no version 9"):
        since_version(prepared, 9)


def test_a_filter_narrows_the_scope_and_rests_on_what_it_would_match_now(tmp_path: Path) -> None:
    sources, place, sidecar = tmp_path / "sources", tmp_path / "archive", tmp_path / "about.csv"
    sources.mkdir()

    def index(names: str, companies: str) -> None:
        for old in sources.iterdir():
            old.unlink()
        for name in names.split():
            (sources / f"{name}.txt").write_text(made_up(name))
        rows = (pair.split("=") for pair in companies.split())
        sidecar.write_text("file,company\n" + "".join(f"{name}.txt,{company}\n" for name, company in rows))
        config = IndexConfig(granularities=[512], metadata=str(sidecar))
        run_index(str(place), [str(sources)], config, lambda at, each: LocalStreams(at, each, encoder()))

    index("a b c d gone", "a=AMD b=AMD c=Intel d=Arm gone=Qualcomm")
    index("a b c d new", "a=AMD b=Nvidia c=Intel d=Arm new=Intel")
    rows = [
        {"query_id": "lost_one", "question": "?", "where": "company = 'AMD'"},
        {"query_id": "won_one", "question": "?", "where": "company = 'Intel'"},
        {"query_id": "as_before", "question": "?", "where": "company in ('AMD', 'Nvidia')"},
        {"query_id": "both", "question": "?", "where": "company like 'A%'", "doc_ids": ["d", "c"]},
        {"query_id": "apart", "question": "?", "where": "company = 'Arm'", "doc_ids": ["c"]},
        {"query_id": "went", "question": "?", "where": "company = 'Qualcomm'"},
        {"query_id": "never", "question": "?", "where": "company = 'Via'"},
        {"query_id": "no_column", "question": "?", "where": "firm = 'Via'"},
    ]
    prepared = prepare(str(place), rows, load_config(RunConfig, "answer.yaml", {"strategy": "std_rag"}))
    assert {one.question.query_id: one.doc_ids for one in prepared.questions} == {
        "lost_one": ("a",),
        "won_one": ("c", "new"),
        "as_before": ("a", "b"),
        "both": ("d",),
    }
    told = {question.query_id: why for question, why in prepared.unscoped}
    assert "matches 1 document, none of which is among the 1 that doc_ids names" in told["apart"]
    assert "the questions given, never: The filter \"company = 'Via'\" matches none of 5 documents" in told["never"]
    assert "names the column firm, which no document has" in told["no_column"]
    left, diff = since_version(prepared, 1)
    assert (diff.added, diff.changed, diff.removed) == (("new",), (), ("gone",))
    assert [one.question.query_id for one in left.questions] == ["lost_one", "won_one"]
    assert [question.query_id for question, _ in left.unscoped] == ["went"]
