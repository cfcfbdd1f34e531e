"""The whole way of a question in one process: archive and table, strategy, LLM client, protocol, generator, ledger.

Everything is real but Ray; ``tests/jobs/test_sara_run.py`` is the same on a cluster.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.estimate.here import ClientGenerator
from okralong.actors.generator import as_served
from okralong.actors.models import HandleTransport
from okralong.actors.planner import ADDRESS
from okralong.pipelines.answering.models import FunctionModels
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import CallFailed, Message, Plan, Question
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import Encoder, index_here
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.methods.registry import load_strategy
from okralong.pipelines.models.weights import resolve_embedding_model
from okralong.pipelines.sara.artifact import ArrayCompressor
from okralong.pipelines.sara.compressor import load_compressor
from okralong.pipelines.sara.generator import MixedGenerator
from okralong.pipelines.sara.prompts import RefusedError, completion, read_request, refusal
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import paper_policy
from tests.llm.tools import rows
from tests.sara.compressors import random_compressor, random_memory

QUESTION = Question("q1", "How much did Alder spend on research?")


class Replica:
    """What a handle reaches: the replica's work without Serve's batching. Counts what it was asked."""

    def __init__(self, generator: MixedGenerator, name: str) -> None:
        self.ask, self.asked = self, 0
        self._generator, self._name = generator, name

    async def remote(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        self.asked += 1
        try:
            (written,) = self._generator.answer([read_request(body, self._name, self._generator.hidden)])
            if isinstance(written, RefusedError):
                raise written
        except RefusedError as error:
            return error.status, json.dumps(refusal(error)).encode()
        return 200, json.dumps(completion(self._name, written)).encode()


class Log:
    """A question's journal in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def recorded(self, path: str, kind: str) -> str | None:
        return self.kept.get((path, kind))

    async def record(self, path: str, kind: str, body: str) -> None:
        self.kept[path, kind] = body

    async def admit(self, plan: Plan) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_compressor(tmp_path_factory.mktemp("c"), hidden=32, vectors_per_chunk=2, generator=str(tiny))


@pytest.fixture(scope="module")
def archive(folder: Path, minilm: Callable[[list[str]], Any], tmp_path_factory: pytest.TempPathFactory) -> Archive:
    documents = [RawDocument(each.doc_id, each.text, each.doc_id) for each in (ALDER, BIRCH)]
    config = IndexConfig(granularities=[256], compressor=str(folder), shards=2)
    encoder = Encoder(
        minilm, resolve_embedding_model("embedded"), lambda: "float32", lambda texts: [False] * len(texts)
    )
    return index_here(str(tmp_path_factory.mktemp("archive")), documents, config, encoder)


@asynccontextmanager
async def asking(run: Path, folder: Path, tiny: Path, limit: int = 8) -> AsyncIterator[tuple[LlmClient, Replica]]:
    """The client as a planner makes it, over the run folder ``run``."""
    wanted = LlmConfig(model=str(tiny), window=2048)
    limits = wanted.max_completion_tokens.model_copy(update={"generate": limit})
    llm = as_served(wanted.model_copy(update={"max_completion_tokens": limits, "max_attempts": 1}), folder)
    replica = Replica(MixedGenerator.load(folder, str(tiny), llm.window, "float32"), llm.model)
    ledger = RunLedger(Folder.of(run), None)
    transport = HandleTransport(replica)
    client = LlmClient(llm, Gateway(ledger, [LocalLimiter(llm.limits)]), address=ADDRESS, transport=transport)
    try:
        yield client, replica
    finally:
        await client.aclose()
        await ledger.close()


