"""The generator of a run: the embedded server, which is started here, or an endpoint, which is checked first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from okralong.pipelines.core.loops import run_coroutine
from okralong.pipelines.core.types import EndpointError, OkraError
from okralong.pipelines.llm.config import GeneratorConfig, LlmConfig
from okralong.pipelines.llm.endpoint import check_endpoint
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.models.merged_model import Reader, ReaderFile, asked_as
from okralong.pipelines.models.serving import EarlyEnd, EmbeddedServer, ServedModel, choose
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.prepare import Prepared
from okralong.pipelines.sara.artifact import read_shape, served_generator
from okralong.pipelines.sara.config import SARA


@dataclass(frozen=True)
class StartedGenerator:
    """A generator that a run can use.

    Attributes:
        llm: Its config, with open settings filled in.
        address: Where an embedded one listens; None for an endpoint.
        facts: Its entry in the manifest.
        notes: Messages about endpoints, also of the stronger generator, that cannot be used now.
        ready: The address of an embedded one that is still starting.
    """

    llm: LlmConfig
    address: str | None
    facts: dict[str, Any]
    notes: tuple[str, ...] = ()
    ready: Future[str] | None = None

    @property
    def weights(self) -> str:
        """Return the identity of the weights of an embedded generator or SARA's; "" for an endpoint."""
        return str(self.facts.get("identity") or self.facts.get("compressor") or "")


def reading_vectors(prepared: Prepared) -> Path | None:
    """Return the folder of the compressor whose generator the run's strategy needs; None if any generator will do."""
    return prepared.config.sara.folder() if prepared.strategy.needs.sara_generator else None


@contextmanager
def generator(
    llm: LlmConfig, log_folder: Path | None, compressor: Path | None = None, ahead: bool = False
) -> Iterator[StartedGenerator]:
    """Provide the generator that a config names while the block runs.

    Args:
        llm: The config.
        log_folder: Where an embedded server writes its log.
        compressor: Folder of a compressor: the generator is SARA's, which the run starts on Ray Serve with its models.
        ahead: Let the block begin while an embedded server is still starting (see ``StartedGenerator.ready``).

    Raises:
        ConfigError: The reader cannot be merged.
        EndpointError: None of the endpoints can be used.
    """
    if compressor is not None:
        _, fingerprint = read_shape(compressor)
        served = _reading_vectors(llm, compressor)
        yield StartedGenerator(served, None, {"model": served.model, "engine": SARA, "compressor": fingerprint})
        return
    reader = llm.found_reader()
    second: tuple[str, ...] = ()
    known: dict[str, Any] = {}
    if llm.stronger is not None:
        second, known = run_coroutine(_check(llm.stronger)), {"stronger": _endpoint_facts(llm.stronger)}
    if llm.base_url != EMBEDDED:
        notes = run_coroutine(_check(llm)) + second
        yield StartedGenerator(_served_there(llm), None, _endpoint_facts(llm) | known, notes)
        return
    if ahead:
        with _starting(llm, log_folder, reader) as ready:
            model = choose(llm.model, "auto", parallel=1, window=llm.window, reader=reader)
            settled = _served_here(llm, model.name, model.tokenizer, reader)
            yield StartedGenerator(settled, None, _served_facts(model, reader) | known, second, ready)
        return
    with EmbeddedServer.start(model=llm.model, window=llm.window, log_folder=log_folder, reader=reader) as server:
        served = _served_here(llm, server.model, server.tokenizer, reader)
        yield StartedGenerator(served, server.base_url, _served_facts(server, reader) | known, second)


@contextmanager
def _starting(llm: LlmConfig, log_folder: Path | None, reader: Reader | None) -> Iterator[Future[str]]:
    """Start an embedded server in a thread, yield its future address, and stop it with the block."""
    with ThreadPoolExecutor(1, "okralong-generator") as thread:
        start = partial(EmbeddedServer.start, model=llm.model, window=llm.window, log_folder=log_folder, reader=reader)
        held, early_end = ExitStack(), EarlyEnd()
        ready = thread.submit(lambda: held.enter_context(start(early_end=early_end)).base_url)
        try:
            yield ready
        finally:
            early_end.now()
            with suppress(OkraError):  # its users have seen the error
                ready.result()
            held.close()


def _served_facts(server: EmbeddedServer | ServedModel, reader: Reader | None) -> dict[str, Any]:
    said = None if reader is None else {"name": reader.name, "digest": reader.digest}
    name = server.name if isinstance(server, ServedModel) else server.model
    return {"model": name, "engine": server.engine, "identity": server.identity, "reader": said}


