"""``okralong doctor``: check that everything a run needs is available, and say how to fix what is not."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.core.types import EXIT_USAGE, OkraError
from okralong.pipelines.core.wording import counted

if TYPE_CHECKING:
    from okralong.pipelines.llm.config import EndpointConfig, GeneratorConfig, LlmConfig
    from okralong.pipelines.run.config import RunConfig

PACKAGES = ("ray", "torch", "transformers", "peft", "sentence-transformers", "pyarrow", "bm25s", "openai", "okralong")
LEAST_FREE_GB = 5


@dataclass(frozen=True)
class Finding:
    """One line of the check-up. ``remedy`` is empty if all is well."""

    name: str
    ok: bool
    says: str
    remedy: str = ""


def command(
    archive: Annotated[str | None, typer.Argument(help="An archive to check.")] = None,
    config: Annotated[str, typer.Option(help="The answer config whose endpoint and key to check.")] = "answer.yaml",
    ask: Annotated[
        bool, typer.Option(help="Also send three short calls to each endpoint to test which API features it supports.")
    ] = False,
) -> None:
    """Check the installation, the GPU, the models, the endpoint, the key and the archive.

    Makes no paid call, except for three short ones with --ask.
    """
    console = Console()
    findings = list(examine(config, archive, ask))
    for finding in findings:
        mark, style = ("ok  ", "green") if finding.ok else ("FAIL", "red")
        say_line(console, f"{mark} {finding.name}: {finding.says}", style=style)
        if finding.remedy:
            say_line(console, f"     -> {finding.remedy}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(EXIT_USAGE)


def examine(config: str, archive: str | None, ask: bool = False) -> Iterator[Finding]:
    """Yield all findings, cheap ones first."""
    yield _packages()
    yield _faiss()
    yield _processor()
    yield from _embedded_models()
    yield _tried("local model", _local_model)
    yield _disk()
    yield from _endpoint(config, ask)
    if archive is not None:
        yield _tried("archive", lambda: _archive(archive))


def _tried(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, check())
    except OkraError as error:
        return Finding(name, False, "cannot be used", str(error))


def _method(settings: RunConfig) -> str:
    """Return the strategy and the policy of a config. Raises ConfigError if there is no such one."""
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.methods.registry import FullPolicy, describe

    describe(settings.strategy, load_config(FullPolicy, settings.policy))
    return f"strategy {settings.strategy}, policy {settings.policy}"


def _packages() -> Finding:
    found, missing = [f"python {platform.python_version()}"], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    remedy = "Run make demo or make test in a checkout; both install all packages at the locked versions."
    says = ", ".join(found) + (f"; missing: {', '.join(missing)}" if missing else "")
    return Finding("packages", not missing, says, remedy if missing else "")


def _faiss() -> Finding:
    found = [name for name in ("faiss-cpu", "faiss-gpu") if _installed(name)]
    if len(found) == 1:
        import faiss

        return Finding(
            "faiss", True, f"{found[0]} {faiss.__version__}, {getattr(faiss, 'get_num_gpus', int)()} GPUs seen"
        )
    says = "both faiss-cpu and faiss-gpu are installed, but they are the same module" if found else "not installed"
    remedy = (
        "Install exactly one: pip install '.[faiss-cpu]' or '.[faiss-gpu]' in the checkout. Uninstall the other first."
    )
    return Finding("faiss", False, says, remedy)


def _installed(package: str) -> bool:
    try:
        return bool(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return False


def _processor() -> Finding:
    import torch

    from okralong.pipelines.models.weights import cpu_precision

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    cpu = f"{os.cpu_count()} CPU cores (faster in {cpu_precision()})"
    return Finding("processor", True, f"{cpu}; GPU: {', '.join(gpus) or 'none, using the CPU'}")


def _embedded_models() -> Iterator[Finding]:
    from okralong.pipelines.models.weights import embedded_gguf, resolve_embedding_model

    yield _tried("embedding model", lambda: f"{resolve_embedding_model('embedded').name}, checksum ok")
    yield _tried("embedded generator", lambda: f"{embedded_gguf().name}, checksum ok")


def _local_model() -> str:
    from okralong.pipelines.models.downloads import machine, recommended, recorded

    memory, cores = machine()
    name = recommended(memory, cores)
    said = f"for {memory:.0f} GB of memory and {counted(cores, 'core')}, recommended is"
    if name is None:
        return f"{said} an endpoint: models of `okralong model list` would be too slow or too large"
    here = "which is here (llm.model)" if recorded(name) else f"run `okralong model get {name}`, then set llm.model"
    return f"{said} {name}: {here}"


def _disk() -> Finding:
    from okralong.pipelines.models.weights import cache_folder

    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free / 1e9
    remedy = "" if free >= LEAST_FREE_GB else "Free some space, or set OKRALONG_CACHE to a folder on a larger disk."
    return Finding("disk", not remedy, f"{free:.0f} GB free for converted models at {folder}", remedy)


def _endpoint(config: str, ask: bool) -> Iterator[Finding]:
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.llm.endpoint import check_endpoint
    from okralong.pipelines.llm.network import described
    from okralong.pipelines.models.weights import EMBEDDED
    from okralong.pipelines.run.config import RunConfig

    try:
        settings = load_config(RunConfig, config)
    except OkraError as error:
        yield Finding("config", False, f"{config} cannot be used", str(error))
        return
    yield _tried("config", lambda: f"{config}: {_method(settings)}")
    yield _tried("reader", lambda: _reader(settings.llm))
    if settings.llm.base_url == EMBEDDED:
        yield _tried("endpoint", lambda: _embedded_answers(settings.llm))
    generators = [settings.llm, *([settings.llm.stronger] if settings.llm.stronger else [])]
    asked = [(llm, each) for llm in generators if llm.base_url != EMBEDDED for each in llm.all_endpoints]
    for llm, endpoint in asked:
        yield _tried("network", partial(described, endpoint.base_url))
        status = asyncio.run(check_endpoint(endpoint))
        yield Finding(
            "endpoint", status.ok, status.message if status.ok else status.state, "" if status.ok else status.message
        )
        yield _tried("price", partial(_price, settings.prices, endpoint))
        if status.ok:
            yield _tried("protocol", partial(_protocol, llm, endpoint, settings.prices, ask))


def _price(prices: str, endpoint: EndpointConfig) -> str:
    from okralong.pipelines.llm.prices import ListedPrice, PriceTable

    price = PriceTable.load(prices).price(endpoint.model, endpoint.price)
    rates = [f"${price.input:g} for a million prompt tokens", f"${price.cached_input:g} for cached ones"]
    rates += [f"${price.cache_write:g} for those written to the cache"] if price.cache_write is not None else []
    rates += [f"${price.output:g} for reply tokens"]
    rates += [f"other rates above {each.above:,} prompt tokens" for each in price.longer]
    rates += [f"batches {price.batch_discount:.0%} cheaper"] if price.batch_discount else []
    rates += [f"flex {price.flex_discount:.0%} cheaper"] if price.flex_discount else []
    source = f" (since {price.since}; {price.source})" if isinstance(price, ListedPrice) else " (llm.price)"
    return f"{endpoint.model}: {', '.join(rates)}{source}"


def _protocol(llm: GeneratorConfig, endpoint: EndpointConfig, prices: str, ask: bool) -> str:
    from okralong.pipelines.llm.abilities import abilities, has_batches
    from okralong.pipelines.llm.prices import PriceTable

    if not ask:
        batches = asyncio.run(has_batches(endpoint))
        said = "batches unknown" if batches is None else "has batches" if batches else "no batches"
        return f"{said}; other features are detected from the first replies, or now with --ask"
    found = asyncio.run(abilities(llm, endpoint))
    try:
        cost = f"${PriceTable.load(prices).price(endpoint.model, endpoint.price).cost(found.usage):.6f}"
    except OkraError:
        cost = "an unknown price"
    return f"{found.said()} ({counted(found.calls, 'call')} for {cost})"


def _reader(llm: LlmConfig) -> str:
    from okralong.pipelines.models.merged_model import asked_as

    reader = llm.found_reader()
    if reader is None:
        return "none: the bare model"
    rows = asked_as(reader.folder).rows
    return f"{reader.name}, digest {reader.digest}" + ("" if rows is None else f", trained on {counted(rows, 'row')}")


def _embedded_answers(llm: LlmConfig) -> str:
    from okralong.pipelines.models.serving import EmbeddedServer

    with EmbeddedServer.start(model=llm.model, window=llm.window, reader=llm.found_reader()) as server:
        return f"the embedded generator answers ({server.model}, engine {server.engine}, window {server.window:,})"


def _archive(location: str) -> str:
    from okralong.pipelines.archive.archive import Archive

    archive = Archive.open(location)
    sizes = ", ".join(map(str, archive.granularities))
    encoder = archive.manifest["embedding"]["name"]
    vectors = f"vectors of {encoder}" if archive.has_vectors else "no vectors, BM25 only"
    documents = counted(len(archive.doc_ids()), "document")
    return f"{documents}, chunks of {sizes} tokens, {counted(archive.n_shards, 'shard')}, {vectors}"
