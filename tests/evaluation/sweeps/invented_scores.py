"""Rows of ``scores`` without a run: a method, a set, and F1 by question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okralong.lab.sweeps.schemas import SCORES


def score(query_id: str, f1: float | None, cluster: str, kind: str = "extractive", **more: Any) -> dict[str, Any]:
    row = dict.fromkeys(SCORES.names)
    row |= {"query_id": query_id, "f1": f1, "cluster": cluster, "type": kind, "status": "answered"}
    return {**row, "variant": "default", "seed": 7, "weighted_tokens": 100, **more}


def cell(method: str, name: str, marks: Mapping[str, tuple[float | None, str]], **more: Any) -> list[dict[str, Any]]:
    """A cell whose questions have these marks and clusters."""
    variant, seed = more.get("variant", "default"), more.get("seed", 7)
    named = {"method": method, "set": name, "cell": f"{method}__{name}__{variant}__{seed}"}
    return [score(query_id, f1, cluster, **{**named, **more}) for query_id, (f1, cluster) in marks.items()]
