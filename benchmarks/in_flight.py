"""What 255 more questions in flight cost in memory: peak of a whole run's processes at 1 and at 256 in flight.

    python -m benchmarks.in_flight --out benchmarks/results/in_flight.md

Indexes a small made-up archive, then answers 256 questions over it twice with `okralong answer`, against a scripted
endpoint in this process that takes a second for each reply (a tenth of one for the run with 1 in flight). Memory is the
proportional set size (shared pages counted once) of the driver and all its descendants, sampled five times a second.
Exits 1 when the difference passes the limit of 0.5 GiB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.samples.questions import generate, write_sample
from tests.fakes.openai_server import FakeOpenAI

LIMIT_GIB = 0.5
QUESTIONS = 256
POLL_S = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_sample(generate(reports=8, questions=QUESTIONS, seed=5, words=2_000), work)
        subprocess.run(_okralong("index", work / "archive", "--from", work / "reports"), check=True)
        rows = [_measure(work, in_flight) for in_flight in (1, 256)]
    (one, one_processes, one_s), (many, many_processes, many_s) = rows
    extra = many - one
    text = (
        f"# Memory of questions in flight\n\n`python -m benchmarks.in_flight`, {QUESTIONS} questions, okralong, "
        f"{os.cpu_count()} cores\n\n| in flight | peak, GiB | most processes | seconds |\n|---|---|---|---|\n"
        f"| 1 | {one:.2f} | {one_processes} | {one_s:.0f} |\n| 256 | {many:.2f} | {many_processes} | {many_s:.0f} |\n\n"
        f"Difference {extra:+.2f} GiB against a limit of {LIMIT_GIB} GiB: {extra / LIMIT_GIB:.2f} of it.\n"
    )
    print(text)
    if out:
        out.write_text(text)
    sys.exit(int(extra > LIMIT_GIB))


def _okralong(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "okralong.jobs.cli", *map(str, arguments)]


def _measure(work: Path, in_flight: int) -> tuple[float, int, float]:
    rules = [(lambda messages: True, "Answer: one")]
    with FakeOpenAI(rules=rules, models=["gpt-4o"], delay_s=1.0 if in_flight > 1 else 0.1) as server:
        settings = yaml.safe_load(shipped_config("answer.yaml"))
        settings["llm"].update(base_url=server.base_url, model="gpt-4o", window=128_000, max_in_flight=in_flight)
        settings["concurrency"] = in_flight
        config = work / f"{in_flight}.yaml"
        config.write_text(yaml.safe_dump(settings))
        asked = ("--questions", work / "questions.jsonl", "--run", work / f"run-{in_flight}", "--config", config)
        started = time.monotonic()
        process = subprocess.Popen(_okralong("answer", work / "archive", *asked), stdout=subprocess.DEVNULL)
        peak, processes = 0.0, 0
        while process.poll() is None:
            family = _family(process.pid)
            peak, processes = max(peak, sum(map(_pss_gib, family))), max(processes, len(family))
            time.sleep(POLL_S)
    if process.returncode:
        raise SystemExit(f"okralong answer ended with {process.returncode}")
    return peak, processes, time.monotonic() - started


def _family(pid: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    family, todo = [], [pid]
    while todo:
        one = todo.pop()
        family.append(one)
        todo += children.get(one, [])
    return family


def _pss_gib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 2**20


if __name__ == "__main__":
    main()
