"""What a run's batches need to know before it starts: the run's id, and until when they may be handed in."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

from okralong.actors.planner import DeskPlan
from okralong.jobs.run_folder import BEGUN
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.batch import Past
from okralong.pipelines.llm.config import LlmConfig, read_deadline


def desk_plan(folder: Folder, llm: LlmConfig, complete: bool, now: datetime | None = None) -> DeskPlan | None:
    """Whether this start of a run needs a desk: in batch mode, or to fetch what an earlier start left in batches.

    Real time is a deadline that has passed: what was handed in before is cancelled or fetched, and never asked twice.
    A deadline is kept in ``run.json`` as the moment that it first meant, so that "06:00" stays that morning when a
    killed run goes on after it. It is read anew when it is said in other words, or the run was ``complete`` before.
    """
    now = now or datetime.now(UTC)
    begun: dict[str, Any] = json.loads(folder.read_bytes(BEGUN))
    if llm.mode != "batch":
        if not begun.get("batches") or not Past.load(folder).open:
            return None
        return DeskPlan(begun["run_id"], now)
    said = llm.batch.deadline
    kept = begun.get("deadline") or {}
    if said is None:
        deadline = None
    elif kept.get("said") == said and not complete:
        deadline = kept
    else:
        deadline = {"said": said, "at": read_deadline(said, now).isoformat()}
    run_id = str(begun.get("run_id") or uuid.uuid4().hex)
    known: dict[str, Any] = {"batches": True, "deadline": deadline, "run_id": run_id}
    if begun | known != begun:
        folder.write_bytes(BEGUN, json.dumps(begun | known, indent=2, sort_keys=True).encode())
    return DeskPlan(run_id, None if deadline is None else datetime.fromisoformat(deadline["at"]))
