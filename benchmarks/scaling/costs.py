"""Measure unit costs of an archive and of a question, in processor time of one core.

    python -m benchmarks.scaling.costs
    python -m benchmarks.scaling.costs --only search       # measures one section again and keeps the others

``index``: generated reports through the stages of the index job in this process, with the packaged encoder on one
thread. ``search``: one shard of synthetic clustered vectors, flat and as an inverted file. ``question``: `okralong
answer` over the archive of ``index``, one question at a time, with the scripted endpoint: seconds per stage from the
table ``answers``, and processor time of all processes. ``shards``: calls to a shard's process through Ray, and its
memory. costs.json stores the sections, costs.md shows them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import yaml

from benchmarks.scaling.archives import build_version, reports, weigh
from benchmarks.scaling.asking import WORDS as QUESTION_WORDS
from benchmarks.scaling.meter import Meter
from benchmarks.search.corpus import CHUNKS_A_DOCUMENT, GRANULARITY, open_archive, questions
from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.files import DenseConfig
from okralong.pipelines.archive.search import LocalShard, search
from okralong.pipelines.archive.shard import Shard
from okralong.pipelines.archive.shard_builder import BaseShard, write_shard
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.models.weights import resolve_embedding_model
from okralong.pipelines.samples.questions import generate, write_sample

REPORTS, WORDS, SEED = 6, 6_000, 11
MORE_REPORTS, MORE_WORDS = 200, 2_000
QUESTIONS: Final = 48
SHARD_CHUNKS: Final = 50_000
"""Chunks of the one shard of ``search``; shards with ``shards: auto`` have 50,000 to 100,000."""
K: Final = 20
CALLS: Final = 400
LLM: Final = "gpt-4o"

Section = dict[str, Any]
RESULTS: Final = Path(__file__).parents[1] / "results" / "scaling"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--work", type=Path, help="keeps the archive of reports for the next run")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    kept = given.out / "costs.json"
    found: dict[str, Section] = json.loads(kept.read_text()) if kept.exists() else {}
    with tempfile.TemporaryDirectory(prefix="okralong-costs-") as scratch:
        work = given.work or Path(scratch)
        for name in given.only:
            found[name] = SECTIONS[name](work)
            found["machine"] = {"cores": len(os.sched_getaffinity(0)), "processor": _processor()}
            kept.write_text(json.dumps(found, indent=1) + "\n")
    text = report(found)
    print(text)
    (given.out / "costs.md").write_text(text, encoding="utf-8")


def _index(work: Path) -> Section:
    from okralong.pipelines.indexing.embedding import SentenceEmbedder

    shutil.rmtree(work / "archive", ignore_errors=True)
    sample = generate(REPORTS, QUESTIONS, SEED, WORDS)
    write_sample(sample, work)
    raw = [RawDocument(one.doc_id, one.text, one.source_uri) for one in sample.documents]
    config, model = IndexConfig(), resolve_embedding_model("embedded")
    encoder = SentenceEmbedder(model.path, threads=1)
    encoder.encode(["Warm up."])
    # What is imported at the first document is not a document's cost.
    build_version(work / "warm", lambda _: [[RawDocument("warm", raw[0].text, "warm")]], config, Meter())
    meter = Meter()
    manifest = build_version(work / "archive", lambda _: [raw], config, meter, encoder.encode, model)
    # A larger archive without encoder for the other stages, whose fixed costs would show in a small one.
    more = Meter()
    shutil.rmtree(work / "more", ignore_errors=True)
    large = build_version(work / "more", partial(reports, 0, MORE_REPORTS, MORE_WORDS), config, more)
    large_chunks = sum(large["chunks"].values())
    large_mb = sum(len(one.text.encode()) for part in reports(0, MORE_REPORTS, MORE_WORDS) for one in part) / 1e6
    chunks, tokens = manifest["chunks"], manifest["document_tokens"]
    everything, texts = sum(chunks.values()), manifest["work"]["texts_embedded"]
    archive, text_mb = Archive.open(work / "archive"), sum(len(one.text.encode()) for one in raw) / 1e6
    embedded_tokens = sum(
        row
        for size in archive.granularities
        for shard in (archive.shard(size, number) for number in range(archive.n_shards))
        for row in (chunk.n_tokens for chunk in shard.chunks(range(shard.n_chunks)))
    )
    sizes = weigh(work / "archive")
    return {
        "sizes": list(archive.granularities),
        "precision": encoder.precision,
        "reports": len(raw),
        "more_reports": MORE_REPORTS,
        "more_chunks": large_chunks,
        "text_mb": text_mb,
        "tokens": tokens,
        "chunks": everything,
        "texts_embedded": texts,
        "chunks_a_token": {size: count / tokens for size, count in chunks.items()},
        "mb_a_token": text_mb / tokens,
        "read_s_a_mb": more.seconds["read"] / large_mb,
        "chunk_s": more.seconds["chunk"] / large_chunks,
        "embed_texts_a_s": texts / meter.seconds["encode"],
        # Texts that stand twice are embedded once.
        "embed_tokens_a_s": embedded_tokens * texts / everything / meter.seconds["encode"],
        "vectors_s": more.seconds["vectors"] / large_chunks,
        "build_s": more.seconds["build"] / large_chunks,
        "bytes_a_chunk": {name: sizes[name]["bytes"] / everything for name in ("chunks", "vectors", "index")},
        "bytes_a_token": sizes["documents"]["bytes"] / tokens,
    }


def _search(work: Path) -> Section:
    archive = open_archive(work / "synthetic", SHARD_CHUNKS, 1)
    flat = archive.shard(GRANULARITY, 0)
    chunks = flat.chunks(range(flat.n_chunks))
    asked = questions([chunk.text for chunk in chunks], np.asarray(flat.vectors), QUESTIONS)
    ivf = work / "ivf"
    shutil.rmtree(ivf, ignore_errors=True)
    (name,) = archive.manifest["files"]["index"][str(GRANULARITY)]
    held = BaseShard.open(layout.granularity_folder(archive.folder, GRANULARITY).at(name))
    folder = Folder.of(ivf)
    seconds = []
    for dense in (DenseConfig(), DenseConfig(index="ivf", above=SHARD_CHUNKS // 2)):
        started = time.process_time()
        write_shard(folder, GRANULARITY, held.rows, held.vectors, dense)
        seconds.append(time.process_time() - started)
    approximate = Shard.open(folder)
    about: Any = (folder.read_manifest() or {}).get("approximate")
    cases = {"document": (flat, True), "flat": (flat, False), "ivf": (approximate, False)}
    spent: dict[str, list[float]] = {name: [] for name in cases}
    for each in asked:
        for name, (shard, scoped) in cases.items():
            scope = (each.doc_id,) if scoped else ()
            spent[name].append(asyncio.run(_search_s([LocalShard(shard)], each.query, each.vector, scope)))
    medians = {name: statistics.median(values) for name, values in spent.items()}
    return {
        "shard_chunks": SHARD_CHUNKS,
        "document_chunks": CHUNKS_A_DOCUMENT,
        "document_s": medians["document"],
        "flat_s_a_chunk": medians["flat"] / SHARD_CHUNKS,
        "ivf_s_a_chunk": medians["ivf"] / SHARD_CHUNKS,
        "ivf_recall_in_build": about["recall"] if about else None,
        "ivf_cells_visited": about["effort"] if about else None,
        "ivf_build_s": (seconds[1] - seconds[0]) / SHARD_CHUNKS,
        "ivf_bytes": (Path(folder.path) / layout.APPROXIMATE).stat().st_size / SHARD_CHUNKS if about else 0.0,
    }


async def _search_s(clients: list[LocalShard], query: str, vector: Any, scope: tuple[str, ...]) -> float:
    spent = []
    for _ in range(3):
        started = time.process_time()
        await search(clients, query, vector, scope, K)
        spent.append(time.process_time() - started)
    return min(spent)


def _question(work: Path) -> Section:
    from benchmarks.nightly.watch import Watch
    from okralong.pipelines.llm.journal import read_run_table
    from tests.fakes.endpoint.process import EndpointProcess

    _have_archive(work)
    settings = yaml.safe_load(shipped_config("answer.yaml"))
    settings["concurrency"] = 1
    shutil.rmtree(work / "run", ignore_errors=True)
    with EndpointProcess({"seed": 1, "models": {LLM: {}}, "latency": {}}) as endpoint:
        named = {"base_url": endpoint.base_url, "model": LLM, "window": 128_000}
        settings["llm"].update(named | {"demonstrations": False, "calculator": False})
        (work / "answer.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        command = [sys.executable, "-m", "okralong.jobs.cli", "answer", str(work / "archive")]
        watch = Watch()
        command += ["--questions", str(work / "questions.jsonl"), "--run", str(work / "run")]
        watch.run([*command, "--config", str(work / "answer.yaml")])
    rows, journal = (read_run_table(Folder.of(work / "run"), name).to_pylist() for name in ("answers", "journal"))
    ends = sorted(row["finished_at"].timestamp() for row in rows)
    early = len(ends) // 4
    first, last = watch.at(ends[early]), watch.at(ends[-1])
    stages = [dict(row["seconds"]) for row in rows]
    asking = {stage for each in stages for stage in each} - {"total", "retrieve", "analyze", "select"}
    for each in stages:
        each["rest"] = each["total"] - sum(spent for stage, spent in each.items() if stage != "total")
        each["generator"] = sum(each.get(stage, 0.0) for stage in asking)
    named_stages = ("retrieve", "analyze", "generator", "rest", "total")
    processor = Watch.between(first, last)
    return {
        "questions": len(rows),
        "calls": statistics.mean(row["calls"] for row in rows),
        "retrievals": sum(row["kind"] == "retrieval" for row in journal) / len(rows),
        "stages_clock_s": {name: statistics.median(each.get(name, 0.0) for each in stages) for name in named_stages},
        "question_s": sum(processor.values()) / sum(ends[early] < end <= last.at for end in ends),
        "question_s_by_process": dict(list(processor.items())[:6]),
        "questions_counted": sum(ends[early] < end <= last.at for end in ends),
        **_alone(work),
    }


def _alone(work: Path) -> Section:
    """Measure a question's analysis and vector in this process, without Ray, Serve or batching."""
    from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
    from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
    from okralong.pipelines.indexing.embedding import SentenceEmbedder

    archive = Archive.open(work / "archive")
    shard = archive.shard(archive.granularities[0], 0)
    asked = [json.loads(line)["question"] for line in (work / "questions.jsonl").read_text().splitlines()][:24]
    inputs = [
        AnalysisInput(question, tuple(chunk.text for chunk in shard.chunks(range(3 * at, 3 * at + 3))))
        for at, question in enumerate(asked)
    ]
    analyzer = load_analyzer(AnalyzerConfig(kind="heads"))
    encoder = SentenceEmbedder(resolve_embedding_model("embedded").path, threads=1)
    return {
        "analysis_s": statistics.median(_spent(analyzer.analyze, [one]) for one in inputs),
        "analysis_in_batches_s": min(_spent(analyzer.analyze, inputs) for _ in range(3)) / len(inputs),
        "query_vector_s": statistics.median(_spent(encoder.encode_queries, [one]) for one in asked),
    }


