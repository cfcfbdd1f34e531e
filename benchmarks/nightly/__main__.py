"""Measure a night's questions with the scripted endpoint: what is added to the endpoint's time, and what limits it.

    python -m benchmarks.nightly --out benchmarks/results/nightly.md
    python -m benchmarks.nightly --questions 60 --in-flight 8 --wide 16 --latency 0.2      # a quick look, some minutes

Indexes a generated archive, answers the questions once without latency, and then again with only the generator's
replies removed, so that analyses, plans and retrieved chunks are replayed: at ``--in-flight``, at ``--wide``, and at
both with limits of ``--share`` of the tokens per minute (the tighter limit) that passed without any. The endpoint draws
log-normal latencies and enforces limits per second, counting prompt and longest reply at admission. Between the runs a
bare loop over AsyncOpenAI sends the same requests to the same endpoint. Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from benchmarks.nightly.figures import Figures, figures
from benchmarks.nightly.report import Goal, goals, report
from benchmarks.nightly.work import MODEL, Work, bare
from tests.fakes.endpoint.process import EndpointProcess

REQUESTS_OVER_TOKENS = 1.5
"""How much looser the limit of requests is than that of tokens."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--wide", type=int, default=256, help="the second number of questions in flight; 0: none")
    parser.add_argument("--latency", type=float, default=1.0, help="median seconds of a reply")
    parser.add_argument("--share", type=float, default=0.5, help="of the throughput without limits; 0: no limits")
    parser.add_argument("--early", type=int, help="the question at which memory is looked at first; else a fifth")
    parser.add_argument("--keep", type=Path, help="a folder to work in that stays, for a look at what was written")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    scenario: dict[str, Any] = {"seed": 1, "models": {MODEL: {}}, "latency": {"median_s": given.latency}}
    runs: list[Figures] = []
    peers: dict[int, dict[str, float]] = {}
    with ExitStack() as held:
        folder = given.keep or Path(held.enter_context(tempfile.TemporaryDirectory()))
        endpoint = held.enter_context(EndpointProcess({**scenario, "latency": {}}))
        work = Work(folder, endpoint.base_url, given.questions)
        work.learn(given.in_flight)
        first = f"{work.first_pass():.1f} questions a second, {given.in_flight} in flight"
        for in_flight in filter(None, (given.in_flight, given.wide)):
            free = _measured(work, endpoint, scenario, in_flight, given.early or given.questions // 5)
            runs.append(free)
            endpoint.reset(scenario)
            peers[in_flight] = bare(work.requests(_name(in_flight, scenario)), endpoint.base_url, in_flight)
            if given.share:
                tokens, requests = (int(free.per_minute[name] * given.share) for name in ("tokens", "requests"))
                limits = {"tokens_per_minute": tokens, "requests_per_minute": int(requests * REQUESTS_OVER_TOKENS)}
                limited = {**scenario, "limits": limits}
                runs.append(_measured(work, endpoint, limited, in_flight, given.early or given.questions // 5))
    command = f"python -m benchmarks.nightly {' '.join(sys.argv[1:])}".strip()
    text = report(command, given.latency, runs, peers, first)
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    missed: list[Goal] = [goal for goal in goals(runs, peers) if not goal.met]
    sys.exit(int(bool(missed)))


def _measured(work: Work, endpoint: EndpointProcess, scenario: dict[str, Any], in_flight: int, early: int) -> Figures:
    endpoint.reset(scenario)
    before = _processor_s(endpoint.pid)
    run = _name(in_flight, scenario)
    seen = work.answer(run, in_flight, scenario.get("limits"))
    spent = _processor_s(endpoint.pid) - before
    found = figures(work, run, seen, endpoint, scenario, in_flight, early, spent)
    print(found, file=sys.stderr, flush=True)  # as it comes: the whole takes long
    return found


def _processor_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _name(in_flight: int, scenario: dict[str, Any]) -> str:
    return f"{'limited' if 'limits' in scenario else 'free'}-{in_flight}"


if __name__ == "__main__":
    main()
