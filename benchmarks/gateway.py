"""Measure what a call's budget, journal and ledger cost.

Processor time per process, and wall-clock time beyond replies.

    python -m benchmarks.gateway --out benchmarks/results/gateway.md
    python -m benchmarks.gateway --questions 200 --in-flight 32 --profile profiles      # and where the time goes
    python -m benchmarks.gateway --in-process      # client and gateway without Ray, and each form of a commit

Questions of one call each run over a private Ray, with the scripted endpoint in its own process. An actor replaces
``Planner`` without an archive (three steps, a plan, one call of about a thousand tokens, an answers row), so only a
run's gateway and client are measured. A bare loop over the SDK sends the same requests to the same endpoint. The
wall-clock bound is list scheduling over the latencies that the endpoint drew. ``--profile`` records each process with
py-spy for 20 s, if installed, as stacks with counts.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import ray

from benchmarks.nightly.bounds import bounds
from benchmarks.nightly.watch import role_of
from benchmarks.nightly.work import bare
from okralong.actors.cluster import NAMESPACE, connected, named_actor
from okralong.actors.gateway import GatewayClient, LedgerClient, limiter_place, start_gateway
from okralong.pipelines.core.schemas import RUN_TABLES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Message, Usage
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.ports import Steps
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.llm.records import Call, Outcome, ledger_row, reply_body
from okralong.pipelines.llm.request import LlmRequest
from tests.fakes.endpoint.draws import draw_latency
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.endpoint.scenario import Latency

MODEL = "gpt-4o"
PROMPT_CHARS = 4_000
STEPS = {"retrieval": 1_500, "analysis": 200, "plan": 300}
"""Characters of a question's steps, as in a run with the default policy."""
WARM = 40
"""Warm-up questions."""
PROFILED_S = 20
SENTENCE = "Revenue of the segment rose to 12.5 million dollars in 2021, from 11.8 in the year before. "


class Asker:
    """A planner without an archive, made remote below."""

    def __init__(self, config: LlmConfig, gateway: str) -> None:
        self._gateway = GatewayClient(named_actor(gateway))
        self._client = LlmClient(config, self._gateway)

    async def ready(self) -> bool:
        """Return True once the actor runs."""
        return True

    async def answer(self, query_id: str, text: str) -> None:
        """Answer one question up to its answers row."""
        rows = [JournalRow(query_id, kind, kind, json.dumps({"x": "y" * size})) for kind, size in STEPS.items()]
        pending = [Steps(tuple(rows), 0.01)]
        reply = await self._client.complete(
            query_id,
            "generate",
            "generate",
            _messages(text),
            recorded=lambda path, sample: None,
            pending=lambda: pending.pop() if pending else Steps(),
        )
        row = {"query_id": query_id, "question": query_id, "status": "answered", "answer": reply.text}
        await self._gateway.finish(row)


@dataclass(frozen=True)
class Seen:
    """``spent`` are processor milliseconds per call by role; ``clock_s`` and ``bound_s`` cover all measured calls."""

    in_flight: int
    planners: int
    calls: int
    clock_s: float
    bound_s: float
    spent: Mapping[str, float]
    bare_ms: float

    @property
    def ours(self) -> float:
        """Return the sum over okralong's processes."""
        return sum(ms for role, ms in self.spent.items() if role != "endpoint")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=600)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[32, 256])
    parser.add_argument("--planners", type=int, nargs="+", default=[1])
    parser.add_argument("--latency", type=float, default=1.0, help="median seconds of a reply")
    parser.add_argument("--profile", type=Path, help="a folder for py-spy's stacks")
    parser.add_argument(
        "--in-process", action="store_true", help="without Ray: client, gateway and commits by themselves"
    )
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.in_process:
        _in_process(given.questions, given.in_flight[0])
        return
    scenario = {"seed": 1, "models": {MODEL: {}}, "latency": {"median_s": given.latency}}
    seen: list[Seen] = []
    with tempfile.TemporaryDirectory() as folder, EndpointProcess(scenario) as endpoint, connected():
        for in_flight in given.in_flight:
            for planners in given.planners:
                endpoint.reset(scenario)
                run = Path(folder) / f"{in_flight}-{planners}"
                seen.append(_measured(run, endpoint, scenario, in_flight, planners, given.questions, given.profile))
                print(seen[-1], file=sys.stderr, flush=True)
    text = _report(f"python -m benchmarks.gateway {' '.join(sys.argv[1:])}".strip(), seen)
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