def _spent(do: Callable[..., object], *arguments: object) -> float:
    started = time.process_time()
    do(*arguments)
    return time.process_time() - started


def _shards(work: Path) -> Section:
    import ray

    from okralong.actors.cluster import connected
    from okralong.actors.shards import RayShard, Replicas, start_index_shards

    _have_archive(work)
    archive = Archive.open(work / "archive")
    size = archive.granularities[0]
    shard = archive.shard(size, 0)
    terms = shard.chunks([0])[0].text.lower().split()[:QUESTION_WORDS]
    with connected(None):
        ((actor,),) = start_index_shards(archive.location, [[None]])
        ray.get(actor.ready.remote())
        client = RayShard(Replicas([actor]), size)

        async def ask(times: int) -> None:
            for _ in range(times):
                await client.statistics(terms, None)

        asyncio.run(ask(20))
        process = next(each for each in psutil.process_iter() if _is_shard(each))
        inside = _spent(lambda: [shard.statistics(terms, None) for _ in range(CALLS)])
        before = _of(process)
        caller = _spent(lambda: asyncio.run(ask(CALLS)))
        callee = _of(process) - before
        memory = process.memory_full_info()
        ray.kill(actor)
    return {
        "shard_call_s": (caller + callee - inside) / CALLS,
        "shard_call_caller_s": caller / CALLS,
        "process_bytes": memory.uss,
    }


