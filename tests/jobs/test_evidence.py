"""``okralong evidence`` from a folder of public files to the report, with a set and a split of the user's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evaluation.evidence.town import write_town
from tests.jobs.conftest import call

pytestmark = pytest.mark.slow

SWEEP = """
title: The town
side: test
catalog: {data}/catalog.yaml
split: {data}/split/manifest.parquet
sets:
  - {{name: town, part: all, pool_tokens: 1000}}
methods:
  bm25: {{retriever: exact, granularity: 64, count: 2, counts: [1, 2, 8]}}
  dense: {{retriever: semantic, granularity: 64, count: 2, counts: [2]}}
  hybrid: {{retriever: reciprocal_rank, granularity: 64, count: 2, counts: [2, 4]}}
  gold:
    policy: {data}/policy.yaml
    analyzer: gold
    overrides: {{split.count: 2, factoid.count: 2}}
    scales: [0.5, 1.0]
  rules: {{policy: {data}/policy.yaml}}
  also: {{policy: {data}/policy.yaml, analyzer: mine}}
analyzers:
  mine: {{kind: rules}}
against: [bm25, hybrid]
pictured: [bm25, gold]
words: Six questions about mills and hills.
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """The town's files with a policy, and a split manifest that the command line made of them."""
    from okralong.pipelines.core.config import shipped_config

    folder = write_town(tmp_path / "data")
    (folder / "policy.yaml").write_text(shipped_config("policy/paper.yaml"), encoding="utf-8")
    options = ["--catalog", folder / "catalog.yaml", "--rules", folder / "rules.yaml"]
    code, said = call(monkeypatch, capsys, "split", folder, "--out", folder / "split", *options)
    assert code == 0, said
    return folder