def tools_over(archive: Archive, folder: Path, client: LlmClient, embed: Any, log: Log, **policy: Any) -> QuestionTools:
    async def embedded(texts: list[str]) -> Any:
        return embed(texts)

    async def compress(vectors: Any) -> Any:
        return ArrayCompressor.load(folder).pooled(vectors)

    async def fan_out(branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
        raise AssertionError("nothing here has branches")

    shared = Ports(
        models=FunctionModels(archive, embed=embedded, compress=compress),
        generator=ClientGenerator(client),
        policy=paper_policy(**({"sara__text": 2} | policy)),
        window=client.config.window,
        count=token_counter(client.config.tokenizer),
        completion_limit=client.config.completion_limit,
    )
    return QuestionTools(shared, QUESTION, (), log, fan_out)


async def test_a_question_goes_all_the_way_and_a_second_time_for_nothing(
    archive: Archive, folder: Path, tiny: Path, tmp_path: Path, minilm: Callable[[list[str]], Any]
) -> None:
    log = Log()
    async with asking(tmp_path, folder, tiny) as (client, replica):
        answer = await load_strategy("sara")(QUESTION, tools_over(archive, folder, client, minilm, log))
        again = await load_strategy("sara")(QUESTION, tools_over(archive, folder, client, minilm, log))
    assert (again.answer, again.context) == (answer.answer, answer.context)
    assert replica.asked == 1, "the second time everything is in the journal"
    assert len(answer.context) == 2
    assert {kind for _, kind in log.kept} == {"plan", "retrieval", "selection"}
    (paid,) = rows(tmp_path, "ledger")
    assert (paid["status"], paid["completion_tokens"] <= 8, paid["endpoint"]) == ("ok", True, "embedded")
    (request,) = [json.loads(row["body"])["request"] for row in rows(tmp_path, "journal") if row["kind"] == "request"]
    vectors = [part for part in request["messages"][1]["content"] if part["type"] == "vectors"]
    pool = json.loads(log.kept["select", "selection"])["wanted"]["pool"]
    assert [part["rows"] for part in vectors] == [2] * (len(pool) - 2), "two vectors a chunk"
    assert b"base64" not in json.dumps(request).encode()
    assert max(len(part.get("text", "")) for part in request["messages"][1]["content"]) > 200
    # The ledger has the server's count, which the client's own never falls short of.
    text = "".join(part.get("text", "") for part in request["messages"][1]["content"])
    own = token_counter(client.config.tokenizer)(text) + sum(part["rows"] for part in vectors)
    assert own < paid["prompt_tokens"] <= own + 80


async def test_a_generator_reads_the_memory_slots_that_it_made_of_a_chunk(
    tiny: Path, tmp_path: Path, minilm: Callable[[list[str]], Any]
) -> None:
    folder = random_memory(tmp_path / "c", tiny)
    documents = [RawDocument(each.doc_id, each.text, each.doc_id) for each in (ALDER, BIRCH)]
    config = IndexConfig(granularities=[256], compressor=str(folder), generator=str(tiny))
    encoder = Encoder(
        minilm, resolve_embedding_model("embedded"), lambda: "float32", lambda texts: [False] * len(texts)
    )
    archive = index_here(str(tmp_path / "archive"), documents, config, encoder)
    shard = archive.shard(256, 0)
    chunks = shard.chunks(range(shard.n_chunks))
    slots = load_compressor(folder, str(tiny)).slots([chunk.text for chunk in chunks])
    assert np.allclose(shard.compressed_of(chunks), slots, atol=2e-3), "half precision"
    assert np.abs(slots[0] - slots[1]).max() > 0.01, "each chunk's own"
    async with asking(tmp_path / "run", folder, tiny) as (client, _):
        tools = tools_over(archive, folder, client, minilm, Log(), sara__text=0, sara__candidates=3)
        answer = await load_strategy("sara")(QUESTION, tools)
    assert answer.context == ()
    (request,) = [
        json.loads(row["body"])["request"] for row in rows(tmp_path / "run", "journal") if row["kind"] == "request"
    ]
    vectors = [part for part in request["messages"][1]["content"] if part["type"] == "vectors"]
    assert [part["rows"] for part in vectors] == [2] * min(3, len(chunks))


async def test_a_passage_s_line_has_the_vectors_of_its_sentences(
    tiny: Path, tmp_path: Path, minilm: Callable[[list[str]], Any]
) -> None:
    """As the paper's table 7 has it; the server counts each as a token."""
    shape = {"hidden": 32, "generator": str(tiny), "unit": "sentence", "vectors_per_chunk": 6}
    folder = random_compressor(tmp_path / "c", **shape)
    note = RawDocument("note", "Alder spent three million on research. Birch spent less on it, says Mara.", "note")
    documents = [RawDocument(ALDER.doc_id, ALDER.text, ALDER.doc_id), note]
    encoder = Encoder(
        minilm, resolve_embedding_model("embedded"), lambda: "float32", lambda texts: [False] * len(texts)
    )
    config = IndexConfig(granularities=[256], compressor=str(folder))
    archive = index_here(str(tmp_path / "archive"), documents, config, encoder)
    async with asking(tmp_path / "run", folder, tiny) as (client, _):
        tools = tools_over(archive, folder, client, minilm, Log(), sara__text=0, sara__candidates=4)
        await load_strategy("sara")(QUESTION, tools)
    (request,) = [
        json.loads(row["body"])["request"] for row in rows(tmp_path / "run", "journal") if row["kind"] == "request"
    ]
    content = request["messages"][1]["content"]
    found = [part["rows"] for part in content if part["type"] == "vectors"]
    shard = archive.shard(256, 0)
    held = [len(each) for each in shard.compressed_of(shard.chunks(range(shard.n_chunks)))]
    assert set(found) == set(held) == {1, 6}
    (paid,) = rows(tmp_path / "run", "ledger")
    text = "".join(part.get("text", "") for part in content)
    own = token_counter(client.config.tokenizer)(text) + sum(found)
    assert own < paid["prompt_tokens"] <= own + 80


async def test_a_refusal_fails_the_question_and_costs_nothing(folder: Path, tiny: Path, tmp_path: Path) -> None:
    async with asking(tmp_path, folder, tiny) as (client, _):
        with pytest.raises(CallFailed, match="window holds 2048 in total"):
            await client.complete("q1", "generate", "generate", [Message("user", "word " * 3000)])
    assert [(row["status"], row["cost_usd"]) for row in rows(tmp_path, "ledger")] == [("failed", 0.0)]