def _is_shard(process: psutil.Process) -> bool:
    try:
        return any(word.startswith("ray::IndexShard") for word in process.cmdline())
    except psutil.Error:
        return False


def _of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _have_archive(work: Path) -> None:
    if not (work / "archive" / "versions").exists():
        _index(work)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


SECTIONS: Final[dict[str, Callable[[Path], Section]]] = {
    "index": _index,
    "search": _search,
    "question": _question,
    "shards": _shards,
}


def report(found: dict[str, dict[str, Any]]) -> str:
    """Return costs.md: one row per unit cost of the measured sections."""
    machine = found.get("machine", {})
    text = (
        f"# Unit costs\n\n`python -m benchmarks.scaling.costs`, {machine.get('processor', '')}, "
        f"{machine.get('cores', '?')} core\n\n| what | cost |\n|---|---|\n"
    )
    rows: list[tuple[str, str]] = []
    if "index" in found:
        rows += _index(found["index"])
    if "search" in found:
        rows += _search(found["search"])
    if "question" in found:
        rows += _question(found["question"])
    if "shards" in found:
        one = found["shards"]
        rows.append(
            ("a call to the process of a shard, both sides, without its work", f"{1000 * one['shard_call_s']:.2f} ms")
        )
        rows.append(("of it the caller's", f"{1000 * one['shard_call_caller_s']:.2f} ms"))
        rows.append(("private memory of the process of a small shard", f"{one['process_bytes'] / 2**20:.0f} MiB"))
    rows.append(("embedding on a GPU: chunks/s and utilisation", "not measured: no GPU was at hand"))
    return text + "".join(f"| {what} | {cost} |\n" for what, cost in rows)