def _measured(
    run: Path,
    endpoint: EndpointProcess,
    scenario: Mapping[str, Any],
    in_flight: int,
    planners: int,
    questions: int,
    profile: Path | None,
) -> Seen:
    config = LlmConfig(
        base_url=endpoint.base_url, model=MODEL, window=128_000, max_in_flight=in_flight, tokenizer="o200k_base"
    )
    name = f"gateway-{uuid.uuid4().hex}"
    place = limiter_place(config, shared=False)
    gateway = start_gateway(str(run), 1_000.0, limiters=[place], name=name, namespace=NAMESPACE)
    remote: Any = ray.remote(Asker)
    askers = [remote.options(num_cpus=0, max_concurrency=in_flight).remote(config, name) for _ in range(planners)]
    ray.get([asker.ready.remote() for asker in askers])
    asked = [(f"q-{number}", _prompt(number)) for number in range(questions)]
    asyncio.run(_drive(askers, asked[:WARM], in_flight))
    spies = _spies(profile, in_flight, planners) if profile else []
    before, started = _spent(endpoint.pid), time.monotonic()
    asyncio.run(_drive(askers, asked[WARM:], in_flight))
    clock_s, after = time.monotonic() - started, _spent(endpoint.pid)
    for spy in spies:
        spy.wait()
    asyncio.run(_close(gateway))
    for actor in (*askers, gateway):
        ray.kill(actor)
    calls = questions - WARM
    received = [entry for entry in endpoint.received("chat") if entry["admitted_s"] is not None][WARM:]
    latency = Latency(**scenario["latency"])
    drawn = [draw_latency(latency, scenario["seed"], entry["request_hash"], 1) for entry in received]
    spent = {role: (after[role] - before.get(role, 0.0)) / calls * 1e3 for role in after}
    spent = {role: ms for role, ms in sorted(spent.items(), key=lambda pair: -pair[1]) if ms >= 0.05}
    endpoint.reset(dict(scenario))
    requests = run.with_suffix(".jsonl")
    with requests.open("w", encoding="utf-8") as out:
        for _, text in asked[WARM:]:
            limit = config.completion_limit("generate")
            request = LlmRequest(MODEL, endpoint.base_url, tuple(_messages(text)), limit, config.temperature)
            out.write(json.dumps(request.parameters()) + "\n")
    peer = bare(requests, endpoint.base_url, in_flight)
    bound_s = bounds(drawn, in_flight).listed
    return Seen(in_flight, planners, calls, clock_s, bound_s, spent, peer["processor_s"] / calls * 1e3)


def _in_process(questions: int, in_flight: int) -> None:
    """Print the cost of client and gateway in this process, of a bare loop, and of each form of a commit."""
    with tempfile.TemporaryDirectory() as folder, EndpointProcess({"seed": 1, "models": {MODEL: {}}}) as endpoint:
        ours = asyncio.run(_calls_in_process(Path(folder), endpoint.base_url, questions, in_flight))
        requests = Path(folder) / "requests.jsonl"
        with requests.open("w", encoding="utf-8") as out:
            for number in range(questions):
                request = LlmRequest(MODEL, endpoint.base_url, tuple(_messages(_prompt(number))), 60)
                out.write(json.dumps(request.parameters()) + "\n")
        peer = bare(requests, endpoint.base_url, in_flight)["processor_s"]
    print(f"ms a call, {in_flight} in flight: ours {ours / questions * 1e3:.2f}, bare {peer / questions * 1e3:.2f}")
    call = Call("c", 1, "q", "p", 0, "generate", MODEL, "h" * 64, 2.5, 1.25, 10.0, 0.01, 0.1, datetime.now(UTC))
    outcome = Outcome(call, "ok", 200, Usage(1000, 0, 20), 0.003, 1.0, reply='{"reply":{},"refusal":""}')
    step = {"seq": 1, "query_id": "q", "path": "p", "sample": 0, "kind": "reply", "request_hash": "h" * 64}
    step |= {"body": reply_body(outcome) + " " * STEPS["retrieval"], "written_at": datetime.now(UTC)}
    for number in (1, 4, 16):
        rows = {"ledger": [ledger_row(outcome)] * number, "journal": [step] * number}
        forms: dict[str, Callable[[], object]] = {
            "frames": lambda rows=rows: [
                pa.RecordBatch.from_pylist(found, schema=RUN_TABLES[name]).serialize() for name, found in rows.items()
            ],
            "Parquet": lambda rows=rows: [
                pq.write_table(
                    pa.Table.from_pylist(found, schema=RUN_TABLES[name]),
                    io.BytesIO(),
                    compression="none",
                    use_dictionary=False,
                )
                for name, found in rows.items()
            ],
            "JSON": lambda rows=rows: json.dumps(rows, default=datetime.isoformat, ensure_ascii=False).encode(),
        }
        print(
            f"{number} rows of two tables, µs:",
            ", ".join(f"{name} {_micros(work):.0f}" for name, work in forms.items()),
        )


