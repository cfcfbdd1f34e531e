"""What Ray's metrics show of a run, as Prometheus would read it; what the dashboard draws; what logs name."""

from __future__ import annotations

import io
import json
import logging
import re
import time
import urllib.request
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ray

from okralong.actors.gateway import start_gateway
from okralong.pipelines.core import log as logs
from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.records import Call, Outcome
from tests.conftest import CHECKOUT

REPORT_S = 60.0
"""Ray reports every 10 s; more on a busy machine."""


def exported(needle: str, *names: str) -> str:
    """The lines of this node's metrics that hold ``needle``, as soon as there are some of each name.

    Ray may report between two metrics that are set one after the other, so the first lines may not be all.
    """
    nodes: Any = ray.nodes
    address = f"http://127.0.0.1:{nodes()[0]['MetricsExportPort']}/metrics"
    deadline = time.monotonic() + REPORT_S
    while True:
        page = urllib.request.urlopen(address, timeout=10).read().decode()
        lines = [line for line in page.splitlines() if needle in line and not line.startswith("#")]
        shown = "\n".join(lines)
        if all(name in shown for name in names) or time.monotonic() > deadline:
            return shown
        time.sleep(0.5)


def test_a_run_shows_calls_tokens_and_dollars_once(ray_cluster: None, tmp_path: Path) -> None:
    model = f"model-{uuid.uuid4().hex[:6]}"
    gateway = start_gateway(str(tmp_path), None)
    call = Call("c1", 1, "q1", "generate", 0, "generate", model, "h", 2.5, 1.25, 10.0, 0.5, 0.2, datetime.now(UTC))
    usage = Usage(prompt_tokens=1000, cached_tokens=0, completion_tokens=50)
    outcome = Outcome(call, "ok", 200, usage, 0.003, 0.4, reply="{}")
    ray.get(gateway.books.remote("intend", call))
    for _ in range(2):  # the second settlement of an attempt changes nothing
        ray.get(gateway.books.remote("settle", outcome))
    shown = exported(model, "llm_calls", "llm_usd", "llm_tokens", "llm_queue_seconds_sum")
    ray.kill(gateway)
    values = dict(re.findall(r"^ray_okralong_(\w+?)(?:_total)?\{[^}]*\} (\S+)$", shown, re.MULTILINE))
    assert float(values.get("llm_calls", 0)) == 1, shown
    assert float(values["llm_usd"]) == 0.003
    assert float(values["llm_queue_seconds_sum"]) == 0.2
    assert re.search(r'llm_tokens\w*\{[^}]*kind="prompt"[^}]*\} 1000', shown), shown


def test_the_dashboard_draws_every_metric_and_no_other() -> None:
    code = "".join(file.read_text() for file in (CHECKOUT / "okralong" / "actors").glob("*.py"))
    defined = set(re.findall(r'"(okralong_[a-z_]+)",', code))
    dashboard = json.loads((CHECKOUT / "deploy" / "grafana.json").read_text())
    drawn = {
        name.removesuffix("_bucket")
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"ray_(okralong_[a-z_]+)", target["expr"].replace("(_total)?", ""))
    }
    assert drawn == defined
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_a_log_line_names_the_run_and_the_question() -> None:
    written = io.StringIO()
    logger = logging.getLogger("okralong.actors.planner")
    kept = logging.getLogger(logs.ROOT)
    before = kept.handlers[:], kept.level, kept.propagate
    try:
        logs.log_as_json("s3://b/run", written)
        token = logs.query_id.set("q7")
        logger.info("%s in %.1f s", "answered", 2.0)
        logs.query_id.reset(token)
        try:
            raise ValueError("two\nlines")
        except ValueError:
            logger.exception("failed")
    finally:
        kept.handlers[:], kept.level, kept.propagate = before
    first, second = (json.loads(line) for line in written.getvalue().splitlines())
    assert (first["run"], first["query_id"], first["message"]) == ("s3://b/run", "q7", "answered in 2.0 s")
    assert "query_id" not in second
    assert second["error"].endswith("ValueError: two\nlines")
