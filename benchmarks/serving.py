"""Measure a service under load: throughput, errors and the memory of its processes over time.

    python -m benchmarks.serving demo/archive demo/sample/questions.jsonl --out benchmarks/results/serving.md

Clients keep ``--in-flight`` questions in flight for ``--minutes`` over HTTP, at a scripted endpoint whose replies take
a median of half a second. No cross-encoder ranks (policy paper), which would be most of the work and is the same in
both. Every question is asked once: the sample's questions, each with a number. Afterwards the
first questions are answered once more by `okralong answer` in one process, with as many in flight, and the service's
throughput is compared with that of the run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil
import yaml

from benchmarks.nightly.watch import role_of
from okralong.pipelines.core.child_process import module_command, module_environment
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from okralong.pipelines.serving.tokens import add_token
from tests.fakes.endpoint.process import EndpointProcess

MODEL: Final = "gpt-4o"
START_S: Final = 600.0
MOST_IN_RUN: Final = 1_000
"""Questions of the run that the service is compared with."""


@dataclass
class Load:
    """What the clients saw: HTTP statuses, seconds of each answer, and MiB by role at each look."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    looks: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    wall_s: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--in-flight", type=int, default=50)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    scenario: Mapping[str, Any] = {"seed": 1, "models": {MODEL: {}}, "latency": {"median_s": 0.5}}
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="okralong-serving-") as name, EndpointProcess(scenario) as endpoint:
        folder = Path(name)
        config = _config(folder, endpoint.base_url, given.in_flight)
        token = add_token(folder / "tokens.yaml", "load", 1_000.0, 1_000_000)
        with _service(folder, given.archive, config) as (url, process):
            seen = asyncio.run(_load(url, token, _questions(given.questions), given, psutil.Process(process.pid)))
        unpaid = float(endpoint.bill_usd) - _billed(folder)
        asked = list(itertools.islice(_questions(given.questions), min(MOST_IN_RUN, seen.statuses["200"])))
        run_per_s = _run_per_s(folder, given.archive, config, asked)
    text = _report(given, seen, run_per_s, unpaid, load_before)
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


def _config(folder: Path, url: str, in_flight: int) -> Path:
    config = yaml.safe_load(shipped_config("answer.yaml"))
    config |= {"analyzer": {"kind": "rules"}, "policy": "policy/paper.yaml", "confidence": "none"}
    config |= {"concurrency": in_flight, "own_process": 4096, "budget_usd": 1_000.0}
    config["llm"] |= {"base_url": url, "model": MODEL, "window": 128_000, "max_in_flight": in_flight}
    (folder / "answer.yaml").write_text(yaml.safe_dump(config))
    return folder / "answer.yaml"


