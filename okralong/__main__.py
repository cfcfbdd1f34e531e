"""``python -m okralong``: the command line of ``okralong/jobs/cli.py``."""

from __future__ import annotations

from collections.abc import Callable

from okralong.pipelines.core.stopping import run_stoppable


def _command() -> Callable[[], None]:
    from okralong.jobs.cli import run_command  # takes a second, during which signals are handled already

    return run_command


def main() -> None:
    """Run the command line."""
    run_stoppable(_command)


if __name__ == "__main__":
    main()
