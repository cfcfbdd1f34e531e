"""Run a module of okralong as a child process, so that its memory and output end with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import OkraError

_IMPORT_ROOT: Final = Path(__file__).parents[3]
"""The folder of the package ``okralong`` as imported by this process."""


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs ``module`` under this interpreter."""
    return [sys.executable, "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """Return this process's environment with the same ``okralong`` first on the import path and model hubs off."""
    path = os.pathsep.join(part for part in (str(_IMPORT_ROOT), os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def run_module(module: str, *arguments: str) -> None:
    """Run ``module`` to its end without showing its output.

    Raises:
        OkraError: It failed; the message ends with the tail of its output.
    """
    done = subprocess.run(
        module_command(module, *arguments), env=module_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OkraError(
            f"{module} {' '.join(arguments)} ended with code {done.returncode}. The end of its output: "
            f"{tail(done.stdout + done.stderr)}. Check the free disk space and memory, then run the same command again."
        )


def tail(text: str, lines: int = 12) -> str:
    """Return the last lines of a log on one line, for an error message."""
    return " | ".join(line.strip() for line in text.strip().splitlines()[-lines:] if line.strip()) or "(nothing)"
