"""What a process loads: of some there are many, and of some a person waits for the start."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

HEAVY = ("torch", "transformers", "matplotlib", "sklearn", "bpe_openai")


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("jobs.cli", (*HEAVY, "ray", "openai", "faiss")),
        ("pipelines.indexing.parser_child", (*HEAVY, "ray", "openai", "faiss", "pydantic")),
        ("actors.shards", (*HEAVY, "ray.serve", "openai", "pandas")),
        ("actors.gateway", (*HEAVY, "ray.serve", "pandas")),
        ("actors.planner", HEAVY),
    ],
)
def test_a_process_loads_nothing_large_that_it_does_not_need(module: str, without: tuple[str, ...]) -> None:
    script = f"import sys, okralong.{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not set(without) & set(loaded)
