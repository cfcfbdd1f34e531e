"""The benchmark of a GPU runs through on a CPU, in small, without okralong, and says so where there is no GPU."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import CHECKOUT

SCRIPT = CHECKOUT / "benchmarks" / "gpu.py"


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *words], cwd=tmp_path, capture_output=True, text=True, check=False)


def test_every_stage_gives_its_figures(tmp_path: Path) -> None:
    done = run(tmp_path, "--tiny", "--out", "gpu.md")
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^\| ([a-z ]+) \| ([^|]+) \| ([^|]+) \|$", (tmp_path / "gpu.md").read_text(), re.MULTILINE)
    stages = [stage for stage, _, _ in rows]
    assert list(dict.fromkeys(stages[1:])) == [
        *("embedding", "vector search", "cross encoder", "label scorer", "sara generator"),
    ]
    assert all(float(value.split()[0].replace(",", "")) > 0 for _, _, value in rows[1:] if "skipped" not in value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    assert "no GPU" in run(tmp_path).stderr


def test_it_imports_nothing_of_okralong() -> None:
    assert not re.search(r"^\s*(from|import) okralong", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
