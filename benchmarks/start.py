"""Measure what one question costs from the command's start to its end.

Wall-clock phases, and processor time by process.

    python -m benchmarks.start demo/archive demo/sample/questions.jsonl --out benchmarks/results/start.md

Each with the embedded generator and with the scripted endpoint: `okralong answer` with a private Ray (`own_process:
0`), in the command's own process, and in a warm session (`okralong up`); and a plain script that sequentially does what
a run does for a question: load encoder, analyzer and cross-encoder, start or call the generator, search, rank, call
once. Wall-clock time includes other load; processor seconds over the cores are the least on a quiet machine.
``--times`` repeats each, and the table shows the median.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.nightly.watch import role_of
from okralong.pipelines.core.child_process import module_command, module_environment
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.models.weights import EMBEDDED
from tests.fakes.endpoint.process import EndpointProcess

MODEL = "gpt-4o"
LOOK_S = 0.2
"""Seconds between two looks at the processes; time after a process's last look is not counted."""
PHASE = re.compile(r"^(?:answer|plain): (\w+)")


@dataclass
class Seen:
    """One start of a command.

    Seconds to each line that begins a phase and to the end, processor seconds by process, and the load before.
    """

    way: str
    clock_s: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    load: float = 0.0

    @property
    def processor_s(self) -> float:
        """Return the sum over all processes."""
        return sum(self.spent.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("archive")
    parser.add_argument("questions", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--ways", nargs="+", default=["ray", "own", "warm", "plain"])
    parser.add_argument("--generators", nargs="+", default=["embedded", "endpoint"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plain", nargs=2, metavar=("QUESTION", "BASE_URL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.plain:
        asyncio.run(_plain(given.archive, *given.plain))
        return
    seen: dict[str, list[Seen]] = {}
    scenario: Mapping[str, Any] = {"seed": 1, "models": {MODEL: {}}, "latency": {"median_s": 0.5}}
    with tempfile.TemporaryDirectory(prefix="okralong-start-") as folder, EndpointProcess(scenario) as endpoint:
        urls = {"embedded": EMBEDDED, "endpoint": endpoint.base_url}
        for generator in given.generators:
            seen[generator] = _ways(Path(folder) / generator, given, urls[generator])
    text = _report(f"python -m benchmarks.start {' '.join(sys.argv[1:])}", seen)
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


def _ways(folder: Path, given: argparse.Namespace, url: str) -> list[Seen]:
    folder.mkdir()
    with given.questions.open(encoding="utf-8") as lines:
        question = next(lines)
    one = folder / "one.jsonl"
    one.write_text(question, encoding="utf-8")
    archive = str(Path(given.archive).resolve())
    found = []
    for way in given.ways:
        config = folder / f"{way}.yaml"
        settings = yaml.safe_load(shipped_config("answer.yaml"))
        if url != EMBEDDED:
            settings["llm"] |= {"base_url": url, "model": MODEL, "window": 128_000, "tokenizer": "o200k_base"}
        config.write_text(yaml.safe_dump(settings | {"own_process": 0 if way == "ray" else 32}), encoding="utf-8")
        up = way == "warm"
        if up:
            subprocess.run(module_command("okralong", "up", archive, "--config", str(config)), check=True)
        try:
            times = []
            for number in range(given.times):
                run = str(folder / f"{way}-{number}")
                asks = ("--questions", str(one), "--run", run, "--config", str(config))
                command = module_command("okralong", "answer", archive, *asks)
                if way == "plain":
                    command = module_command(
                        "benchmarks.start", archive, str(one), "--plain", json.loads(question)["question"], url
                    )
                times.append(_watched(way, command))
                print(times[-1], file=sys.stderr, flush=True)
        finally:
            if up:
                subprocess.run(module_command("okralong", "down", archive), check=True)
        middle = statistics.median_low([one.clock_s for one in times])
        found.append(next(one for one in times if one.clock_s == middle))
    return found


def _watched(way: str, command: Sequence[str]) -> Seen:
    seen = Seen(way, load=os.getloadavg()[0])
    started = time.monotonic()
    environment = {**module_environment(), "OPENAI_API_KEY": "benchmark"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    ended = threading.Event()
    watching = threading.Thread(target=_look, args=(process.pid, ended, seen))
    watching.start()
    said = []
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if (phase := PHASE.match(line)) and phase[1] not in seen.phases:
            seen.phases[phase[1]] = time.monotonic() - started
    code = process.wait()
    seen.clock_s = time.monotonic() - started
    ended.set()
    watching.join()
    if code:
        raise SystemExit(f"{way} ended with {code}: {''.join(said[-20:])}")
    return seen


def _look(pid: int, ended: threading.Event, seen: Seen) -> None:
    spent: dict[int, tuple[str, float]] = {}
    while not ended.wait(LOOK_S):
        try:
            top = psutil.Process(pid)
            family = [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            break
        for process in family:
            try:
                times = process.cpu_times()
                role = "command" if process.pid == pid else role_of(process)
                spent[process.pid] = role, times.user + times.system
            except psutil.Error:
                continue
    by_role: dict[str, float] = defaultdict(float)
    for role, seconds in spent.values():
        by_role[role] += seconds
    seen.spent = dict(sorted(by_role.items(), key=lambda pair: -pair[1]))


async def _plain(archive: str, question: str, url: str) -> None:
    """Do what a plain script does, with okralong's parts and without its run: no journal, budget or plan."""
    told = lambda what: print(f"plain: {what} ...", flush=True)  # noqa: E731
    told("imports")
    import numpy as np
    import openai

    from okralong.pipelines.answering.analyzers.analyzer import load_analyzer
    from okralong.pipelines.answering.rerank import load_reranker
    from okralong.pipelines.archive.archive import Archive
    from okralong.pipelines.archive.search import LocalShard, search
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.indexing.query_encoder import load_query_encoder
    from okralong.pipelines.models.serving import EmbeddedServer
    from okralong.pipelines.run.config import RunConfig

    config = load_config(RunConfig, "answer.yaml", {})
    opened = Archive.open(archive)
    told("models")
    encoder = load_query_encoder(opened.manifest, 32)
    analyzer, cross_encoder = load_analyzer(config.analyzer), load_reranker(config.reranker)
    told("generator")
    stop: Callable[[], None] = lambda: None  # noqa: E731
    model = MODEL
    if url == EMBEDDED:
        server = EmbeddedServer.start(reader=config.llm.found_reader())
        url, model, stop = server.base_url, server.model, server.stop
    try:
        told("question")
        vector = np.asarray(encoder.encode_queries([question])[0], dtype=np.float32)
        shards = [LocalShard(opened.shard(opened.granularities[0], number)) for number in range(opened.n_shards)]
        found = await search(shards, question, vector, (), 20)
        texts = [hit.chunk.text for hit in (*found.exact, *found.semantic)]
        from okralong.pipelines.answering.analyzers.analysis import AnalysisInput

        analyzer.analyze([AnalysisInput(question, tuple(texts[:3]))])
        readings = cross_encoder.read([question] * len(texts), texts)
        best = sorted(range(len(texts)), key=lambda at: -readings[at].relevance)[:5]
        prompt = "\n\n".join([*(texts[at] for at in best), question])
        async with openai.AsyncOpenAI(base_url=url, api_key="benchmark") as client:
            reply = await client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": prompt}], max_tokens=160
            )
        print(reply.choices[0].message.content, flush=True)
    finally:
        told("end")
        stop()


def _report(command: str, seen: Mapping[str, Sequence[Seen]]) -> str:
    cores = psutil.cpu_count()
    lines = ["# One question, from start to end", "", f"`{command}`, {cores} cores", ""]
    for generator, ways in seen.items():
        plain = next((one for one in ways if one.way == "plain"), None)
        lines += [
            f"**Generator: {generator}**",
            "",
            "| way | clock, s | over plain | processor, s | over plain | over the cores, s | load before | "
            "phases begin at, s | of the processor |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for one in ways:
            phases = ", ".join(f"{name} {at:.1f}" for name, at in one.phases.items())
            parts = ", ".join(f"{role} {s:.1f}" for role, s in one.spent.items() if s >= 0.1)
            clock = f"{one.clock_s / plain.clock_s:.2f}" if plain else ""
            spent = f"{one.processor_s / plain.processor_s:.2f}" if plain else ""
            lines.append(
                f"| {one.way} | {one.clock_s:.1f} | {clock} | {one.processor_s:.1f} | {spent} | "
                f"{one.processor_s / (cores or 1):.1f} | {one.load:.1f} | {phases} | {parts} |"
            )
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