def _endpoint_facts(llm: GeneratorConfig) -> dict[str, Any]:
    facts: dict[str, Any] = {"model": llm.model, "base_url": llm.base_url}
    if llm.endpoints:
        facts["endpoints"] = [{"model": one.model, "base_url": one.base_url} for one in llm.endpoints]
    return facts


async def _check(llm: GeneratorConfig) -> tuple[str, ...]:
    """Return a message for each endpoint that cannot be used now. Raises EndpointError if none can be used."""
    found = await asyncio.gather(*(check_endpoint(endpoint) for endpoint in llm.all_endpoints))
    bad = tuple(status.message for status in found if not status.ok)
    if len(bad) < len(found):
        return bad
    none = f"None of the {len(found)} endpoints can be used. " if len(found) > 1 else ""
    raise EndpointError(f"{none}{' '.join(bad)} Nothing was spent.")


def checked_anew(served: StartedGenerator) -> StartedGenerator:
    """Check the stronger generator of an embedded one that was started earlier; return it with the notes.

    Raises EndpointError if none of the stronger one's endpoints can be used.
    """
    stronger = served.llm.stronger
    return served if stronger is None else replace(served, notes=run_coroutine(_check(stronger)))


def weights_here(llm: LlmConfig) -> str:
    """Return the identity of an embedded generator's weights (see ``StartedGenerator.weights``), without a start.

    Raises ConfigError if it cannot be served here.
    """
    return choose(llm.model, "auto", parallel=1, window=llm.window, reader=llm.found_reader()).identity


def as_served(llm: LlmConfig, compressor: Path | None = None) -> LlmConfig:
    """Return ``llm`` with open settings filled in, as ``generator`` does, without starting or calling one.

    Raises ConfigError if its reader cannot be merged or the model cannot be served here.
    """
    if compressor is not None:
        return _reading_vectors(llm, compressor)
    reader = llm.found_reader()
    if llm.base_url != EMBEDDED:
        return _served_there(llm)
    model = choose(llm.model, "auto", parallel=1, window=llm.window, reader=reader)
    return _served_here(llm, model.name, model.tokenizer, reader)


def _served_there(llm: LlmConfig) -> LlmConfig:
    return llm.model_copy(update=_asked_there(llm) | _second(llm))


def _asked_there(llm: GeneratorConfig) -> dict[str, Any]:
    asked = {name: bool(getattr(llm, name)) for name in ("demonstrations", "calculator", "constrained")}
    return {**asked, "contract": _contract(llm)}


def _second(llm: LlmConfig) -> dict[str, Any]:
    """Return the stronger generator, also with open settings filled in."""
    stronger = llm.stronger
    return {"stronger": None if stronger is None else stronger.model_copy(update=_asked_there(stronger))}


def _served_here(llm: LlmConfig, model: str, tokenizer: str, reader: Reader | None) -> LlmConfig:
    settled = {
        "model": model,
        "tokenizer": tokenizer,
        "price": llm.price or Price(input=0.0, cached_input=0.0, output=0.0),
        **_asked(llm, reader),
        "contract": _contract(llm),
        # Grammars are sent as the config says, by default with a reader, which is trained for them.
        "constrained": reader is not None if llm.constrained is None else llm.constrained,
        **_second(llm),
    }
    return llm.model_copy(update=settled)


def _reading_vectors(llm: LlmConfig, compressor: Path) -> LlmConfig:
    """Return ``llm`` with the settings of SARA's generator: those of its training, and no grammar."""
    served = served_generator(compressor, llm.model)
    free = llm.price or Price(input=0.0, cached_input=0.0, output=0.0)
    plain = {"demonstrations": False, "calculator": False, "constrained": False, "json_schema": "never"}
    return llm.model_copy(update={"model": served.name, "tokenizer": served.tokenizer, "price": free, **plain})


def _contract(llm: GeneratorConfig) -> Literal["short", "full"]:
    return "short" if llm.short_contract else "full"


def _asked(llm: LlmConfig, reader: Reader | None) -> dict[str, bool]:
    """Return the prompt settings of a model served here: the config's, by default those of its reader's training.

    A small model without a reader gets a worked example, and calculates itself.
    """
    trained = ReaderFile(demonstrations=True) if reader is None else asked_as(reader.folder)
    return {
        "demonstrations": trained.demonstrations if llm.demonstrations is None else llm.demonstrations,
        "calculator": trained.calculator if llm.calculator is None else llm.calculator,
    }
