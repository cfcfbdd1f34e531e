"""How a result came about, in words that hold on any machine: a report that is committed names no local path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from okralong.pipelines.core.storage import Folder

SHOWN = ("strategy", "concurrency", "planners", "budget_usd")
SHOWN_LLM = ("window", "max_completion_tokens", "temperature", "seed", "max_in_flight")


def shown_path(path: str) -> str:
    """A path as a report shows it: the shared data by its place beside the project, all else by its last two names."""
    names = Path(path).resolve().parts if "://" not in path else tuple(path.split("/"))
    if "shared" in names:
        return "/".join(("..", *names[names.index("shared") :]))
    return "/".join(names[-2:])


def begun_with(run: Folder) -> dict[str, Any]:
    """The command that made a run and the part of its config that matters to the figures; {} config if unknown."""
    begun = json.loads(run.read_bytes("run.json")) if run.exists("run.json") else {}
    config = begun.get("config", {})
    llm = config.get("llm", {})
    kept = {key: config[key] for key in SHOWN if key in config} | {key: llm[key] for key in SHOWN_LLM if key in llm}
    if "model" in llm:
        kept["model"] = Path(str(llm["model"])).name
    if "analyzer" in config:
        kept["analyzer"] = config["analyzer"].get("kind")
    archive = shown_path(str(begun.get("archive", "ARCHIVE")))
    command = f"okralong answer {archive} --questions QUESTIONS --run {shown_path(run.path)}"
    strategy = f" --strategy {config['strategy']}" if "strategy" in config else ""
    return {"command": command + strategy, "config": kept, "complete": run.read_manifest() is not None}
