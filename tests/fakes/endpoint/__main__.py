"""``python -m tests.fakes.endpoint --scenario FILE --port 0 --ready FILE``: the endpoint as a process of its own.

The scenario is YAML or JSON (none: every default). Port 0 takes a free one. The ready file, a JSON object with ``port``
and ``pid``, appears when requests are taken. SIGTERM and SIGINT end it; with ``--parent`` so does the end of that
process, or of the pipe at standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from pathlib import Path

from aiohttp import web

from okralong.pipelines.core.config import parse_config
from okralong.pipelines.models.serving import die_with_parent
from tests.fakes.endpoint.app import build_app
from tests.fakes.endpoint.scenario import Scenario

BACKLOG = 4096
"""Connections that may wait to be accepted: a burst of a whole night's requests."""


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.endpoint")
    parser.add_argument("--scenario", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ready", type=Path)
    parser.add_argument("--parent", type=int)
    given = parser.parse_args()
    if given.parent is not None:
        die_with_parent(given.parent)
    text = "" if given.scenario is None else given.scenario.read_text(encoding="utf-8")
    scenario = parse_config(Scenario, text, str(given.scenario))
    asyncio.run(_serve(scenario, given.host, given.port, given.ready))


async def _serve(scenario: Scenario, host: str, port: int, ready: Path | None) -> None:
    runner = web.AppRunner(build_app(scenario), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
    port = runner.addresses[0][1]
    print(f"http://{host}:{port}/v1", flush=True)
    if ready is not None:
        # Renamed into place, so that whoever waits for it never reads half of it.
        unfinished = ready.with_suffix(".part")
        unfinished.write_text(json.dumps({"port": port, "pid": os.getpid()}), encoding="utf-8")
        unfinished.rename(ready)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await runner.cleanup()


if __name__ == "__main__":
    main()
