"""Compare a run with other senders of the same prompts: a bare loop over the SDK, and bespokelabs-curator.

    python -m venv CURATOR && CURATOR/bin/pip install bespokelabs-curator
    python -m benchmarks.nightly.peers --curator CURATOR/bin/python --out benchmarks/results/nightly_peers.md

The questions are answered once, so that all prompts are known; then each sender sends the same prompts to the same
endpoint, with the same number in flight and no limits. Processor and wall-clock time cover whole commands, starts
included; "a call, started" covers the time from a fifth of the requests to the last. Then each is killed (kill -9)
after half of the requests and started again, and the benchmark counts replies that were charged more than once, and
missing ones.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.nightly.watch import Watch
from benchmarks.nightly.work import MODEL, Work
from tests.fakes.endpoint.process import EndpointProcess

SETTLED_S = 5.0
"""Seconds for processes of a killed command to notice it."""

Sender = Callable[[str, Callable[[], bool] | None], Watch]
"""Sends all requests, or continues those of the same name; ends when the given condition is true."""


@dataclass(frozen=True)
class Seen:
    """The figures of one sender.

    ``call_ms`` are processor milliseconds per call once started, ``whole_s`` processor seconds of the command,
    ``memory`` its peak in GiB; ``again`` replies were charged twice after a kill with ``in_flight`` in flight, and
    ``missing`` have no answer at the end.
    """

    name: str
    clock_s: float
    per_second: float
    call_ms: float
    whole_s: float
    memory: float
    in_flight: int | None = None
    again: int | None = None
    missing: int | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--curator", type=Path, help="the Python of an environment with bespokelabs-curator")
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--latency", type=float, default=1.0, help="median seconds of a reply")
    parser.add_argument("--keep", type=Path, help="a folder to work in that stays")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    scenario: dict[str, Any] = {"seed": 1, "models": {MODEL: {}}, "latency": {"median_s": given.latency}}
    with tempfile.TemporaryDirectory() as scratch, EndpointProcess({**scenario, "latency": {}}) as endpoint:
        folder = given.keep or Path(scratch)
        work = Work(folder, endpoint.base_url, given.questions)
        work.learn(given.in_flight)
        requests = work.requests("first")
        number = len(requests.read_text(encoding="utf-8").splitlines())
        bench = _Bench(endpoint, scenario, number)
        seen = [bench.measured("bare loop", _bare(requests, endpoint.base_url, given.in_flight), None)]
        ours, answered = _ours(work, given.in_flight)
        seen.append(bench.measured("okralong", ours, answered))
        if given.curator:
            curator, told = _curator(given.curator, folder, requests, endpoint.base_url, given.in_flight)
            seen.append(bench.measured("curator", curator, told))
    command = f"python -m benchmarks.nightly.peers {' '.join(sys.argv[1:])}".strip()
    text = _report(command, number, given.in_flight, given.latency, seen)
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


class _Bench:
    """One endpoint, and each sender's effect on it."""

    def __init__(self, endpoint: EndpointProcess, scenario: dict[str, Any], number: int) -> None:
        self._endpoint, self._scenario, self._number = endpoint, scenario, number

    def measured(self, name: str, send: Sender, missing: Callable[[str], int] | None) -> Seen:
        """Run to the end, and with ``missing`` once more, killed half way and continued."""
        self._endpoint.reset(self._scenario)
        moments: dict[str, float] = {}
        ended = threading.Event()
        looking = threading.Thread(target=self._look, args=(moments, ended))
        looking.start()
        began = time.monotonic()
        watch = send("whole", None)
        clock_s = time.monotonic() - began
        ended.set()
        looking.join()
        received = self._endpoint.received("chat")
        paid = [entry for entry in received if entry["billed"]]
        first, last = watch.at(moments["fifth"]), watch.samples[-1]
        spent = sum(Watch.between(first, last).values())
        admitted = [entry["admitted_s"] for entry in paid]
        found = Seen(
            name,
            clock_s,
            len(paid) / (max(admitted) - min(admitted)),
            spent / (len(paid) * 0.8) * 1e3,
            sum(last.processor_s.values()),
            max(sum(sample.resident.values()) for sample in watch.samples) / 2**30,
        )
        print(found, file=sys.stderr, flush=True)
        if missing is None:
            return found
        self._endpoint.reset(self._scenario)
        send("killed", lambda: self._came() >= self._number // 2)
        under_way = int(self._endpoint.state()["counts"]["in_flight"])
        while self._endpoint.state()["counts"]["in_flight"]:
            time.sleep(0.1)
        time.sleep(SETTLED_S)
        send("killed", None)
        paid_for = Counter(e["request_hash"] for e in self._endpoint.received("chat") if e["billed"])
        found = Seen(
            *(getattr(found, each) for each in ("name", "clock_s", "per_second", "call_ms", "whole_s", "memory")),
            in_flight=under_way,
            again=paid_for.total() - len(paid_for),
            missing=missing("killed"),
        )
        print(found, file=sys.stderr, flush=True)
        return found

    def _came(self) -> int:
        return int(self._endpoint.state()["counts"]["by_where"].get("chat", 0))

    def _look(self, moments: dict[str, float], ended: threading.Event) -> None:
        while not ended.wait(0.2):
            if self._came() >= self._number // 5:
                moments["fifth"] = time.time()
                return


def _bare(requests: Path, url: str, in_flight: int) -> Sender:
    def send(name: str, kill_when: Callable[[], bool] | None) -> Watch:
        watch = Watch()
        watch.run([sys.executable, "-m", "benchmarks.nightly.bare", str(requests), url, str(in_flight)], kill_when)
        return watch

    return send


def _ours(work: Work, in_flight: int) -> tuple[Sender, Callable[[str], int]]:
    def send(name: str, kill_when: Callable[[], bool] | None) -> Watch:
        again = kill_when is None and (work.folder / name).exists()
        return work.answer(name, in_flight, kill_when=kill_when, again=again)[0]

    def missing(name: str) -> int:
        return len(work.rows("first", "answers")) - len({row["query_id"] for row in work.rows(name, "answers")})

    return send, missing


def _curator(
    python: Path, folder: Path, requests: Path, url: str, in_flight: int
) -> tuple[Sender, Callable[[str], int]]:
    script = Path(__file__).with_name("curator.py")

    def send(name: str, kill_when: Callable[[], bool] | None) -> Watch:
        watch = Watch()
        told = [f"CURATOR_CACHE_DIR={folder / f'curator-{name}'}", "CURATOR_DISABLE_RICH_DISPLAY=1", "HF_HUB_OFFLINE=1"]
        told += ["TELEMETRY_ENABLED=0", "CURATOR_VIEWER=0"]
        # It counts tokens by cl100k_base, which tiktoken would fetch; litellm, which it depends on, carries it.
        carried = python.parents[1].glob("lib/*/site-packages/litellm/litellm_core_utils/tokenizers")
        told += [f"TIKTOKEN_CACHE_DIR={place}" for place in carried]
        out = folder / f"curator-{name}.jsonl"
        command = ["env", *told, str(python), str(script), str(requests), url, str(in_flight), str(out)]
        watch.run(command, kill_when)
        return watch

    def missing(name: str) -> int:
        wanted = len(requests.read_text(encoding="utf-8").splitlines())
        found = (folder / f"curator-{name}.jsonl").read_text(encoding="utf-8").splitlines()
        return wanted - len({json.loads(line)["number"] for line in found})

    return send, missing


def _report(command: str, number: int, in_flight: int, latency: float, seen: Sequence[Seen]) -> str:
    rows = [
        f"| {one.name} | {one.per_second:.0f} | {one.call_ms:.1f} | {one.whole_s:.0f} | {one.clock_s:.0f} | "
        f"{one.memory:.2f} | {_or_dash(one.in_flight)} | {_or_dash(one.again)} | {_or_dash(one.missing)} |"
        for one in seen
    ]
    return "\n".join(
        [
            "# The same prompts by others",
            "",
            f"`{command}`: {number} requests, {in_flight} in flight, replies after a median of {latency:g} s, "
            f"{psutil.cpu_count()} cores",
            "",
            "| | requests a second | processor ms a call, started | processor s, whole | clock s, whole | most GiB | "
            "in flight at the kill | charged twice | without an answer |",
            "|---|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


if __name__ == "__main__":
    main()
