"""Frameworks in processes of their own, asked over pipes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


class Peer:
    """One framework's ingestion in the environment of ``python``; a context manager that ends its process."""

    def __init__(self, python: Path, name: str, model: str) -> None:
        script = Path(__file__).with_name("frameworks.py")
        self.name = name
        asked = [str(python), str(script), name, model]
        alone = {"HAYSTACK_TELEMETRY_ENABLED": "False", "HF_HUB_OFFLINE": "1"}
        self._process = subprocess.Popen(
            asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **alone}
        )

    def __enter__(self) -> Peer:
        self._told()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()

    def run(self, texts: Sequence[str]) -> tuple[float, float]:
        """Seconds by the clock, and of the processor, that the framework takes for ``texts``, measured there."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(texts)) + "\n")
        self._process.stdin.flush()
        told = self._told()
        return told["clock"], told["processor"]

    def _told(self) -> dict[str, float]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # frameworks print lines of their own
                said: dict[str, float] = json.loads(line)
                return said
        raise SystemExit(f"{self.name} ended with {self._process.wait()}")