def _micros(work: Callable[[], object], times: int = 500) -> float:
    work()
    started = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - started) / times * 1e6


async def _calls_in_process(run: Path, url: str, questions: int, in_flight: int) -> float:
    config = LlmConfig(base_url=url, model=MODEL, window=128_000, max_in_flight=in_flight)
    ledger = RunLedger(Folder.of(run), 1_000.0)
    client = LlmClient(config, Gateway(ledger, [LocalLimiter(config.limits)]))
    places = asyncio.Semaphore(in_flight)

    async def one(number: int) -> None:
        async with places:
            messages = _messages(_prompt(number))
            await client.complete(f"q-{number}", "generate", "generate", messages, recorded=lambda path, sample: None)

    await asyncio.gather(*(one(number) for number in range(questions, questions + WARM)))
    started = time.process_time()
    await asyncio.gather(*(one(number) for number in range(questions)))
    spent = time.process_time() - started
    await client.aclose()
    await ledger.close()
    return spent


async def _drive(askers: Sequence[Any], asked: Sequence[tuple[str, str]], in_flight: int) -> None:
    places = asyncio.Semaphore(in_flight)

    async def one(number: int, question: tuple[str, str]) -> None:
        async with places:
            await askers[number % len(askers)].answer.remote(*question)

    await asyncio.gather(*(one(number, question) for number, question in enumerate(asked)))


async def _close(gateway: Any) -> None:
    await LedgerClient(gateway).close()


def _prompt(number: int) -> str:
    return f"Question {number}: what was the revenue? {SENTENCE * (PROMPT_CHARS // len(SENTENCE))}"


def _messages(text: str) -> list[Message]:
    return [Message("system", "Answer from the passages."), Message("user", text)]


def _spent(endpoint: int) -> dict[str, float]:
    """Return processor seconds of this process and its descendants, by role."""
    me = psutil.Process()
    found: dict[str, float] = defaultdict(float)
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
            role = {me.pid: "driver", endpoint: "endpoint"}.get(process.pid) or role_of(process)
        except psutil.Error:
            continue
        found[role] += times.user + times.system
    return dict(found)


def _spies(folder: Path, in_flight: int, planners: int) -> list[subprocess.Popen[bytes]]:
    folder.mkdir(parents=True, exist_ok=True)
    spies = []
    for process in psutil.Process().children(recursive=True):
        role = role_of(process)
        if role in ("Asker", "GatewayActor"):
            out = folder / f"{role}-{in_flight}-{planners}-{process.pid}.txt"
            command = ["py-spy", "record", "-p", str(process.pid), "-d", str(PROFILED_S), "-f", "raw", "-o", str(out)]
            command[0] = str(Path(sys.executable).with_name("py-spy"))
            spies.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    return spies


def _report(command: str, seen: Sequence[Seen]) -> str:
    lines = [
        "# The books of a call",
        "",
        f"`{command}`, {psutil.cpu_count()} cores",
        "",
        "| in flight | planners | calls | clock, s | over list scheduling | processor ms a call | bare loop | of it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in seen:
        parts = ", ".join(f"{role} {ms:.1f}" for role, ms in one.spent.items())
        lines.append(
            f"| {one.in_flight} | {one.planners} | {one.calls} | {one.clock_s:.1f} | {one.clock_s / one.bound_s:.2f} | "
            f"{one.ours:.1f} | {one.bare_ms:.1f} | {parts} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
