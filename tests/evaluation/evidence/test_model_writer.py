"""A model that writes the queries, over real sockets: what it is sent, what is kept, what is not asked again."""

from __future__ import annotations

from pathlib import Path

from okralong.lab.evidence.bench import Bench, PolicyRun, run_policy
from okralong.lab.evidence.tools import BenchTools, given
from okralong.lab.evidence.writers import (
    NO_ANSWER,
    KeptReplies,
    KnownModel,
    ModelWriter,
    asking_writer,
    model_writers,
)
from okralong.pipelines.answering.prompts import DEMONSTRATIONS, split_prompt
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Message
from okralong.pipelines.methods.okralong import orchestrate
from tests.evaluation.evidence.invented_rows import sweep
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.tools import analysis, paper_policy

SUB_QUESTIONS = "How high is Hagg Hill?\nHow high is Lorn Hill?"


def writer_of(server: FakeOpenAI, folder: Path) -> ModelWriter:
    return asking_writer(KnownModel(server.base_url, "fake-model", "it"), folder / "replies.jsonl", 8192, count_tokens)


async def test_each_prompt_is_asked_once_ever(tmp_path: Path) -> None:
    prompt = split_prompt("Which is higher, Hagg Hill or Lorn Hill?", 4)
    with FakeOpenAI(rules=[(lambda messages: True, SUB_QUESTIONS)]) as server:
        writer = writer_of(server, tmp_path)
        assert await writer.write((), "split/questions", "split", prompt) == SUB_QUESTIONS
        assert await writer.write((), "split/questions", "split", prompt) == SUB_QUESTIONS
        assert len(server.received) == 1
        body = server.received[0].body
        assert (body["temperature"], body["max_tokens"], body["model"]) == (0.0, 96, "fake-model")
        assert server.received[0].messages == [{"role": m.role, "content": m.content} for m in prompt]
        assert await writer_of(server, tmp_path).write((), "split/questions", "split", prompt) == SUB_QUESTIONS
        assert len(server.received) == 1
        await writer.write((), "split/questions", "split", [*prompt, Message("user", "And?")])
        assert len(server.received) == 2
        assert await writer.write((), "generate", "generate", prompt) == NO_ANSWER
        assert len(server.received) == 2


async def test_the_strategy_looks_up_what_the_model_wrote(town: Bench, tmp_path: Path) -> None:
    question = next(q for q in town.pooled.questions if q.item.gold.source_type == "comparison")

    with FakeOpenAI(rules=[(lambda messages: True, SUB_QUESTIONS)]) as server:
        writer = writer_of(server, tmp_path)
        tools = BenchTools(
            town.retrievals, paper_policy(), question.doc_ids, (), given(analysis("multi-source")), writer
        )
        await orchestrate(question.item.gold.question.question, tools, precise=False)
        assert tools.queries[1:] == SUB_QUESTIONS.split("\n")
        example = [{"role": m.role, "content": m.content} for m in DEMONSTRATIONS["split"]]
        sent = server.received[0].messages
        assert all(message in sent for message in example)
        assert 7000 < tools.window < 8192
        rows = await run_policy(town, "model", PolicyRun(paper_policy(), None, writer), 1.0)
        assert {row.calls for row in rows if row.workflow == "split"} == {1}
        assert all(row.calls >= 1 for row in rows if row.workflow == "step")


def test_a_half_written_line_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    KeptReplies(file).keep("one", "first\nreply")
    with file.open("a", encoding="utf-8") as out:
        out.write('\n{"key": "two", "rep')
    again = KeptReplies(file)
    assert (again.get("one"), again.get("two")) == ("first\nreply", None)
    again.keep("two", "second")
    assert [KeptReplies(file).get(key) for key in ("one", "two")] == ["first\nreply", "second"]


def test_no_server_is_started_for_a_sweep_that_needs_none(tmp_path: Path) -> None:
    with model_writers(sweep(), tmp_path) as writers:
        assert writers == {}
