"""Baselines in real runs: what they keep, what they pay once, and what stops them."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import okralong
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.schemas import ARTIFACTS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_ENDPOINT, ConfigError
from okralong.pipelines.methods.adaptive_rag import COMPLEXITY_INSTRUCTIONS as COMPLEXITY
from okralong.pipelines.methods.compact import INSTRUCTIONS as COMPRESS
from okralong.pipelines.methods.flare import INSTRUCTIONS as SENTENCE
from okralong.pipelines.methods.graphrag.build import EXTRACT_INSTRUCTIONS as EXTRACT
from okralong.pipelines.methods.graphrag.build import REPORT_INSTRUCTIONS as REPORT
from okralong.pipelines.methods.instructrag import SYNTHESIS_INSTRUCTIONS as SYNTHESIS
from okralong.pipelines.methods.raptor import INSTRUCTIONS as SUMMARIZE
from okralong.pipelines.run.rows import artifacts_taken, purge_run, table
from tests.archives.nights import words_in
from tests.fakes.openai_server import FakeOpenAI, Messages
from tests.fakes.tiny_llama import write_tiny_llama
from tests.jobs.conftest import PASSAGE, always, call, endpoint, quoting
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow


def summarises(messages: Messages) -> bool:
    return messages[0]["content"] == SUMMARIZE


def reasons(messages: Messages) -> bool:
    return SENTENCE in messages[0]["content"]


def doubtful(messages: Messages) -> str:
    """A fact first, then the conclusion; every token of both has the probability exp(-0.25), about 0.78."""
    return "So the answer is: apples." if "(none)" not in messages[-1]["content"] else "It grows apples. Or so."


def classifies(messages: Messages) -> bool:
    return messages[0]["content"] == COMPLEXITY


def knows(messages: Messages) -> bool:
    return messages[0]["content"].startswith("You answer questions from what you know.")


def compresses(messages: Messages) -> bool:
    return COMPRESS in messages[0]["content"]


def by_length(messages: Messages) -> str:
    """A, B and C in turns, so that every way is gone."""
    return "ABC"[len(messages[-1]["content"]) % 3]


def growing(messages: Messages) -> str:
    """Complete at the second summary."""
    done = "Summary so far:" in messages[-1]["content"]
    return (
        f"Summary: It grows apples.\nEvaluation: {'[COMPLETE] all is there' if done else '[INCOMPLETE] of what else'}"
    )


def extracts(messages: Messages) -> bool:
    return messages[0]["content"] == EXTRACT


def reports(messages: Messages) -> bool:
    return messages[0]["content"] == REPORT


def explains(messages: Messages) -> bool:
    return messages[0]["content"] == SYNTHESIS


FOUND = (
    "Entity: the board | organisation | it met\nEntity: the mill | place | old\n"
    "Relation: the board | the mill | runs it | 6"
)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    rules: list[Any] = [
        (extracts, FOUND),
        (reports, "Title: The mill\nRating: 6\nReport: The board runs the mill."),
        (explains, "Passage 1 names it."),
        (summarises, "The report tells of revenue, boards and orchards."),
        (reasons, doubtful),
        (classifies, by_length),
        (compresses, growing),
        (knows, "Answer: apples"),
        (always, quoting),
    ]
    with FakeOpenAI(rules=rules, models=["gpt-4o-2024-08-06"]) as running:
        yield running


@pytest.fixture
def few(sample_folder: Path, tmp_path: Path) -> Path:
    """Four questions."""
    file = tmp_path / "few.jsonl"
    file.write_text("".join((sample_folder / "questions.jsonl").read_text().splitlines(keepends=True)[:4]))
    return file


def mine(archive: Path, folder: Path, name: str = "archive") -> Path:
    """A copy of an archive: what these runs have written is kept with it."""
    return Path(shutil.copytree(archive, folder / name))


def test_raptor_writes_each_summary_once_for_all_questions(
    sample_archive: Path,
    few: Path,
    tmp_path: Path,
    server: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = answer(mine(sample_archive, tmp_path), few, tmp_path / "first", strategy="raptor", **endpoint(server))
    assert result.statuses == {"answered": 4}
    ledger = table(Folder.of(tmp_path / "first"), "ledger")
    made = [row for row in ledger if row["query_id"].startswith("artifact/raptor/")]
    assert {row["role"] for row in made} == {"summarize"}
    assert {row["status"] for row in ledger} == {"ok"}, "each event loop has connections of its own"
    assert max(Counter((row["query_id"], row["path"]) for row in made).values()) == 1
    assert len([one for one in server.received if summarises(one.messages)]) == len(made) >= 1
    answers = table(Folder.of(tmp_path / "first"), "answers")
    assert {row["calls"] for row in answers} == {1}, "a question pays for its own calls"
    assert sum(row["cost_usd"] for row in answers) < sum(row["cost_usd"] for row in ledger)
    assert server.bill_usd == pytest.approx(sum(row["cost_usd"] for row in ledger))
    code, said = call(monkeypatch, capsys, "show", tmp_path / "first", answers[0]["query_id"], "--all")
    assert code == 0
    assert "choose: found locally" in said
    code, said = call(monkeypatch, capsys, "show", tmp_path / "first", made[0]["query_id"])
    assert code == 0
    assert "The report tells of revenue" in said
    # Another run takes the trees over: the same clusters, so the same requests.
    asked = len(server.received)
    shared = {"replies_from": [str(tmp_path / "first")]}
    other = mine(sample_archive, tmp_path, "other")  # which keeps no trees
    answer(other, few, tmp_path / "second", strategy="raptor", **shared, **endpoint(server))
    assert len(server.received) == asked


@pytest.mark.parametrize(
    ("strategy", "step"), [("raptor", "tree"), pytest.param("graphrag", "graph", marks=pytest.mark.soak)]
)
def test_what_a_run_had_written_is_kept_with_the_archive(
    strategy: str,
    step: str,
    sample_archive: Path,
    few: Path,
    tmp_path: Path,
    server: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive = mine(sample_archive, tmp_path)
    told = {"strategy": strategy, **endpoint(server)}
    assert answer(archive, few, tmp_path / "first", **told).statuses == {"answered": 4}
    first = table(Folder.of(tmp_path / "first"), "ledger")
    made = [row for row in first if row["query_id"].startswith(f"artifact/{strategy}/")]
    cost = sum(row["cost_usd"] for row in made)
    documents = {row["query_id"] for row in made}
    assert cost > 0
    # Another run pays for its answers alone, and says what it did not have to pay for.
    bill = server.bill_usd
    second = answer(archive, few, tmp_path / "second", **told)
    assert second.statuses == {"answered": 4}
    ledger = table(Folder.of(tmp_path / "second"), "ledger")
    statuses = {row["query_id"]: row["status"] for row in table(Folder.of(tmp_path / "second"), "answers")}
    assert {row["query_id"] for row in ledger} == set(statuses)
    assert server.bill_usd - bill == pytest.approx(sum(row["cost_usd"] for row in ledger))
    taken, unkept = artifacts_taken(Folder.of(tmp_path / "second"))
    assert {each.query_id for each in taken} == documents
    assert sum(each.expense.calls for each in taken) == len(made)
    assert sum(each.expense.cost_usd for each in taken) == pytest.approx(cost)
    assert unkept == []
    totals = (Folder.of(tmp_path / "second").read_manifest() or {})["totals"]
    assert totals["artifacts_taken"] == len(documents)
    assert totals["artifacts_taken_usd"] == pytest.approx(cost)
    code, said = call(monkeypatch, capsys, "show", tmp_path / "second")
    assert code == 0
    assert f"{len(documents)} summaries or graphs of documents were reused" in said
    assert f"cost had been ${cost:.4f}" in said
    answers = [[row["answer"] for row in table(Folder.of(tmp_path / run), "answers")] for run in ("first", "second")]
    assert sorted(answers[0]) == sorted(answers[1])
    # Another generator's are its own, and an archive that cannot be written leaves them with the run.
    shutil.rmtree(archive / "artifacts")
    (archive / "artifacts").write_text("nothing can be kept here")
    asked = len(server.received)
    answer(archive, few, tmp_path / "third", **told, **{"llm.seed": 11})
    assert len(server.received) - asked == len(first)
    _, unkept = artifacts_taken(Folder.of(tmp_path / "third"))
    assert len(unkept) == len(documents)
    code, said = call(monkeypatch, capsys, "show", tmp_path / "third")
    assert f"{len(documents)} summaries or graphs of documents were not saved in the archive" in said


def retold(messages: Messages) -> str:
    """A summary that quotes the first words of its passages."""
    shown = PASSAGE.search(messages[-1]["content"])
    assert shown
    return " ".join(re.findall("[A-Za-z]+", shown[1])[:9])


def test_purge_takes_a_tree_that_the_archive_had_out_of_a_run(
    sample_archive: Path, few: Path, tmp_path: Path, server: FakeOpenAI
) -> None:
    server.rules.insert(0, (summarises, retold))
    archive, run = mine(sample_archive, tmp_path), tmp_path / "second"
    for folder in (tmp_path / "first", run):
        answer(archive, few, folder, strategy="raptor", **endpoint(server))
    kept = [row for at in (archive / "artifacts").iterdir() for row in Folder.of(at).read_tables(ARTIFACTS).to_pylist()]
    taken = {each.query_id for each in artifacts_taken(Folder.of(run))[0]}
    assert taken == {f"artifact/raptor/{row['doc_id']}" for row in kept}
    said = {row["doc_id"]: {text for text, _ in json.loads(row["made"])} for row in kept}
    for doc_id, texts in said.items():  # the reports have sentences in common
        own = texts - set().union(*(others for other, others in said.items() if other != doc_id))
        assert any(text in words_in(run) for text in own)
        assert f"artifact/raptor/{doc_id}" in purge_run(Folder.of(run), doc_id)
        assert [text for text in own if text in words_in(run)] == []
    # A tree that lacks summaries is not kept for others.
    server.rules.insert(0, (summarises, ""))
    other = mine(sample_archive, tmp_path, "other")
    answer(other, few, tmp_path / "third", strategy="raptor", **endpoint(server))
    assert artifacts_taken(Folder.of(tmp_path / "third")) == ([], ["some replies were unusable"] * len(said))
    assert not (other / "artifacts").exists()


def test_graphrag_writes_each_graph_once_for_all_questions(
    sample_archive: Path, few: Path, tmp_path: Path, server: FakeOpenAI
) -> None:
    run = tmp_path / "first"
    result = answer(mine(sample_archive, tmp_path), few, run, strategy="graphrag", **endpoint(server))
    assert result.statuses == {"answered": 4}
    ledger = table(Folder.of(run), "ledger")
    made = [row for row in ledger if row["query_id"].startswith("artifact/graphrag/")]
    assert {row["role"] for row in made} == {"extract", "report"}
    assert max(Counter((row["query_id"], row["path"]) for row in made).values()) == 1
    answers = table(Folder.of(run), "answers")
    assert {row["calls"] for row in answers} == {1}, "a question pays for its own calls"
    assert server.bill_usd == pytest.approx(sum(row["cost_usd"] for row in ledger))
    journal = table(Folder.of(run), "journal")
    kept = [row for row in journal if row["kind"] == "found" and row["path"] == "graph"]
    assert kept
    for row in kept:
        graph = json.loads(row["body"])["found"]
        assert [entity[0] for entity in graph["entities"]] == ["the board", "the mill"]
        assert [community[4] for community in graph["communities"]] == ["The board runs the mill."]
    # Another run takes the graphs over: the same chunks and communities, so the same requests.
    asked = len(server.received)
    shared = {"replies_from": [str(run)]}
    other = mine(sample_archive, tmp_path, "other")  # which keeps no graphs
    answer(other, few, tmp_path / "second", strategy="graphrag", **shared, **endpoint(server))
    assert len(server.received) == asked


def test_instructrag_writes_its_rationales_once_a_run(
    sample_archive: Path, few: Path, tmp_path: Path, server: FakeOpenAI
) -> None:
    result = answer(sample_archive, few, tmp_path / "run", strategy="instructrag", **endpoint(server))
    assert result.statuses == {"answered": 4}
    ledger = table(Folder.of(tmp_path / "run"), "ledger")
    made = [row["path"] for row in ledger if row["query_id"] == "artifact/instructrag/examples"]
    assert sorted(made) == ["1/rationale", "2/rationale"]
    assert len(ledger) == 2 + 4


@pytest.mark.parametrize(
    "strategy",
    ["longllmlingua", pytest.param("llmlingua", marks=pytest.mark.soak)],  # tests/answering has its own steps
)
def test_a_small_model_measures_what_is_kept_and_answered_from(
    strategy: str, sample_archive: Path, few: Path, tmp_path: Path, server: FakeOpenAI
) -> None:
    with pytest.raises(ConfigError, match=rf"'{strategy}' needs a local language model.*scorer"):
        okralong.answer(sample_archive, few, tmp_path / "none", strategy=strategy, **endpoint(server))
    scorer = {"scorer.model": str(write_tiny_llama(tmp_path / "llama", 2048))}
    run = tmp_path / "run"
    result = answer(sample_archive, few, run, strategy=strategy, **scorer, **endpoint(server))
    assert result.statuses == {"answered": 4}
    kept = [json.loads(row["body"]) for row in table(Folder.of(run), "journal") if row["kind"] == "found"]
    assert len(kept) == 4
    for row in table(Folder.of(run), "answers"):
        assert len(row["context"]) > 10, "many stretches"
        assert row["context_tokens"] < 4000


def test_llmlingua2_answers_from_the_words_that_the_token_classifier_keeps(
    sample_archive: Path, few: Path, tmp_path: Path, server: FakeOpenAI
) -> None:
    run, policy = tmp_path / "run", tmp_path / "policy.yaml"
    settings = yaml.safe_load(shipped_config("policy/default.yaml"))
    settings["llmlingua2"]["target_tokens"] = 300  # the reports are short
    policy.write_text(yaml.safe_dump(settings))
    result = answer(sample_archive, few, run, strategy="llmlingua2", policy=str(policy), **endpoint(server))
    assert result.statuses == {"answered": 4}
    kept = [json.loads(row["body"]) for row in table(Folder.of(run), "journal") if row["kind"] == "found"]
    assert len(kept) == 4
    for row in table(Folder.of(run), "answers"):
        assert len(row["context"]) > 10, "many stretches"
        assert row["context_tokens"] < 400


@pytest.mark.soak  # tests/answering/test_flare.py, tests/llm/test_logprobs.py
def test_flare_looks_up_what_it_doubts_and_stops_where_nobody_says_how_sure(
    sample_archive: Path, few: Path, tmp_path: Path, server: FakeOpenAI
) -> None:
    result = answer(sample_archive, few, tmp_path / "run", strategy="flare", **endpoint(server))
    assert result.statuses == {"answered": 4}
    journal = table(Folder.of(tmp_path / "run"), "journal")
    looked_up = {row["path"] for row in journal if row["kind"] == "retrieval"}
    assert looked_up == {"retrieve", "sentence/1/retrieve", "sentence/2/retrieve"}
    assert {row["answer"] for row in table(Folder.of(tmp_path / "run"), "answers")} == {"apples"}
    server.gives_logprobs = False
    stopped = answer(sample_archive, few, tmp_path / "mute", strategy="flare", **endpoint(server))
    assert stopped.exit_code == EXIT_ENDPOINT
    assert "log-probabilities" in stopped.stopped


@pytest.mark.soak  # tests/answering/test_adaptive_rag.py
def test_adaptive_rag_goes_the_way_that_the_classifier_says(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, server: FakeOpenAI
) -> None:
    run, questions = tmp_path / "run", sample_folder / "questions.jsonl"
    result = answer(sample_archive, questions, run, strategy="adaptive_rag", **endpoint(server))
    answers = {row["query_id"]: row for row in table(Folder.of(run), "answers")}
    assert sum(result.statuses.values()) == len(answers) == 18
    assert result.statuses.get("failed", 0) == 0
    journal = table(Folder.of(run), "journal")
    replies = [row for row in journal if (row["path"], row["kind"]) == ("classify", "reply")]
    said = {row["query_id"]: json.loads(row["body"])["reply"]["text"] for row in replies}
    assert set(said.values()) == {"A", "B", "C"}
    looked_up = Counter(row["query_id"] for row in journal if row["kind"] == "retrieval")
    calls = {query_id: row["calls"] for query_id, row in answers.items()}
    for query_id, letter in said.items():
        # A asks classifier and reader; B looks up once; C once and after each sentence that does not conclude.
        assert (letter, looked_up[query_id]) in {("A", 0), ("B", 1), ("C", 1), ("C", 2)}
        assert calls[query_id] == (2 if letter != "C" else 2 + looked_up[query_id])
    assert server.bill_usd == pytest.approx(sum(row["cost_usd"] for row in answers.values()))


@pytest.mark.soak  # tests/answering/test_compact.py
def test_compact_reads_segments_until_the_summary_is_complete(
    sample_archive: Path, few: Path, tmp_path: Path, server: FakeOpenAI
) -> None:
    policy = tmp_path / "policy.yaml"
    settings = yaml.safe_load(shipped_config("policy/default.yaml"))
    settings["compact"]["segment"] = 2  # the reports are short
    policy.write_text(yaml.safe_dump(settings))
    run = tmp_path / "run"
    result = answer(sample_archive, few, run, strategy="compact", policy=str(policy), **endpoint(server))
    assert result.statuses == {"answered": 4}
    paths = Counter(row["path"] for row in table(Folder.of(run), "journal") if row["kind"] == "reply")
    assert paths == {"segment/1/compress": 4, "segment/2/compress": 4, "generate": 4}
    for row in table(Folder.of(run), "answers"):
        assert row["calls"] == 3
        assert not row["context"], "what the reader saw stands in no document"
        assert not row["citations"]
    asked = [one.messages for one in server.received if not compresses(one.messages)]
    assert all("It grows apples. all is there" in messages[-1]["content"] for messages in asked)


@pytest.mark.parametrize(
    "strategy", ["adaptive_rag", "flare", "compact", "raptor", "iter_retgen", "self_rag", "graphrag", "instructrag"]
)
def test_an_estimate_says_what_cannot_be_foreseen(strategy: str, tmp_path: Path) -> None:
    from okralong.jobs.estimate import Asking, estimate_questions
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.run.config import RunConfig

    config = load_config(RunConfig, "answer.yaml", {"strategy": strategy})
    with pytest.raises(ConfigError, match=rf"strategy '{strategy}' cannot be predicted.*Nothing was spent"):
        estimate_questions(str(tmp_path / "none"), "none.jsonl", config, Asking())