def _index(one: dict[str, Any]) -> list[tuple[str, str]]:
    sizes = ", ".join(map(str, one["sizes"]))
    per = one["bytes_a_chunk"]
    return [
        (
            f"measured on: {one['reports']} made-up reports, plain text, {one['text_mb']:.2f} MB, {one['tokens']:,} "
            f"tokens, {one['chunks']:,} chunks of {sizes} tokens; stages but embedding on "
            f"{one['more_reports']} reports, {one['more_chunks']:,} chunks",
            "",
        ),
        ("reading plain text, tables and tokens found", f"{one['read_s_a_mb']:.3f} s/MB"),
        ("chunking", f"{1000 * one['chunk_s']:.3f} s per 1,000 chunks"),
        (
            f"embedding, {one['precision']}",
            f"{one['embed_texts_a_s']:.1f} texts/s, {one['embed_tokens_a_s']:,.0f} o200k tokens/s",
        ),
        ("which texts to embed, vector files, their index", f"{1000 * one['vectors_s']:.3f} s per 1,000 chunks"),
        ("building flat shards", f"{1000 * one['build_s']:.3f} s per 1,000 chunks"),
        ("disk: vectors", f"{per['vectors']:,.0f} bytes a chunk"),
        ("disk: shards", f"{per['index']:,.0f} bytes a chunk"),
        ("disk: table of chunks", f"{per['chunks']:,.0f} bytes a chunk"),
        ("disk: documents", f"{one['bytes_a_token']:.2f} bytes a token"),
        ("chunks of all sizes", f"{1000 * sum(one['chunks_a_token'].values()):.1f} per 1,000 tokens"),
    ]


def _search(one: dict[str, Any]) -> list[tuple[str, str]]:
    recall = one["ivf_recall_in_build"]
    ivf = f"recall {recall:.3f} in its build, {one['ivf_cells_visited']} cells visited" if recall else "stayed flat"
    return [
        (
            f"both retrievers in one document of {one['document_chunks']} chunks, warm",
            f"{1000 * one['document_s']:.3f} ms",
        ),
        (
            f"both in everything, flat ({one['shard_chunks']:,} chunks in a shard)",
            f"{1e8 * one['flat_s_a_chunk']:.2f} ms per 100,000 chunks",
        ),
        (f"the same, `dense: ivf` ({ivf})", f"{1e8 * one['ivf_s_a_chunk']:.2f} ms per 100,000 chunks"),
        (
            "building the inverted file, beside the flat shard",
            f"{1000 * one['ivf_build_s']:.2f} s per 1,000 chunks, {one['ivf_bytes']:,.0f} bytes a chunk",
        ),
    ]


def _question(one: dict[str, Any]) -> list[tuple[str, str]]:
    clock = one["stages_clock_s"]
    return [
        ("the question's vector, alone", f"{1000 * one['query_vector_s']:.1f} ms"),
        (
            "analysis (heads), alone; in a batch",
            f"{1000 * one['analysis_s']:.1f} ms; {1000 * one['analysis_in_batches_s']:.1f} ms",
        ),
        (
            f"a question of `okralong answer`, all processes, {one['retrievals']:.1f} retrievals and "
            f"{one['calls']:.2f} calls of the generator (its own time not counted)",
            f"{one['question_s']:.2f} s of processor",
        ),
        (
            "by the clock, one at a time, medians: retrieve (vectors, Serve and Ray included), analyze, generator, "
            "rest (plan, context, prompt, records)",
            ", ".join(f"{1000 * clock[name]:.0f}" for name in ("retrieve", "analyze", "generator", "rest")) + " ms",
        ),
    ]


if __name__ == "__main__":
    main()
