from __future__ import annotations

from pathlib import Path

from okralong.pipelines.answering.prompts import reply_schema
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.tools import agree, attempts, batch_config, batch_run, texts


async def test_a_batch_that_refuses_the_form_of_replies_is_asked_again_without_it(
    tmp_path: Path, server: EndpointProcess
) -> None:
    server.change({"models": {"fake-model": {"json_schemas": False}}})
    config = batch_config(server.base_url)
    async with batch_run(tmp_path, config, reply_schema=reply_schema) as run:
        first = await run.ask("one", "two", answer_type="money")
        assert [text.startswith("An answer to") for text in texts(first)] == [True, True]
        assert attempts(tmp_path) == [
            ("one", 1, "failed", "batch", 1),
            ("one", 2, "ok", "batch", 2),
            ("two", 1, "failed", "batch", 1),
            ("two", 2, "ok", "batch", 2),
        ]
        await run.ask("three", answer_type="money")
        assert ("three", 1, "ok", "batch", 3) in attempts(tmp_path)
    async with batch_run(tmp_path, config, reply_schema=reply_schema) as run:
        assert await run.ask("one", "two", answer_type="money") == first
    assert len(attempts(tmp_path)) == 5
    agree(tmp_path, server)
