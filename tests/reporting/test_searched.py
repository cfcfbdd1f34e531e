"""What was searched for an answer that was not found: in a table, on the page and in the terminal."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.schemas import ANSWERS, JOURNAL
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.reporting.export import export_run
from okralong.pipelines.reporting.run import run_report
from okralong.pipelines.reporting.searched import searched
from okralong.pipelines.run.rows import table
from tests.archives.written import write_version

TEXT = "Sales of lamps were 1,544 crowns.\n\x0cThe chair is Ida Moss, who came in 1998.\n\x0cNo bond was issued."
FIRST, SECOND, THIRD = ((TEXT.index(words), TEXT.index(words) + 18) for words in ("Sales", "The chair", "No bond"))


def write_run(place: Path) -> Folder:
    """One question without an answer, whose two searches found three passages, of which two were read."""
    starts = (0, SECOND[0], THIRD[0])
    sections = [{"kind": "page", "name": str(number), "start_char": at} for number, at in enumerate(starts, start=1)]
    document: dict[str, Any] = {"doc_id": "report", "text": TEXT, "n_tokens": 9, "tables": [], "sections": sections}
    document |= {"sha256": "abc", "source_uri": "/reports/report.pdf"}
    archive = write_version(place / "archive", [document], [150], {"model": "m"}, fingerprint="made")
    run = Folder.of(place / "run")

    def hit(span: tuple[int, int], score: float) -> list[Any]:
        return [f"c-{span[0]}", "report", 150, 0, *span, 9, None, score]

    def retrieval(query: str, exact: list[list[Any]], semantic: list[list[Any]]) -> dict[str, Any]:
        return {"wanted": {"query": query, "granularity": 150, "k": 50}, "exact": exact, "semantic": semantic}

    read = hashlib.sha256(TEXT[slice(*SECOND)].encode()).hexdigest()[:16]
    bodies = [
        ("retrieval", retrieval("What was total revenue?", [hit(FIRST, 2.5)], [hit(FIRST, 0.4), hit(SECOND, 0.2)])),
        ("retrieval", retrieval("Were bonds issued?", [hit(FIRST, 1.5)], [hit(THIRD, 0.3)])),
        ("readings", {"wanted": {"query": "", "passages": [read]}, "readings": [[-3.0, 0.02, 0, 1, 0.5, []]]}),
    ]
    steps = [
        {"seq": seq, "query_id": "q", "path": f"step/{seq}", "sample": 0, "kind": kind, "body": json.dumps(body)}
        for seq, (kind, body) in enumerate(bodies)
    ]
    spans = [{"doc_id": "report", "start_char": start, "end_char": end} for start, end in (SECOND, FIRST)]
    row = {
        "query_id": "q",
        "question": "What was total revenue?",
        "status": "unanswerable",
        "answer": "",
        "cited": False,
    }
    rows = [row | {"doc_ids": ["report"], "citations": [], "context": spans}]
    rows.append({**rows[0], "query_id": "found", "status": "answered", "answer": "1,544"})
    run.at("journal").write_table("part-000000001.parquet", pa.Table.from_pylist(steps, schema=JOURNAL))
    run.at("answers").write_table("part-000000001.parquet", pa.Table.from_pylist(rows, schema=ANSWERS))
    begun = {"archive": f"{archive}@1", "archive_fingerprint": "made", "config": {}}
    run.write_bytes("run.json", json.dumps(begun).encode())
    return run


def test_what_was_searched_is_told_with_scores(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    found = searched(run, table(run, "answers"), Archive.open(f"{tmp_path / 'archive'}@1"))
    assert list(found) == ["q"], "only of what was not found"
    one = found["q"]
    assert one.queries == ["What was total revenue?", "Were bonds issued?"]
    assert one.terms == ["what", "total", "revenu", "were", "bond", "issu"]
    assert {"revenue", "net sales"} <= {name.casefold() for name in one.synonyms}
    assert (one.found, one.sections) == (3, ["report: page 2, page 1"])
    assert [(each.section, each.read, each.bm25, each.cosine, each.answerable) for each in one.nearest] == [
        ("page 2", True, None, 0.2, 0.02),
        ("page 1", True, 2.5, 0.4, None),
        ("page 3", False, None, 0.3, None),
    ]
    assert one.nearest[0].text == "The chair is Ida M"

    export_run(run, str(tmp_path / "answers.xlsx"))
    sheet = openpyxl.load_workbook(tmp_path / "answers.xlsx")["searched"]
    assert (sheet.max_row, [cell.value for cell in sheet[1]][:3]) == (4, ["query_id", "question", "queries"])
    details = [json.loads(each) for each in run_report(run, {}, details=10).details]
    told = {"searched" in each for each in details}
    assert told == {True, False}
    nearest = next(each["searched"]["nearest"] for each in details if "searched" in each)
    assert nearest[0] == ["report, page 2", "cosine 0.2, holds the answer 0.02, read", "The chair is Ida M"]
    shown = " ".join(CliRunner().invoke(app, ["show", run.path, "q"]).output.split())
    assert "searches: What was total revenue?; Were bonds issued?" in shown
    assert "[3] report, page 3: cosine 0.3, not read" in shown


def test_without_the_archive_places_and_scores_are_known(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    one = searched(run, table(run, "answers"), None)["q"]
    assert one.sections == [f"report: characters {SECOND[0]}-{SECOND[1]}, characters {FIRST[0]}-{FIRST[1]}"]
    assert [(each.text, each.cosine) for each in one.nearest] == [("", 0.2), ("", 0.4), ("", 0.3)]