def test_a_sweep_over_ones_own_set(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = tmp_path / "town.yaml"
    sweep.write_text(SWEEP.format(data=data), encoding="utf-8")
    arguments = ["evidence", sweep, "--data", data, "--work", tmp_path / "work", "--out"]
    code, said = call(monkeypatch, capsys, *arguments, tmp_path / "out")
    assert code == 0, said
    assert "town all: 6 questions, 2 documents" in said
    kept = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert sorted(kept) == ["town.json", "town.md", "town.svg"]
    assert not any(str(tmp_path).encode() in content for content in kept.values())
    figures = json.loads(kept["town.json"])
    assert figures["sweep"]["catalog"] == "catalog.yaml"
    (town,) = figures["sets"]
    assert (town["measure"], town["questions"], town["documents"]) == ("evidence", 6, 9)
    gold, bm25 = town["methods"]["gold"], town["methods"]["bm25"]
    assert gold["workflows"] == {"split": 3, "step": 3}
    assert gold["recall"]["value"] > bm25["recall"]["value"] > 0
    assert sorted(bm25["curve"]["recall"]) == bm25["curve"]["recall"]
    assert set(figures["overall"]) == {"bm25", "hybrid"}
    assert set(figures["overall"]["bm25"]) == {"dense", "hybrid", "gold", "rules", "also"}
    assert town["methods"]["also"] == town["methods"]["rules"]
    page = kept["town.md"].decode()
    assert "Six questions about mills and hills." in page
    assert "3 split, 3 step" in page
    assert kept["town.svg"].startswith(b"<?xml")

    vectors = sorted((tmp_path / "work" / "vectors").iterdir())
    (manifest,) = (tmp_path / "work" / "archives").glob("*/versions/000001.json")
    made = manifest.stat().st_mtime_ns
    assert json.loads(manifest.read_text())["embedding"]["precision"] in ("bfloat16", "float32")
    code, said = call(monkeypatch, capsys, *arguments, tmp_path / "again")
    assert code == 0, said
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == kept
    assert sorted((tmp_path / "work" / "vectors").iterdir()) == vectors
    assert manifest.stat().st_mtime_ns == made

    # The side of the file may be overridden, and what came of it stands beside the other.
    sweep.write_text(SWEEP.format(data=data).replace("side: test", "side: tune"), encoding="utf-8")
    code, said = call(monkeypatch, capsys, *arguments, tmp_path / "again", "--side", "test")
    assert code == 0, said
    other = (tmp_path / "again" / "town_test.md").read_text(encoding="utf-8")
    assert other == page.replace("town.yaml --data", "town.yaml --side test --data")
    code, said = call(monkeypatch, capsys, *arguments, tmp_path / "again", "--side", "tomorrow")
    assert code == 2, said
    assert "side = 'tomorrow'" in said


@pytest.mark.parametrize(
    ("change", "to", "says"),
    [
        ("{name: town", "{name: village", "has no village all; it has town all"),
        ("side: test", "side: tune", "no question on this side"),
        ("analyzer: mine", "analyzer: hers", "methods.also.analyzer = 'hers' is none of gold, mine, rules"),
        ("split.count: 2", "split.cuont: 2", "split.cuont is not a known key"),
        ("data}/split", "data}/none", "okralong split"),
    ],
)
def test_what_cannot_be_swept_is_said_before_anything_is_embedded(
    tmp_path: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: str,
    to: str,
    says: str,
) -> None:
    sweep = tmp_path / "town.yaml"
    assert change in SWEEP
    sweep.write_text(SWEEP.replace(change, to).format(data=data), encoding="utf-8")
    code, said = call(
        monkeypatch, capsys, "evidence", sweep, "--data", data, "--work", tmp_path / "work", "--out", tmp_path / "out"
    )
    assert code == 2, said
    assert says in said
    assert "Traceback" not in said
    assert not (tmp_path / "work").exists()


OWN = """
title: Ours
side: all
catalog: {data}/own.yaml
sets:
  - {{name: good, part: all}}
  - {{name: bad, part: all}}
methods:
  bm25: {{retriever: exact, granularity: 64, count: 1, counts: [1, 2]}}
  dense: {{retriever: semantic, granularity: 64, count: 1, counts: [1]}}
against: [bm25]
"""


def test_ones_own_sets_are_swept_whole_and_one_that_cannot_be_read_is_named(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("good", "bad"):
        (data / name / "documents").mkdir(parents=True)
        (data / name / "documents" / "alder.txt").write_text("Alder Ltd.\n\nThe rent is 12 crowns. It is due in May.")
    rows = [
        {"query_id": "rent", "question": "What is the rent?", "evidence": ["The rent is 12 crowns."]},
        {"query_id": "lost", "question": "Who is the owner?", "evidence": ["The owner is Ann."]},
    ]
    (data / "good" / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (data / "bad" / "q.jsonl").write_text(json.dumps({**rows[0], "doc_ids": "oak"}))
    (data / "own.yaml").write_text(
        "sources:\n"
        "  - {name: good, part: all, format: own, path: good/q.jsonl}\n"
        "  - {name: bad, part: all, format: own, path: bad/q.jsonl}\n"
        "  - {name: town, part: all, format: hotpotqa, path: town/questions.json}\n"
    )
    sweep = tmp_path / "ours.yaml"
    sweep.write_text(OWN.format(data=data), encoding="utf-8")
    arguments = ["evidence", sweep, "--data", data, "--work", tmp_path / "work", "--out", tmp_path / "out"]
    code, said = call(monkeypatch, capsys, *arguments)
    assert code == 0, said
    said = " ".join(said.split())
    assert "row 2: the field 'evidence' holds 'The owner is Ann.'" in said
    assert "bad all is left out of the sweep" in said
    assert "names 'oak'" in said
    page = (tmp_path / "out" / "ours.md").read_text(encoding="utf-8")
    assert "Side of the split: all." in page
    assert "Left out, since it could not be read: bad all." in page
    assert "## good all\n\n1 question on 1 source document; recall is evidence recall." in page
    assert str(tmp_path) not in page

    sweep.write_text(OWN.format(data=data).replace("name: bad", "name: town"), encoding="utf-8")
    code, said = call(monkeypatch, capsys, *arguments)
    assert code == 2, said
    assert "side: all takes sets whole, and town all is a public set" in " ".join(said.split())