def _questions(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the sample's questions again and again, each with a number that no other has."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for number, row in enumerate(itertools.cycle(rows)):
        yield {"question": f"{row['question']} (Case {number}.)", "doc_ids": row.get("doc_ids") or []}


@contextmanager
def _service(folder: Path, archive: Path, config: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    words = ["serve", str(archive), "--config", str(config), "--tokens", str(folder / "tokens.yaml"), "--port", "0"]
    log = folder / "log.txt"
    with log.open("w") as out:
        command = module_command("okralong", *words, "--folder", str(folder / "days"))
        environment = module_environment() | {"OPENAI_API_KEY": "sk-none"}
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        deadline = time.monotonic() + START_S
        while (found := re.search(r"http://[\d.:]+", log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"The service did not start: {log.read_text()}")
            time.sleep(0.5)
        yield found[0], process
    finally:
        process.terminate()  # a command in the background may ignore SIGINT
        process.wait(120)


async def _load(
    url: str, token: str, questions: Iterator[dict[str, Any]], given: argparse.Namespace, service: psutil.Process
) -> Load:
    seen, started = Load(), time.monotonic()
    until = started + 60 * given.minutes
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    limits = httpx2.Limits(max_connections=given.in_flight)
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=300, limits=limits) as client:

        async def ask() -> None:
            while time.monotonic() < until:
                begun = time.monotonic()
                try:
                    reply = await client.post("/ask", json=next(questions))
                    seen.statuses[str(reply.status_code)] += 1
                    seen.seconds.append(time.monotonic() - begun)
                except httpx2.TransportError as error:
                    seen.statuses[type(error).__name__] += 1

        async def look() -> None:
            every = max(5.0, 60 * given.minutes / 10)
            while True:
                seen.looks.append((time.monotonic() - started, await asyncio.to_thread(_memory, service)))
                await asyncio.sleep(every)

        looking = asyncio.create_task(look())
        await asyncio.gather(*(ask() for _ in range(given.in_flight)))
        seen.wall_s = time.monotonic() - started
        looking.cancel()
        seen.looks.append((seen.wall_s, _memory(service)))
    return seen


def _memory(service: psutil.Process) -> dict[str, float]:
    """Return MiB of proportional set size by role (shared pages count once)."""
    found: defaultdict[str, float] = defaultdict(float)
    for process in [service, *service.children(recursive=True)]:
        try:
            found[role_of(process)] += process.memory_full_info().pss / 2**20
        except psutil.Error:
            continue
    return dict(found)


def _billed(folder: Path) -> float:
    days = [each for each in (folder / "days").iterdir() if each.name.startswith("20")]
    rows = [row for day in days for row in table(Folder.of(day), "ledger", ["status", "cost_usd"])]
    return sum(row["cost_usd"] for row in rows if row["status"] == "ok")


def _run_per_s(folder: Path, archive: Path, config: Path, asked: list[dict[str, Any]]) -> float:
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, asked)))
    words = ["answer", str(archive), "--questions", str(folder / "questions.jsonl"), "--run", str(folder / "run")]
    command = module_command("okralong", *words, "--config", str(config))
    environment = module_environment() | {"OPENAI_API_KEY": "sk-none"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    times = sorted(row["finished_at"] for row in table(Folder.of(folder / "run"), "answers", ["finished_at"]))
    if len(times) < 2:
        raise SystemExit(f"The run answered nothing: {done.stdout}{done.stderr}")
    return (len(times) - 1) / (times[-1] - times[0]).total_seconds()


def _report(given: argparse.Namespace, seen: Load, run_per_s: float, unpaid: float, load_before: float) -> str:
    answered, seconds = seen.statuses["200"], sorted(seen.seconds)
    rate = answered / seen.wall_s
    errors = {name: count for name, count in seen.statuses.items() if name != "200"}
    lines = [
        "# A service under load",
        "",
        f"`python -m benchmarks.serving {' '.join(sys.argv[1:])}` on {os.cpu_count()} cores, load {load_before:.1f} "
        f"before and {os.getloadavg()[0]:.1f} after.",
        "",
        "| | |",
        "|---|---|",
        f"| questions in flight | {given.in_flight} |",
        f"| minutes | {seen.wall_s / 60:.1f} |",
        f"| answered | {answered:,} |",
        f"| errors | {errors or 'none'} |",
        f"| answers a second | {rate:.2f} |",
        f"| seconds to an answer, median and 95th percentile | {seconds[len(seconds) // 2]:.2f}, "
        f"{seconds[int(0.95 * len(seconds))]:.2f} |",
        f"| answers a second of `okralong answer` in one process, as many in flight | {run_per_s:.2f} |",
        f"| ratio of the service to the run | {rate / run_per_s:.2f} |",
        f"| the endpoint's bill minus the ledger | ${unpaid:.6f} |",
        "",
        "MiB of proportional set size, by process and second:",
        "",
    ]
    roles = sorted(
        {role for _, sizes in seen.looks for role in sizes}, key=lambda role: -seen.looks[-1][1].get(role, 0)
    )
    shown = roles[:4]
    lines += [f"| second | all | {' | '.join(shown)} |", "|---" * (len(shown) + 2) + "|"]
    for at, sizes in seen.looks:
        each = " | ".join(f"{sizes.get(role, 0.0):.0f}" for role in shown)
        lines.append(f"| {at:.0f} | {sum(sizes.values()):.0f} | {each} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
