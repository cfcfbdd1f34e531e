"""SARA's generator behind a Ray Serve handle: chat completions with vectors in them, answered in batches.

It speaks OpenAI's protocol by its handle, which ``HandleTransport`` puts in the place of the network: a run's calls go
through the one LLM client, with its ledger and journal, and no port is opened for them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2
from ray import serve

from okralong.actors.patience import asked_again
from okralong.actors.serving import GOODBYE_S, OVERLAP
from okralong.pipelines.core.config import ANYWHERE, Place
from okralong.pipelines.sara.artifact import SaraConfig
from okralong.pipelines.sara.prompts import Asked, RefusedError, Written, completion, read_request, refusal

ADDRESS: Final = "http://sara.invalid/v1"
"""What the client takes for the server's address: a name that leads nowhere, should anybody dial it."""

_JSON: Final = "application/json"


class GeneratorReplica:
    """One generator in one process."""

    def __init__(self, config: SaraConfig, model: str, window: int) -> None:
        # Imported here: torch and transformers take seconds, and the driver needs neither.
        from okralong.pipelines.models.weights import available_cores
        from okralong.pipelines.sara.artifact import served_generator
        from okralong.pipelines.sara.generator import MixedGenerator

        folder: Path = config.folder()
        self._name = served_generator(folder, model).name
        # Ray gives an actor one thread unless told otherwise.
        self._generator = MixedGenerator.load(folder, model, window, config.precision, threads=available_cores())
        self._sizes: Counter[int] = Counter()
        batched: Any = self._batched
        batched.set_max_batch_size(config.max_batch)
        batched.set_batch_wait_timeout_s(config.batch_wait_s)

    async def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """The HTTP status and the body that answer a request."""
        try:
            return 200, json.dumps(await self._reply(method, path, body)).encode()
        except RefusedError as error:
            return error.status, json.dumps(refusal(error)).encode()

    async def stats(self) -> dict[int, int]:
        """How many batches of each size were answered so far."""
        return dict(self._sizes)

    async def _reply(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        if (method, path.rstrip("/")) == ("GET", "/v1/models"):
            return {"object": "list", "data": [{"id": self._name, "object": "model", "owned_by": "okralong"}]}
        if (method, path.rstrip("/")) != ("POST", "/v1/chat/completions"):
            raise RefusedError(f"There is no {method} {path} here.", 404)
        asked = read_request(body, self._name, self._generator.hidden)
        written = await self._batched(asked)
        if isinstance(written, RefusedError):
            raise written
        return completion(self._name, written)

    @serve.batch
    async def _batched(self, asked: list[Asked]) -> list[Written | RefusedError]:
        self._sizes[len(asked)] += 1
        # In a thread: the next batch must be able to fill while this one is written.
        return await asyncio.to_thread(self._generator.answer, asked)


def sara_generator_app(config: SaraConfig, model: str, window: int, place: Place = ANYWHERE) -> serve.Application:
    """What ``actors.serving.run_apps`` starts; reach it through ``HandleTransport``.

    ``model`` is the generator as ``llm.model`` names it, ``window`` is in tokens.
    """
    deployment = serve.deployment(
        name="sara-generator",
        num_replicas=config.replicas,
        max_ongoing_requests=OVERLAP * config.max_batch,
        graceful_shutdown_wait_loop_s=GOODBYE_S,
        ray_actor_options={"num_cpus": 0, "num_gpus": config.gpus_per_replica, **place.options()},
    )(GeneratorReplica)
    return deployment.bind(config, model, window)


class HandleTransport(httpx2.AsyncBaseTransport):
    """HTTP to a deployment by its handle: requests of an OpenAI client, without a port."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The deployment's reply. A replica that dies takes its requests with it; they are asked again, for nothing."""
        body = await request.aread()
        ask = partial(self._handle.ask.remote, request.method, request.url.path, body)
        limit = (request.extensions.get("timeout") or {}).get("read")
        try:
            status, said = await asyncio.wait_for(asked_again(ask), limit)
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no reply within {limit} s", request=request) from None
        return httpx2.Response(status, headers={"content-type": _JSON}, content=said, request=request)
